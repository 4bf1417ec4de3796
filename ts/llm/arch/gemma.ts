// Architecture gemma. The norms' weights have the model's 1 added already. Shapes: scope.ts.

import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const gemma: Arch = {
  params(meta) {
    const p = readParams(meta, "gemma");
    return withParams(p, { embdScale: Math.sqrt(p.nEmbd) });
  },
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.geglu(layer.rmsNorm(x, "ffn_norm")), x); //                [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.tiedLogits(x),
};
