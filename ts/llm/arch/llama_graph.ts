// The llama graph: pre-norm blocks, grouped-query attention with adjacent-pair rope, swiglu. Reads like the model.
//
// E = nEmbd, H = nHead, G = nHeadKv, D = head size, F = nFf, V = nVocab, T = tokens in the batch, O = rows asked for.

import type { Graph } from "../../graph/graph.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { rowBytes } from "../../shape.ts";
import type { BatchInputs } from "../batch.ts";
import type { KvCache } from "../cache.ts";
import type { Params } from "../params.ts";

/** Weights by their name in the file. */
export type WeightMap = ReadonlyMap<string, Tensor>;

/** Logits [V, O] of the rows that `batch.outRows` asks for. */
export function llamaGraph(
  g: Graph,
  p: Params,
  weights: WeightMap,
  cache: KvCache,
  batch: BatchInputs,
): Tensor {
  const embd = need(weights, "token_embd.weight"); //                     [E, V]
  g.live = batch.live;
  let x = g.getRows(embd, batch.tokens); //                               [E, T]
  for (let i = 0; i < p.nLayer; i++) {
    const blk = `blk.${i}.`;
    let a = attention(g, p, weights, cache, batch, x, i); //              [E, T]
    if (i === p.nLayer - 1) {
      g.live = batch.outLive; // from here on only the rows asked for
      a = g.getRows(a, batch.outRows); //                                 [E, O]
      x = g.getRows(x, batch.outRows); //                                 [E, O]
    }
    const h = g.add(a, x).named(`${blk}attn + x`);
    x = g.add(feedForward(g, p, weights, blk, h), h);
  }
  const out = weights.get("output.weight") ?? embd; //                    [E, V]
  const logits = g.mulMat(out, norm(g, p, weights, "output_norm", x)); // [V, O]
  g.live = undefined;
  return logits.asOutput("logits");
}

function attention(
  g: Graph,
  p: Params,
  w: WeightMap,
  cache: KvCache,
  batch: BatchInputs,
  x: Tensor,
  layer: number,
): Tensor {
  const blk = `blk.${layer}.`;
  const nTokens = x.ne[1];
  const h = norm(g, p, w, `${blk}attn_norm`, x); //                       [E, T]
  const { q, k, v } = qkv(g, p, w, blk, h); //                            [D, H, T], [D, G, T], [D*G, T]
  const kRot = g.reshape(rope(g, p, w, k, batch.positions), [p.headDimK * p.nHeadKv, nTokens]);
  const kCache = g.setRows(cache.k[layer]!, kRot, batch.positions); //    [D*G, nCtx]
  const vCache = g.setRows(cache.v[layer]!, v, batch.positions); //       [D*G, nCtx]
  const o = g
    .flashAttn({
      q: g.permute(rope(g, p, w, q, batch.positions), [0, 2, 1, 3]), //     [D, T, H]
      k: heads(g, kCache, p.headDimK, p.nHeadKv), //                        [D, nCtx, G]
      v: heads(g, vCache, p.headDimV, p.nHeadKv), //                        [D, nCtx, G]
      length: batch.length,
      scale: 1 / Math.sqrt(p.headDimK),
    })
    .named(`${blk}attn`); //                                                                  [D, H, T]
  return linear(g, w, `${blk}attn_output`, g.reshape(o, [p.headDimV * p.nHead, nTokens])); // [E, T]
}

// Three products, or one whose rows are all q, then all k, then all v.
function qkv(g: Graph, p: Params, w: WeightMap, blk: string, h: Tensor): { q: Tensor; k: Tensor; v: Tensor } {
  const nTokens = h.ne[1];
  const rows = { q: p.nHead * p.headDimK, k: p.nHeadKv * p.headDimK, v: p.nHeadKv * p.headDimV };
  if (!w.has(`${blk}attn_qkv.weight`)) {
    return {
      q: g.reshape(linear(g, w, `${blk}attn_q`, h), [p.headDimK, p.nHead, nTokens]),
      k: g.reshape(linear(g, w, `${blk}attn_k`, h), [p.headDimK, p.nHeadKv, nTokens]),
      v: linear(g, w, `${blk}attn_v`, h),
    };
  }
  const all = linear(g, w, `${blk}attn_qkv`, h); //                       [q + k + v, T]
  const [, nb1] = all.nb;
  const part = (from: number, d: number, n: number): Tensor =>
    g.view(all, [d, n, nTokens], { nb: [d * 4, nb1], offset: from * 4 });
  return {
    q: part(0, p.headDimK, p.nHead),
    k: part(rows.q, p.headDimK, p.nHeadKv),
    v: g.view(all, [rows.v, nTokens], { nb: [nb1], offset: (rows.q + rows.k) * 4 }),
  };
}

function rope(g: Graph, p: Params, w: WeightMap, x: Tensor, positions: Tensor): Tensor {
  const s = p.ropeScale;
  return g.rope(x, positions, w.get("rope_freqs.weight"), {
    nDims: p.nRot,
    mode: 0,
    nCtxOrig: s.nCtxOrig,
    freqBase: p.ropeBase,
    freqScale: 1 / s.factor,
    extFactor: s.ext,
    attnFactor: s.attnFactor,
    betaFast: s.betaFast,
    betaSlow: s.betaSlow,
  });
}

// Cache rows [d * n, nCtx] seen as heads [d, nCtx, n].
function heads(g: Graph, rows: Tensor, d: number, n: number): Tensor {
  return g.view(rows, [d, rows.ne[1], n], { nb: [rows.nb[1], rowBytes(rows.type, d)], offset: 0 });
}

function feedForward(g: Graph, p: Params, w: WeightMap, blk: string, x: Tensor): Tensor {
  const h = norm(g, p, w, `${blk}ffn_norm`, x);
  const gate = linear(g, w, `${blk}ffn_gate`, h); //                      [F, T]
  const up = linear(g, w, `${blk}ffn_up`, h); //                          [F, T]
  return linear(g, w, `${blk}ffn_down`, g.swiglu(gate, up)); //           [E, T]
}

function norm(g: Graph, p: Params, w: WeightMap, name: string, x: Tensor): Tensor {
  return g.mul(g.rmsNorm(x, p.rmsEps), need(w, `${name}.weight`)).named(name);
}

function linear(g: Graph, w: WeightMap, name: string, x: Tensor): Tensor {
  const y = g.mulMat(need(w, `${name}.weight`), x).named(name);
  const bias = w.get(`${name}.bias`);
  return bias === undefined ? y : g.add(y, bias).named(`${name} + bias`);
}

function need(w: WeightMap, name: string): Tensor {
  const t = w.get(name);
  if (t === undefined) throw new Error(`${name}: not in the list of weights`);
  return t;
}
