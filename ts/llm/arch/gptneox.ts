// Architecture gptneox: GPT-NeoX, Pythia, Dolly. Both blocks may read the same rows, each through its own norm.
// Shapes: scope.ts.

import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const gptNeox: Arch = {
  params(meta) {
    const p = readParams(meta, "gptneox", { eps: "layer_norm_epsilon" });
    return withParams(p, { parallelResidual: meta.bool("gptneox.use_parallel_residual", true) });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.layerNorm(x, "attn_norm")); //         [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      const h = g.add(layer.affine(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.gelu(layer.layerNorm(p.parallelResidual ? x : h, "ffn_norm")), h); // [E, T]
    }
    return net.layerNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
