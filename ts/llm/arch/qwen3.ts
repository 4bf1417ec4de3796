// Architecture qwen3: Qwen3, and its embedding models and rerankers. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const qwen3: Arch = {
  params: (meta) => readParams(meta, "qwen3"),
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({
        q: layer.ropeNeox(layer.rmsNorm(q, "attn_q_norm")),
        k: layer.ropeNeox(layer.rmsNorm(k, "attn_k_norm")),
        v,
      }); //                                                                     [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.swiglu(layer.rmsNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
  // A reranker has rows of the head for "yes" and "no".
  classify: (net, x) => net.g.softMax(net.linear(x, "cls.output", net.p.nLabels)),
  rankBy: "last",
};
