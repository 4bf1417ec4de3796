// Architecture phi3: Phi-3, Phi-3.5, Phi-4 and Phi-4-mini. Factors of longrope for all layers. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const phi3: Arch = {
  params: (meta) => readParams(meta, "phi3"),

  rows(net) {
    const { g, p } = net;
    const factors = net.ropeFactors(); //                                        [R / 2]
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q, factors), k: layer.ropeNeox(k, factors), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.fusedSwiglu(layer.rmsNorm(x, "ffn_norm")), x); //          [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
