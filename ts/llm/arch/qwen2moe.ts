// Architecture qwen2moe: Qwen1.5-MoE, Qwen2-57B-A14B. Experts, and one more that every token uses. Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { expertParams, readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import type { Layer } from "./layer.ts";

export const qwen2moe: Arch = {
  params(meta) {
    const p = expertParams(meta, readParams(meta, "qwen2moe"));
    return p.nFfShared > 0 ? p : withParams(p, { nFfShared: p.nFf });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      const h = layer.rmsNorm(x, "ffn_norm");
      x = g.add(g.add(layer.experts(h, {}), gated(layer, h)), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};

// The shared expert, with a weight of its own for each token.
function gated(layer: Layer, h: Tensor): Tensor {
  const { g, p } = layer;
  const w = g.sigmoid(g.mulMat(layer.vector("ffn_gate_inp_shexp.weight", p.nEmbd), h)); // [1, T]
  return g.mul(layer.sharedExpert(h), w);
}
