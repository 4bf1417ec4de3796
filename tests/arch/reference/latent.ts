// deepseek2 in double precision: keys and values are decompressed for each head, whatever form the file has.
import { File64 } from "./file.ts";
import {
  add,
  attention,
  dot,
  headsOf,
  matVec,
  mul,
  rms,
  rotate,
  scale,
  silu,
  softmax,
  type Turn,
} from "./math.ts";
import type { Vec } from "./math.ts";

export class Latent64 {
  readonly f: File64;
  readonly #heads: number;
  readonly #rot: number;
  readonly #nope: number;
  readonly #dv: number;

  constructor(bytes: Uint8Array) {
    this.f = new File64(bytes);
    const { f } = this;
    this.#heads = f.num("attention.head_count");
    this.#rot = f.num("rope.dimension_count");
    this.#nope = f.num("attention.key_length_mla", f.num("attention.key_length")) - this.#rot;
    this.#dv = f.num("attention.value_length_mla", f.num("attention.value_length"));
  }

  logits(ids: readonly number[]): Vec[] {
    const { f } = this;
    let x: Vec[] = ids.map((id) => f.rows("token_embd.weight")[id]!);
    for (let i = 0; i < f.num("block_count"); i++) {
      const blk = `blk.${i}.`;
      const a = this.#attend(
        x.map((row) => this.#norm(row, `${blk}attn_norm`)),
        blk,
      );
      const h = x.map((row, t) => add(row, a[t]!));
      x = h.map((row) => add(row, this.#feed(this.#norm(row, `${blk}ffn_norm`), blk)));
    }
    return x.map((row) => matVec(f.rows("output.weight"), this.#norm(row, "output_norm")));
  }

  #norm(x: Vec, name: string): Vec {
    return rms(x, this.f.vector(`${name}.weight`), this.f.num("attention.layer_norm_rms_epsilon"));
  }

  #attend(x: Vec[], blk: string): Vec[] {
    const { f } = this;
    const turn = this.#turn();
    const c = f.num("attention.kv_lora_rank");
    const q = x.map((row, p) =>
      headsOf(this.#queries(row, blk), this.#nope + this.#rot).map((head) =>
        joined(head.slice(0, this.#nope), rotate(head.slice(this.#nope), p, turn)),
      ),
    );
    const k: Vec[][] = [];
    const v: Vec[][] = [];
    x.forEach((row, p) => {
      const kv = matVec(f.rows(`${blk}attn_kv_a_mqa.weight`), row);
      const latent = this.#norm(kv.slice(0, c), `${blk}attn_kv_a_norm`);
      const shared = rotate(kv.slice(c), p, turn);
      const heads = Array.from({ length: this.#heads }, (_, h) => this.#decompress(latent, h, blk));
      k.push(heads.map((head) => joined(head.k, shared)));
      v.push(heads.map((head) => head.v));
    });
    const mu = this.#scoreMagnitude();
    const s = (mu * mu) / Math.sqrt(this.#nope + this.#rot);
    const sees = (p: number, i: number): boolean => i <= p;
    const o = attention(q, k, v, { scale: s, cap: 0, maxBias: 0, sinks: undefined, sees });
    return o.map((row) => matVec(f.rows(`${blk}attn_output.weight`), row));
  }

  #queries(x: Vec, blk: string): Vec {
    const { f } = this;
    if (f.has(`${blk}attn_q.weight`)) return matVec(f.rows(`${blk}attn_q.weight`), x);
    const low = this.#norm(matVec(f.rows(`${blk}attn_q_a.weight`), x), `${blk}attn_q_a_norm`);
    return matVec(f.rows(`${blk}attn_q_b.weight`), low);
  }

  #decompress(latent: Vec, h: number, blk: string): { k: Vec; v: Vec } {
    const { f } = this;
    if (f.has(`${blk}attn_kv_b.weight`)) {
      const head = headsOf(matVec(f.rows(`${blk}attn_kv_b.weight`), latent), this.#nope + this.#dv)[h]!;
      return { k: head.slice(0, this.#nope), v: head.slice(this.#nope) };
    }
    const w = f.rowsOf(`${blk}attn_k_b.weight`, h); // row c, element j: what latent c adds to key element j
    const k = Float64Array.from({ length: this.#nope }, (_, j) =>
      dot(
        w.map((row) => row[j]!),
        latent,
      ),
    );
    return { k, v: matVec(f.rowsOf(`${blk}attn_v_b.weight`, h), latent) };
  }

  #stretch(): { factor: number; yarn: boolean; lambda: number } {
    const { f } = this;
    const yarn = f.text("rope.scaling.type", "linear") === "yarn";
    return {
      yarn,
      factor: f.num("rope.scaling.factor", 0) || 1,
      lambda: f.num("rope.scaling.yarn_log_multiplier", 0) / 0.1,
    };
  }

  #turnMagnitude(): number {
    const { factor, yarn, lambda } = this.#stretch();
    const own = this.f.num("rope.scaling.attn_factor", 1);
    return yarn && lambda === 0 ? own * (1 + 0.1 * Math.log(factor)) : own;
  }

  #scoreMagnitude(): number {
    const { factor, yarn, lambda } = this.#stretch();
    return this.#turnMagnitude() * (yarn ? 1 + 0.1 * lambda * Math.log(factor) : 1);
  }

  #turn(): Turn {
    const { f } = this;
    const { factor, yarn } = this.#stretch();
    return {
      base: f.num("rope.freq_base", 10000),
      n: this.#rot,
      adjacent: true,
      freqScale: 1 / factor,
      ext: yarn ? 1 : 0,
      magnitude: this.#turnMagnitude(),
      nCtxOrig: f.num("rope.scaling.original_context_length", f.num("context_length")),
      factors: undefined,
    };
  }

  #feed(x: Vec, blk: string): Vec {
    const gated = (gate: string, up: string, down: string): Vec => {
      const { f } = this;
      const h = mul(
        matVec(f.rows(`${blk}${gate}.weight`), x).map(silu),
        matVec(f.rows(`${blk}${up}.weight`), x),
      );
      return matVec(f.rows(`${blk}${down}.weight`), h);
    };
    if (!this.f.has(`${blk}ffn_gate_inp.weight`)) return gated("ffn_gate", "ffn_up", "ffn_down");
    return add(this.#experts(x, blk), gated("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"));
  }

  #experts(x: Vec, blk: string): Vec {
    const { f } = this;
    const l = matVec(f.rows(`${blk}ffn_gate_inp.weight`), x);
    const p = f.num("expert_gating_func", 1) === 2 ? l.map((z) => 1 / (1 + Math.exp(-z))) : softmax(l);
    const name = `${blk}exp_probs_b.bias`;
    const chosen = this.#choose(f.has(name) ? add(p, f.vector(name)) : p);
    let w: Vec = Float64Array.from(chosen, (e) => p[e]!);
    if (f.flag("expert_weights_norm", false)) w = scale(w, 1 / w.reduce((a, b) => a + b, 0));
    w = scale(w, f.num("expert_weights_scale", 0) || 1);
    let sum: Vec = new Float64Array(x.length);
    chosen.forEach((e, i) => {
      const part = (s: string, y: Vec): Vec => matVec(f.rowsOf(`${blk}ffn_${s}_exps.weight`, e), y);
      sum = add(sum, scale(part("down", mul(part("gate", x).map(silu), part("up", x))), w[i]!));
    });
    return sum;
  }

  #choose(score: Vec): number[] {
    const { f } = this;
    const groups = f.num("expert_group_count", 1);
    const size = score.length / groups;
    const best = (g: number): number => {
      const own = Array.from(score.slice(g * size, (g + 1) * size)).toSorted((a, b) => b - a);
      return own[0]! + own[1]!;
    };
    const order = Array.from({ length: groups }, (_, g) => g).toSorted((a, b) => best(b) - best(a));
    const kept = groups > 1 ? order.slice(0, f.num("expert_group_used_count")) : order;
    const all = Array.from(score.keys()).filter((e) => kept.includes(Math.floor(e / size)));
    return all.toSorted((a, b) => score[b]! - score[a]!).slice(0, f.num("expert_used_count"));
  }
}

function joined(a: Vec, b: Vec): Vec {
  return Float64Array.from([...a, ...b]);
}
