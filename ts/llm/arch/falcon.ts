// Architecture falcon: attention and feed-forward block side by side; the 40B model has a second norm, for attention.
// Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const falcon: Arch = {
  params: (meta) => readParams(meta, "falcon", { eps: "layer_norm_epsilon" }),
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.layerNorm(x, "attn_norm"); //                                [E, T]
      const read = layer.has("attn_norm_2.weight") ? layer.layerNorm(x, "attn_norm_2") : h;
      const { q, k, v } = layer.qkv(read); //                                    [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, h, x] = layer.wanted(a, h, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.gelu(h), x); //                                            [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
