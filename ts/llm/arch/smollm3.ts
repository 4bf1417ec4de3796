// Architecture smollm3: every fourth layer has no positions. Shapes: scope.ts.

import { layersByPattern } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const smollm3: Arch = {
  params(meta) {
    const p = readParams(meta, "smollm3");
    const full = { window: 0, rope: undefined };
    return withParams(p, { layers: layersByPattern(p.nLayer, { period: 4, sliding: p.layers[0]!, full }) });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.rope(q), k: layer.rope(k), v }); //     [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.swiglu(layer.rmsNorm(x, "ffn_norm")), x); //               [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};
