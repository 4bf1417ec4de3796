// Architecture stablelm: without a second norm both blocks read the first. Heads may be normed, each by its own weights.
// Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import type { Layer } from "./layer.ts";

export const stablelm: Arch = {
  params: (meta) => readParams(meta, "stablelm", { eps: "layer_norm_epsilon" }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.layerNorm(x, "attn_norm"); //                                [E, T]
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({
        q: layer.ropeNeox(headNorm(layer, q, "attn_q_norm")),
        k: layer.ropeNeox(headNorm(layer, k, "attn_k_norm")),
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

// Heads [D, n, T], with a row of weights for each, where the file has them.
function headNorm(layer: Layer, x: Tensor, name: string): Tensor {
  if (!layer.has(`${name}.weight`)) return x;
  const weights = layer.vector(`${name}.weight`, x.ne[0], x.ne[1]); //           [D, n]
  return layer.g.mul(layer.g.norm(x, layer.p.normEps), weights);
}
