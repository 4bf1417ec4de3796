// Architecture llama: also Mistral 7B, Mixtral, SmolLM, TinyLlama, Yi and others that use the name. Shapes: scope.ts.

import { readParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const llama: Arch = {
  params: (meta) => readParams(meta, "llama"),
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    const factors = net.ropeFactors(); //                                        [R / 2], llama 3
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.rope(q, factors), k: layer.rope(k, factors), v }); // [D H, T]
      [a, x] = layer.wanted(a, x); //                                            last layer: [.., O]
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      const h = layer.rmsNorm(x, "ffn_norm");
      x = g.add(p.nExpert > 0 ? layer.experts(h, { norm: true }) : layer.swiglu(h), x);
    }
    return net.rmsNorm(x, "output_norm"); //                                     [E, O]
  },

  logits: (net, x) => net.logits(x), //                                          [V, O]
};
