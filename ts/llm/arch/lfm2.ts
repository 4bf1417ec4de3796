// Architecture lfm2: most layers are short convolutions, a few attend. Shapes: scope.ts.

import { Unary } from "../../../assembly/abi.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { Type } from "../../types.ts";
import { hparam, within } from "../hparam.ts";
import { readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import type { Layer } from "./layer.ts";
import type { Net } from "./net.ts";

export const lfm2: Arch = {
  params(meta) {
    const key = "lfm2.attention.head_count_kv";
    const heads = meta.eachLayer(key, meta.u32("lfm2.block_count"));
    const [nHeadKv = 0] = heads.filter((n) => n > 0);
    if (heads.some((n) => n !== 0 && n !== nHeadKv)) throw hparam(key, heads.join(), "0 or the same number");
    const p = readParams(meta, "lfm2", { nHeadKv });
    const taps = within("lfm2.shortconv.l_cache", meta.u32("lfm2.shortconv.l_cache"), 1, 64);
    const { rope } = p.layers[0]!;
    const window = readWindow(meta, "lfm2", 0);
    return withParams(p, {
      layers: heads.map((n) => (n > 0 ? { window, rope } : { window: 0, rope: undefined, taps })),
    });
  },
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    const before = earlier(net);
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const h = layer.rmsNorm(x, "attn_norm"); //                                [E, T]
      let a = layer.params.taps === undefined ? attend(layer, h) : convolve(layer, h, before); // [E, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(
        layer.linear(a, layer.params.taps === undefined ? "attn_output" : "shortconv.out_proj", p.nEmbd),
        x,
      );
      x = g.add(layer.swiglu(layer.rmsNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.rmsNorm(x, "token_embd_norm");
  },

  logits: (net, x) => net.logits(x),
};

function attend(layer: Layer, h: Tensor): Tensor {
  const { q, k, v } = layer.qkv(h); //                                           [D, H, T], [D, G, T], [D, G, T]
  return layer.attention({
    q: layer.ropeNeox(layer.rmsNorm(q, "attn_q_norm")),
    k: layer.ropeNeox(layer.rmsNorm(k, "attn_k_norm")),
    v,
  });
}

/** An earlier position of each token. */
interface Earlier {
  /** its row in the cache, or in the batch where texts lie whole in it, I32 [T]; the first where there is none */
  readonly rows: Tensor;
  /** 1, or 0 where there is none: [1, T] */
  readonly exists: Tensor;
}

// The positions 1, 2 ... before each token, as far as a convolution reads.
function earlier({ g, p, parts }: Net): Earlier[] {
  const taps = Math.max(1, ...p.layers.map((layer) => layer.taps ?? 1));
  const positions = g.cast(parts.batch.positions, Type.F32);
  const [nTokens] = positions.ne;
  const own = parts.cache === undefined ? g.arange(0, nTokens) : positions; //   [T]
  return Array.from({ length: taps - 1 }, (_, i) => {
    const exists = g.unary(g.scale(positions, 1, -(i + 0.5)), Unary.STEP);
    return {
      rows: g.cast(g.clamp(g.scale(own, 1, -(i + 1)), 0, Infinity), Type.I32),
      exists: g.reshape(exists, [1, nTokens]),
    };
  });
}

// [b | g | u] = W_in h; each channel of b u is filtered over the last positions, those of the cache too, times g: [E, T].
function convolve(layer: Layer, h: Tensor, before: readonly Earlier[]): Tensor {
  const { g, p, params, parts } = layer;
  const taps = params.taps!;
  const all = layer.linear(h, "shortconv.in_proj", 3 * p.nEmbd); //              [3 E, T]
  const part = (i: number): Tensor =>
    g.view(all, [p.nEmbd, h.ne[1]], { nb: [all.nb[1]], offset: 4 * i * p.nEmbd });
  const bu = g.mul(part(0), part(2)); //                                         [E, T]
  const { live } = g;
  g.live = undefined; // the taps are no columns of the batch
  const filter = g.cont(g.transpose(layer.vector("shortconv.conv.weight", taps, p.nEmbd))); // [E, taps]
  g.live = live;
  const tap = (i: number): Tensor => g.view(filter, [p.nEmbd], { offset: i * filter.nb[1] });
  const { cache, batch } = parts;
  const rows = cache === undefined ? bu : g.setRows(cache.k[layer.index]!, bu, batch.positions); // [E, nCtx]
  let y = g.mul(bu, tap(taps - 1));
  before.slice(0, taps - 1).forEach((at, i) => {
    const row = g.mul(g.getRows(rows, at.rows), at.exists); //                   [E, T]
    y = g.add(g.mul(row, tap(taps - 2 - i)), y);
  });
  return g.mul(y, part(1));
}
