// Architecture exaone4: blocks read rows as they are and are normed after. The largest model slides over a window in
// three of four layers, and the fourth has no positions. Shapes: scope.ts.

import { layersByPattern, readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

/** Layers of the largest model. */
const LARGEST = 64;

export const exaone4: Arch = {
  params(meta) {
    const p = readParams(meta, "exaone4");
    const { rope } = p.layers[0]!;
    const sliding = { window: readWindow(meta, "exaone4", 4096), rope };
    const full = { window: 0, rope: undefined };
    if (p.nLayer !== LARGEST) return p;
    return withParams(p, { layers: layersByPattern(p.nLayer, { period: 4, sliding, full }) });
  },
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    const factors = net.ropeFactors(); //                                        [R / 2]
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(x); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({
        q: layer.ropeNeox(layer.rmsNorm(q, "attn_q_norm"), factors),
        k: layer.ropeNeox(layer.rmsNorm(k, "attn_k_norm"), factors),
        v,
      }); //                                                                     [D H, T]
      [a, x] = layer.wanted(a, x);
      a = layer.linear(a, "attn_output", p.nEmbd);
      x = g.add(layer.rmsNorm(a, "post_attention_norm"), x);
      x = g.add(layer.rmsNorm(layer.swiglu(x), "post_ffw_norm"), x); //          [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
