// Architecture starcoder2: biases everywhere. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const starcoder2: Arch = {
  params: (meta) => readParams(meta, "starcoder2", { eps: "layer_norm_epsilon" }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.layerNorm(x, "attn_norm")); //         [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.affine(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.gelu(layer.layerNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
