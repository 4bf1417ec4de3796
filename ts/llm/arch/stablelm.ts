// Architecture stablelm: without a second norm both blocks read the first. Heads may be normed, each by its own weights.
// Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const stablelm: Arch = {
  params: (meta) => readParams(meta, "stablelm", { eps: "layer_norm_epsilon" }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.layerNorm(x, "attn_norm"); //                                [E, T]
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({
        q: layer.ropeNeox(layer.headNorm(q, "attn_q_norm")),
        k: layer.ropeNeox(layer.headNorm(k, "attn_k_norm")),
        v,
      }); //                                                                     [D H, T]
      [a, h, x] = layer.wanted(a, h, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      const read = layer.has("ffn_norm.weight") ? layer.layerNorm(x, "ffn_norm") : h;
      x = g.add(layer.swiglu(read), x); //                                       [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
