// Architecture glm4: norms after each block too, part of a head turned. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const glm4: Arch = {
  params: (meta) => readParams(meta, "glm4", { predicted: true }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.rope(q), k: layer.rope(k), v }); //     [D H, T]
      [a, x] = layer.wanted(a, x);
      a = layer.linear(a, "attn_output", p.nEmbd);
      x = g.add(layer.rmsNorm(a, "post_attention_norm"), x);
      const f = layer.fusedSwiglu(layer.rmsNorm(x, "ffn_norm"));
      x = g.add(layer.rmsNorm(f, "post_ffw_norm"), x); //                        [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
