// Architecture olmoe: experts throughout; queries and keys are normed over all heads together. Shapes: scope.ts.

import { within } from "../hparam.ts";
import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const olmoe: Arch = {
  params(meta) {
    const p = readParams(meta, "olmoe");
    within("olmoe.expert_count", p.nExpert, 1, Infinity);
    return p;
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const h = layer.rmsNorm(x, "attn_norm"); //                                [E, T]
      const q = layer.rmsNorm(layer.linear(h, "attn_q", p.nHead * p.headDimK), "attn_q_norm"); // [D H, T]
      const k = layer.rmsNorm(layer.linear(h, "attn_k", p.nHeadKv * p.headDimK), "attn_k_norm"); // [D G, T]
      const v = layer.linear(h, "attn_v", p.nHeadKv * p.headDimV); //            [D G, T]
      let a = layer.attention({
        q: layer.ropeNeox(layer.heads(q, p.headDimK)),
        k: layer.ropeNeox(layer.heads(k, p.headDimK)),
        v: layer.heads(v, p.headDimV),
      }); //                                                                     [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.experts(layer.rmsNorm(x, "ffn_norm"), {}), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
