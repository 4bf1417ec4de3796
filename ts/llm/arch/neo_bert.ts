// Architecture neo-bert: an encoder with norms before each block, neighbours turned, one matrix for gate and up.
// Shapes: scope.ts.

import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import { classifier } from "./classifier.ts";

export const neoBert: Arch = {
  params: (meta) => withParams(readParams(meta, "neo-bert"), { causal: false }),

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.rope(q), k: layer.rope(k), v }); //     [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.fusedSwiglu(layer.rmsNorm(x, "ffn_norm")), x); //          [E, T]
    }
    return net.rmsNorm(x, "enc.output_norm");
  },

  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};
