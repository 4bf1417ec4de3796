// Architecture phi2: Phi-1, 1.5 and 2. One norm feeds attention and feed-forward block. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const phi2: Arch = {
  params: (meta) => readParams(meta, "phi2", { eps: "layer_norm_epsilon" }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.layerNorm(x, "attn_norm"); //                                [E, T]
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, h, x] = layer.wanted(a, h, x);
      x = g.add(layer.affine(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.gelu(h), x); //                                            [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
