// Architecture qwen3moe: Qwen3-30B-A3B and its kin. Shapes: scope.ts.

import { expertParams, readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const qwen3moe: Arch = {
  params: (meta) => expertParams(meta, readParams(meta, "qwen3moe")),
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
      x = g.add(layer.experts(layer.rmsNorm(x, "ffn_norm"), { norm: true }), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
