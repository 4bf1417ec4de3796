// Whole models in double precision. What the architectures have in common is written once, what they differ in is a row
// of a table; both from their published definitions, apart from the library's own graphs.
import { File64 } from "./file.ts";
import {
  add,
  attention,
  gelu,
  headsOf,
  layerNorm,
  matVec,
  mul,
  rms,
  rotate,
  scale,
  silu,
  softmax,
  type Turn,
  type Vec,
} from "./math.ts";

interface Kind {
  readonly norm: "rms" | "ln" | "ln-plain";
  readonly turn: "adjacent" | "neox" | "none";
  /** where the norms of a layer stand */
  readonly block: "pre" | "pre+post" | "post" | "parallel" | "encoder";
  readonly ffn: "swiglu" | "geglu" | "gelu" | "fused-swiglu" | "fused-geglu";
  /** queries and keys are normed by head, or all heads together */
  readonly qkNorm?: "head" | "all";
  /** layers that slide: period (the last of each is full), or the first */
  readonly period?: number;
  readonly fullFirst?: boolean;
  readonly window?: number;
  /** base of the layers that slide */
  readonly localBase?: number;
  /** the layers that slide are not stretched */
  readonly localPlain?: "factor" | "all";
  /** full layers are not turned */
  readonly fullUnturned?: boolean;
  readonly gating?: "softmax" | "softmax_weight";
  readonly gateNorm?: boolean;
  readonly finalNorm?: string;
}

const KINDS: Readonly<Record<string, Kind>> = {
  llama: { norm: "rms", turn: "adjacent", block: "pre", ffn: "swiglu", gateNorm: true },
  mistral3: { norm: "rms", turn: "adjacent", block: "pre", ffn: "swiglu", gateNorm: true },
  granite: { norm: "rms", turn: "adjacent", block: "pre", ffn: "swiglu", gateNorm: true },
  qwen2: { norm: "rms", turn: "neox", block: "pre", ffn: "swiglu" },
  qwen3: { norm: "rms", turn: "neox", block: "pre", ffn: "swiglu", qkNorm: "head" },
  phi3: { norm: "rms", turn: "neox", block: "pre", ffn: "fused-swiglu" },
  gemma2: { norm: "rms", turn: "neox", block: "pre+post", ffn: "geglu", period: 2, window: 4096 },
  gemma3: {
    norm: "rms",
    turn: "neox",
    block: "pre+post",
    ffn: "geglu",
    qkNorm: "head",
    period: 6,
    localBase: 10000,
    localPlain: "factor",
  },
  "gpt-oss": {
    norm: "rms",
    turn: "neox",
    block: "pre",
    ffn: "swiglu",
    period: 2,
    gating: "softmax_weight",
  },
  olmo2: {
    norm: "rms",
    turn: "neox",
    block: "post",
    ffn: "swiglu",
    qkNorm: "all",
    period: 4,
    localPlain: "all",
  },
  exaone4: { norm: "rms", turn: "neox", block: "post", ffn: "swiglu", qkNorm: "head" },
  cohere2: {
    norm: "ln-plain",
    turn: "adjacent",
    block: "parallel",
    ffn: "swiglu",
    period: 4,
    fullUnturned: true,
  },
  "command-r": { norm: "ln-plain", turn: "adjacent", block: "parallel", ffn: "swiglu" },
  eurobert: { norm: "rms", turn: "neox", block: "pre", ffn: "swiglu" },
  "neo-bert": {
    norm: "rms",
    turn: "adjacent",
    block: "pre",
    ffn: "fused-swiglu",
    finalNorm: "enc.output_norm",
  },
  falcon: { norm: "ln", turn: "neox", block: "parallel", ffn: "gelu" },
  stablelm: { norm: "ln", turn: "neox", block: "pre", ffn: "swiglu" },
  gptneox: { norm: "ln", turn: "neox", block: "pre", ffn: "gelu" },
  bert: { norm: "ln", turn: "none", block: "encoder", ffn: "gelu" },
  "nomic-bert-moe": { norm: "ln", turn: "neox", block: "encoder", ffn: "gelu" },
  "jina-bert-v3": { norm: "ln", turn: "neox", block: "encoder", ffn: "gelu" },
  "jina-bert-v2": { norm: "ln", turn: "none", block: "encoder", ffn: "geglu" },
  "modern-bert": {
    norm: "ln-plain",
    turn: "neox",
    block: "pre",
    ffn: "fused-geglu",
    period: 3,
    fullFirst: true,
  },
  "gemma-embedding": {
    norm: "rms",
    turn: "neox",
    block: "pre+post",
    ffn: "geglu",
    qkNorm: "head",
    period: 6,
    localBase: 10000,
    localPlain: "factor",
  },
};

const ENCODERS =
  "bert nomic-bert-moe jina-bert-v2 jina-bert-v3 modern-bert neo-bert eurobert gemma-embedding".split(" ");

/** One model in double precision. */
export class Model64 {
  readonly f: File64;
  readonly kind: Kind;
  readonly causal: boolean;
  readonly #heads: number;
  readonly #d: number;
  readonly #dv: number;
  readonly #layers: number;

  constructor(bytes: Uint8Array) {
    this.f = new File64(bytes);
    const { f } = this;
    this.kind = KINDS[f.arch]!;
    this.causal = !ENCODERS.includes(f.arch);
    this.#heads = f.num("attention.head_count");
    this.#d = f.num("attention.key_length", f.num("embedding_length") / this.#heads);
    this.#dv = f.num("attention.value_length", f.num("embedding_length") / this.#heads);
    this.#layers = f.num("block_count") - f.num("nextn_predict_layers", 0);
  }

  /** Logits after each token. */
  logits(ids: readonly number[]): Vec[] {
    const { f } = this;
    const out = f.has("output.weight") ? f.rows("output.weight") : f.rows("token_embd.weight");
    const divides = f.arch === "granite";
    const s = f.num("logit_scale", 1);
    const cap = f.num("final_logit_softcapping", f.arch === "gemma2" ? 30 : 0);
    return this.rows(ids).map((x) => {
      const y = scale(matVec(out, x), divides ? 1 / s : s);
      return cap === 0 ? y : y.map((z) => cap * Math.tanh(z / cap));
    });
  }

  /** Rows of the last layer, normed. */
  rows(ids: readonly number[]): Vec[] {
    const { kind } = this;
    let x = ids.map((id, p) => this.#embedding(id, p));
    for (let i = 0; i < this.#layers; i++) x = this.#layer(x, i);
    if (kind.block === "encoder") return x;
    return x.map((row) => this.#norm(row, kind.finalNorm ?? "output_norm"));
  }

  #embedding(id: number, position: number): Vec {
    const { f } = this;
    let x = f.rows("token_embd.weight")[id]!;
    if (f.arch.startsWith("gemma")) x = scale(x, Math.sqrt(x.length));
    x = scale(x, f.num("embedding_scale", 1) || 1);
    if (f.has("token_types.weight")) x = add(x, f.rows("token_types.weight")[0]!);
    if (f.has("position_embd.weight")) x = add(x, f.rows("position_embd.weight")[position]!);
    return f.has("token_embd_norm.weight") ? this.#norm(x, "token_embd_norm") : x;
  }

  #layer(x: Vec[], i: number): Vec[] {
    const { f, kind } = this;
    const blk = `blk.${i}.`;
    const has = (name: string): boolean => f.has(`${blk}${name}.weight`);
    const norm = (rows: Vec[], name: string): Vec[] => rows.map((row) => this.#norm(row, blk + name));
    const r = f.num("residual_scale", 1) || 1;
    const plus = (a: Vec[], b: Vec[]): Vec[] => a.map((row, t) => add(row, b[t]!));
    const residual = (a: Vec[], b: Vec[]): Vec[] =>
      plus(
        a,
        b.map((row) => scale(row, r)),
      );
    switch (kind.block) {
      case "post": {
        const h = plus(x, norm(this.#attend(x, i), "post_attention_norm"));
        return plus(h, norm(this.#feed(h, i), "post_ffw_norm"));
      }
      case "pre+post": {
        const h = plus(x, norm(this.#attend(norm(x, "attn_norm"), i), "post_attention_norm"));
        return plus(h, norm(this.#feed(norm(h, "ffn_norm"), i), "post_ffw_norm"));
      }
      case "parallel": {
        const h = norm(x, "attn_norm");
        const a = this.#attend(has("attn_norm_2") ? norm(x, "attn_norm_2") : h, i);
        return plus(plus(x, a), this.#feed(h, i));
      }
      case "encoder": {
        let h = norm(plus(x, this.#attend(x, i)), "attn_output_norm");
        if (has("attn_norm_2")) h = norm(plus(h, x), "attn_norm_2");
        return norm(plus(h, this.#feed(h, i)), "layer_output_norm");
      }
      default: {
        const n = has("attn_norm") ? norm(x, "attn_norm") : x;
        const h = residual(x, this.#attend(n, i));
        const second = f.arch === "gpt-oss" ? "post_attention_norm" : "ffn_norm";
        if (f.arch === "gptneox" && f.flag("use_parallel_residual", true)) {
          return plus(h, this.#feed(norm(x, second), i));
        }
        return residual(h, this.#feed(has(second) ? norm(h, second) : n, i));
      }
    }
  }

  #norm(x: Vec, name: string): Vec {
    const { f, kind } = this;
    const w = f.vector(`${name}.weight`);
    if (kind.norm === "rms") return rms(x, w, f.num("attention.layer_norm_rms_epsilon"));
    const b = f.has(`${name}.bias`) ? f.vector(`${name}.bias`) : undefined;
    return layerNorm(x, w, b, f.num("attention.layer_norm_epsilon"));
  }

  #linear(x: Vec, name: string): Vec {
    const y = matVec(this.f.rows(`${name}.weight`), x);
    return this.f.has(`${name}.bias`) ? add(y, this.f.vector(`${name}.bias`)) : y;
  }

  // ---- attention

  #attend(x: Vec[], i: number): Vec[] {
    const { f } = this;
    const blk = `blk.${i}.`;
    const q: Vec[][] = [];
    const k: Vec[][] = [];
    const v: Vec[][] = [];
    x.forEach((row, p) => {
      const parts = this.#qkv(row, blk);
      q.push(this.#heads64(parts.q, `${blk}attn_q_norm`, p, i).map((h) => scale(h, this.#louder(p))));
      k.push(this.#heads64(parts.k, `${blk}attn_k_norm`, p, i));
      v.push(headsOf(parts.v, this.#dv));
    });
    const o = attention(q, k, v, {
      scale: this.#scoreScale(),
      cap: f.num("attn_logit_softcapping", f.arch === "gemma2" ? 50 : 0),
      maxBias: f.arch === "jina-bert-v2" ? 8 : 0,
      sinks: f.has(`${blk}attn_sinks.weight`) ? f.vector(`${blk}attn_sinks.weight`) : undefined,
      sees: this.#sees(i),
    });
    return o.map((row) => this.#linear(row, `${blk}attn_output`));
  }

  #qkv(x: Vec, blk: string): { q: Vec; k: Vec; v: Vec } {
    const kv = this.f.num("attention.head_count_kv", this.#heads);
    const [nq, nk] = [this.#heads * this.#d, kv * this.#d];
    if (!this.f.has(`${blk}attn_qkv.weight`)) {
      const [q, k, v] = ["q", "k", "v"].map((name) => this.#linear(x, `${blk}attn_${name}`)) as [
        Vec,
        Vec,
        Vec,
      ];
      return { q, k, v };
    }
    const all = this.#linear(x, `${blk}attn_qkv`);
    return { q: all.slice(0, nq), k: all.slice(nq, nq + nk), v: all.slice(nq + nk) };
  }

  #heads64(x: Vec, norm: string, position: number, layer: number): Vec[] {
    const { f, kind } = this;
    const has = f.has(`${norm}.weight`);
    const together = kind.qkNorm === "all" || f.arch === "jina-bert-v2";
    const heads = headsOf(has && together ? this.#norm(x, norm) : x, this.#d);
    const turn = this.#turn(layer);
    return heads.map((head, h) => {
      let y = head;
      if (has && kind.qkNorm === "head") y = this.#norm(head, norm);
      if (has && ["stablelm", "command-r"].includes(f.arch)) {
        y = layerNorm(head, f.rows(`${norm}.weight`)[h]!, undefined, f.num("attention.layer_norm_epsilon"));
      }
      return turn === undefined ? y : rotate(y, position, turn);
    });
  }

  // mistral3: queries grow with the position.
  #louder(p: number): number {
    const s = this.f.num("attention.temperature_scale", 0);
    const n = this.f.num("rope.scaling.original_context_length", this.f.num("context_length"));
    return 1 + s * Math.log(1 + Math.floor(p / n));
  }

  #scoreScale(): number {
    const { f } = this;
    const largest = { gemma2: 46, gemma3: 62 }[f.arch];
    if (largest === this.#layers) return 1 / Math.sqrt(Math.floor(f.num("embedding_length") / this.#heads));
    return f.num("attention.scale", 0) || 1 / Math.sqrt(this.#d);
  }

  #windowOf(): number {
    const { f, kind } = this;
    if (f.arch === "exaone4") return this.#layers === 64 ? f.num("attention.sliding_window", 4096) : 0;
    return kind.period === undefined ? 0 : f.num("attention.sliding_window", kind.window ?? 0);
  }

  #slides(layer: number): boolean {
    const { f, kind } = this;
    if (this.#windowOf() === 0) return false;
    const listed = f.list("attention.sliding_window_pattern") !== undefined; // a list does not count
    const key = "attention.sliding_window_pattern";
    const period = f.arch === "exaone4" ? 4 : listed ? kind.period! : f.num(key, kind.period);
    if (period === 0) return true;
    return kind.fullFirst ? layer % period !== 0 : layer % period !== period - 1;
  }

  #sees(layer: number): (p: number, q: number) => boolean {
    const window = this.#slides(layer) ? this.#windowOf() : Infinity;
    if (!this.causal) return (p, q) => Math.abs(p - q) <= Math.floor(window / 2);
    return (p, q) => q <= p && p - q < window;
  }

  #turn(layer: number): Turn | undefined {
    const { f, kind } = this;
    const local = this.#slides(layer);
    const windowed = this.#windowOf() > 0;
    if (kind.turn === "none" || (f.arch === "granite" && !f.flag("rope.scaling.finetuned", true)))
      return undefined;
    if ((kind.fullUnturned || f.arch === "exaone4") && windowed && !local) return undefined;
    const base = f.num("rope.freq_base", 10000);
    const type = f.text("rope.scaling.type", "linear");
    const factor = type === "none" ? 1 : f.num("rope.scaling.factor", 0) || 1;
    const yarn = type === "yarn" ? 1 : 0;
    const lambda = f.num("rope.scaling.yarn_log_multiplier", 0);
    const grow = (m: number): number => (factor > 1 ? 1 + 0.1 * m * Math.log(factor) : 1);
    const magnitude = f.num("rope.scaling.attn_factor", 1) * (yarn ? grow(1) / grow(lambda) : 1);
    const nCtxOrig = f.num("rope.scaling.original_context_length", f.num("context_length"));
    const common = {
      n: f.num("rope.dimension_count", this.#d),
      adjacent: kind.turn === "adjacent",
      nCtxOrig,
      factors: this.#factors(nCtxOrig),
    };
    const own = f.num("rope.freq_base_swa", kind.localBase ?? base);
    if (local && kind.localPlain === "all") {
      return { ...common, base: own, freqScale: 1, ext: 0, magnitude: 1 };
    }
    if (local && kind.localPlain === "factor") {
      // not stretched: the magnitude is what the operator makes of a factor of 1
      const plain = yarn ? magnitude / (1 + 0.1 * Math.log(factor)) : magnitude;
      return { ...common, base: own, freqScale: 1, ext: yarn, magnitude: plain };
    }
    return { ...common, base: local ? own : base, freqScale: 1 / factor, ext: yarn, magnitude };
  }

  // The test's models have contexts of at most 256.
  #factors(nCtxOrig: number): Vec | undefined {
    const { f } = this;
    if (f.has("rope_freqs.weight")) return f.vector("rope_freqs.weight");
    const name = `rope_factors_${nCtxOrig < 256 ? "long" : "short"}.weight`;
    return f.has(name) ? f.vector(name) : undefined;
  }

  // ---- feed-forward

  #feed(x: Vec[], layer: number): Vec[] {
    const blk = `blk.${layer}.`;
    const routed = this.f.has(`${blk}ffn_gate_inp.weight`);
    return x.map((row) => (routed ? this.#experts(row, blk) : this.#dense(row, blk)));
  }

  #dense(x: Vec, blk: string): Vec {
    const { f, kind } = this;
    const up = this.#linear(x, `${blk}ffn_up`);
    const gated = f.has(`${blk}ffn_gate.weight`) ? this.#linear(x, `${blk}ffn_gate`) : undefined;
    return this.#linear(activate(kind.ffn, f.num("feed_forward_length"), gated, up), `${blk}ffn_down`);
  }

  #experts(x: Vec, blk: string): Vec {
    const { f, kind } = this;
    const scores = this.#linear(x, `${blk}ffn_gate_inp`);
    const p = kind.gating === "softmax_weight" ? scores : softmax(scores);
    const order = Array.from(p.keys()).toSorted((a, b) => p[b]! - p[a]!);
    const chosen = order.slice(0, f.num("expert_used_count"));
    let w: Vec = Float64Array.from(chosen, (e) => p[e]!);
    if (kind.gating === "softmax_weight") w = softmax(w);
    if (kind.gateNorm) w = scale(w, 1 / w.reduce((a, b) => a + b, 0));
    let sum: Vec = new Float64Array(x.length);
    chosen.forEach((e, i) => (sum = add(sum, scale(this.#expert(x, blk, e), w[i]!))));
    return sum;
  }

  #expert(x: Vec, blk: string, e: number): Vec {
    const { f } = this;
    const product = (name: string, y: Vec): Vec => {
      const z = matVec(f.rowsOf(`${blk}${name}.weight`, e), y);
      return f.has(`${blk}${name}.bias`) ? add(z, f.rows(`${blk}${name}.bias`)[e]!) : z;
    };
    const up = product("ffn_up_exps", x);
    if (!f.has(`${blk}ffn_gate_exps.weight`)) return product("ffn_down_exps", up.map(gelu));
    const gate = product("ffn_gate_exps", x);
    return product("ffn_down_exps", f.arch === "gpt-oss" ? clamped(gate, up) : mul(gate.map(silu), up));
  }
}

function activate(ffn: Kind["ffn"], width: number, gate: Vec | undefined, up: Vec): Vec {
  const act = ffn.endsWith("swiglu") ? silu : gelu;
  if (gate !== undefined) return mul(gate.map(act), up);
  if (up.length === 2 * width) return mul(up.slice(0, width).map(act), up.slice(width));
  return up.map(act);
}

// The activation of gpt-oss.
function clamped(gate: Vec, up: Vec): Vec {
  return gate.map((g, i) => {
    const x = Math.min(g, 7);
    return (x / (1 + Math.exp(-1.702 * x))) * (Math.min(7, Math.max(-7, up[i]!)) + 1);
  });
}
