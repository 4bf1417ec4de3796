// One layer of a network under construction: queries, keys and values, attention, feed-forward blocks.

import type { Tensor } from "../../graph/tensor.ts";
import { isContiguous, rowBytes } from "../../shape.ts";
import type { LayerParams } from "../params.ts";
import { experts, type Routing } from "./experts.ts";
import { type Parts, Scope } from "./scope.ts";

/** Heads of the tokens of a batch. */
export interface Qkv {
  /** [D, H, T] */
  readonly q: Tensor;
  /** [D, G, T] */
  readonly k: Tensor;
  /** [D, G, T] */
  readonly v: Tensor;
}

// Which elements of a head turn together: i and i + 1, or i and i + nRot / 2.
const ADJACENT = 0;
const NEOX = 2;

/** Weights are named below `blk.N.`. */
export class Layer extends Scope {
  readonly index: number;
  readonly params: LayerParams;

  constructor(parts: Parts, index: number) {
    super(parts, `blk.${index}.`);
    this.index = index;
    this.params = parts.p.layers[index]!;
  }

  /** Queries, keys and values of x [E, T]: three products, or one whose rows are all q, then all k, then all v. */
  qkv(x: Tensor): Qkv {
    const { nHead, nHeadKv, headDimK, headDimV } = this.p;
    const [nQ, nK, nV] = [nHead * headDimK, nHeadKv * headDimK, nHeadKv * headDimV];
    if (!this.has("attn_qkv.weight")) {
      return {
        q: this.heads(this.linear(x, "attn_q", nQ), headDimK),
        k: this.heads(this.linear(x, "attn_k", nK), headDimK),
        v: this.heads(this.linear(x, "attn_v", nV), headDimV),
      };
    }
    const all = this.linear(x, "attn_qkv", nQ + nK + nV); //                     [q + k + v, T]
    return {
      q: this.heads(this.#part(all, 0, nQ), headDimK),
      k: this.heads(this.#part(all, nQ, nK), headDimK),
      v: this.heads(this.#part(all, nQ + nK, nV), headDimV),
    };
  }

  /** Rows [n d, T] seen as n heads of d elements: [d, n, T]. */
  heads(x: Tensor, d: number): Tensor {
    const ne = [d, x.ne[0] / d, x.ne[1]];
    if (isContiguous(x.type, x.ne, x.nb)) return this.g.reshape(x, ne);
    return this.g.view(x, ne, { nb: [rowBytes(x.type, d), x.nb[1]] });
  }

  /** Heads [d, n, T] seen as rows [n d, T]; the heads of a token lie one after the other. */
  rowsOf(x: Tensor): Tensor {
    const [d, n, nTokens] = x.ne;
    if (isContiguous(x.type, x.ne, x.nb)) return this.g.reshape(x, [d * n, nTokens]);
    return this.g.view(x, [d * n, nTokens], { nb: [x.nb[2]] });
  }

  /** Heads [d, n, T] normed, with a row of weights for each head; unchanged where the file has none. */
  headNorm(x: Tensor, name: string): Tensor {
    if (!this.has(`${name}.weight`)) return x;
    const weights = this.vector(`${name}.weight`, x.ne[0], x.ne[1]); //           [d, n]
    return this.g.mul(this.g.norm(x, this.p.normEps), weights);
  }

  /** Heads [d, n, T] turned by their positions, neighbours in pairs; unchanged in a layer without rotation. */
  rope(x: Tensor, factors?: Tensor): Tensor {
    return this.#rotate(x, ADJACENT, factors);
  }

  /** The same, the two halves of what is rotated in pairs. */
  ropeNeox(x: Tensor, factors?: Tensor): Tensor {
    return this.#rotate(x, NEOX, factors);
  }

  /** Attention of queries [D, H, T] over all that a token may see: [D H, T]. Keys and values go to the cache. */
  attention({ q, k, v }: Qkv, sinks?: Tensor): Tensor {
    return this.#attend(q, this.#seen(k, v), sinks);
  }

  /** Attention of which the first `headDimV` elements of a key are the value: [headDimV H, T]. Keys go to the cache. */
  latentAttention(q: Tensor, k: Tensor, headDimV: number): Tensor {
    const { cache } = this.parts;
    const all = cache === undefined ? this.#byHead(k) : this.#stored(cache.k[this.index]!, k);
    const [, cells, n] = all.ne;
    const v = this.g.view(all, [headDimV, cells, n], { nb: [all.nb[1], all.nb[2]] });
    return this.#attend(q, { k: all, v });
  }

  #attend(q: Tensor, seen: { readonly k: Tensor; readonly v: Tensor }, sinks?: Tensor): Tensor {
    const { g, p, parts } = this;
    const { window } = this.params;
    const o = g.flashAttn({
      q: this.#byHead(q), //                                                     [D, T, H]
      ...seen,
      sinks,
      length: parts.cache === undefined ? undefined : parts.batch.length,
      spans: parts.cache === undefined ? parts.batch.spans : undefined,
      scale: p.attnScale,
      softcap: p.attnSoftcap,
      maxBias: p.maxBias,
      window,
      twoSided: window > 0 && !p.causal,
    });
    const [d, nHead, nTokens] = o.named(`${this.prefix}attn`).ne; //             [D, H, T]
    return g.reshape(o, [d * nHead, nTokens]);
  }

  /** In the last layer the rows asked for, [n, O] of each [n, T]; elsewhere all. */
  wanted<T extends readonly Tensor[]>(...rows: T): { [K in keyof T]: Tensor } {
    const { batch } = this.parts;
    if (this.index < this.p.nLayer - 1 || batch.outRows === undefined)
      return rows as { [K in keyof T]: Tensor };
    const ids = batch.outRows;
    this.g.live = batch.outLive; // from here on only these are computed
    return rows.map((x) => this.g.getRows(x, ids)) as { [K in keyof T]: Tensor };
  }

  /** W_down (act(W_gate x) * W_up x) with silu: [E, T]. */
  swiglu(x: Tensor): Tensor {
    const { nFf } = this.p;
    const gate = this.linear(x, "ffn_gate", nFf); //                             [F, T]
    const up = this.linear(x, "ffn_up", nFf); //                                 [F, T]
    return this.linear(this.g.swiglu(gate, up), "ffn_down", this.p.nEmbd);
  }

  /** The same with gelu. */
  geglu(x: Tensor): Tensor {
    const { nFf } = this.p;
    const gate = this.linear(x, "ffn_gate", nFf); //                             [F, T]
    const up = this.linear(x, "ffn_up", nFf); //                                 [F, T]
    return this.linear(this.g.geglu(gate, up), "ffn_down", this.p.nEmbd);
  }

  /** swiglu with one matrix for both: rows of the gate, then of up. */
  fusedSwiglu(x: Tensor): Tensor {
    const both = this.linear(x, "ffn_up", 2 * this.p.nFf); //                    [2 F, T]
    return this.linear(this.g.swiglu(both), "ffn_down", this.p.nEmbd);
  }

  /** geglu with one matrix for both. */
  fusedGeglu(x: Tensor): Tensor {
    const both = this.linear(x, "ffn_up", 2 * this.p.nFf); //                    [2 F, T]
    return this.linear(this.g.geglu(both), "ffn_down", this.p.nEmbd);
  }

  /** W_down gelu(W_up x): [E, T]. */
  gelu(x: Tensor): Tensor {
    const up = this.linear(x, "ffn_up", this.p.nFf); //                          [F, T]
    return this.linear(this.g.gelu(up), "ffn_down", this.p.nEmbd);
  }

  /** The few experts that each token is sent to: [E, T]. */
  experts(x: Tensor, routing: Routing): Tensor {
    return experts(this, x, routing);
  }

  /** The expert that every token uses: [E, T]. */
  sharedExpert(x: Tensor): Tensor {
    const { nFfShared, nEmbd } = this.p;
    const gate = this.linear(x, "ffn_gate_shexp", nFfShared); //                 [F, T]
    const up = this.linear(x, "ffn_up_shexp", nFfShared); //                     [F, T]
    return this.linear(this.g.swiglu(gate, up), "ffn_down_shexp", nEmbd);
  }

  #part(x: Tensor, from: number, n: number): Tensor {
    return this.g.view(x, [n, x.ne[1]], { nb: [x.nb[1]], offset: rowBytes(x.type, from) });
  }

  #rotate(x: Tensor, mode: number, factors: Tensor | undefined): Tensor {
    const { rope } = this.params;
    if (rope === undefined) return x;
    const { base, scaling } = rope;
    return this.g.rope(x, this.parts.batch.positions, factors, {
      nDims: this.p.nRot,
      mode,
      nCtxOrig: scaling.nCtxOrig,
      freqBase: base,
      freqScale: 1 / scaling.factor,
      extFactor: scaling.ext,
      attnFactor: scaling.attnFactor,
      betaFast: scaling.betaFast,
      betaSlow: scaling.betaSlow,
    });
  }

  // Keys and values that the tokens of the batch may see, [D, cells, G]: those of the cache, or of the batch itself.
  #seen(k: Tensor, v: Tensor): { k: Tensor; v: Tensor } {
    const { cache } = this.parts;
    if (cache === undefined) return { k: this.#byHead(k), v: this.#byHead(v) };
    return {
      k: this.#stored(cache.k[this.index]!, k),
      v: this.#stored(cache.v[this.index]!, v),
    };
  }

  // Heads of each token [d, n, T] as tokens of each head [d, T, n].
  #byHead(x: Tensor): Tensor {
    return this.g.permute(x, [0, 2, 1, 3]);
  }

  // Writes heads [d, n, T] to their rows of a cache [d n, cells], and sees it as [d, cells, n].
  #stored(cache: Tensor, x: Tensor): Tensor {
    const { g } = this;
    const [d, n] = x.ne;
    const all = g.setRows(cache, this.rowsOf(x), this.parts.batch.positions);
    return g.view(all, [d, all.ne[1], n], { nb: [all.nb[1], rowBytes(all.type, d)] });
  }
}
