// Architecture gpt2: learned positions, biases everywhere. Shapes: scope.ts.

import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const gpt2: Arch = {
  params(meta) {
    const p = readParams(meta, "gpt2", { eps: "layer_norm_epsilon", rope: false });
    return withParams(p, { learnedPositions: true });
  },

  rows(net) {
    const { g, p } = net;
    let x = g.add(net.embeddings(), net.positionEmbeddings()); //                [E, T]
    for (const layer of net.layers()) {
      let a = layer.attention(layer.qkv(layer.layerNorm(x, "attn_norm"))); //    [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.affine(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.gelu(layer.layerNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
