// Architecture command-r: Command R and R+, Aya. One norm feeds attention and feed-forward block; queries and keys may be
// normed, each head by its own weights. Shapes: scope.ts.

import { positive } from "../hparam.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const commandR: Arch = {
  params(meta) {
    const key = "command-r.logit_scale";
    const p = readParams(meta, "command-r", { eps: "layer_norm_epsilon" });
    return withParams(p, { logitScale: positive(key, meta.f32(key)) });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.plainLayerNorm(x, "attn_norm"); //                           [E, T]
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({
        q: layer.rope(layer.headNorm(q, "attn_q_norm")),
        k: layer.rope(layer.headNorm(k, "attn_k_norm")),
        v,
      }); //                                                                     [D H, T]
      [a, h, x] = layer.wanted(a, h, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.swiglu(h), x); //                                          [E, T]
    }
    return net.plainLayerNorm(x, "output_norm");
  },

  logits: (net, x) => net.tiedLogits(x),
};
