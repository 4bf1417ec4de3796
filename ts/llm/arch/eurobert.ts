// Architecture eurobert: an encoder of llama blocks. Shapes: scope.ts.

import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const euroBert: Arch = {
  params: (meta) => withParams(readParams(meta, "eurobert"), { causal: false }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.swiglu(layer.rmsNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },
};
