// Architecture cohere2: Command R7B. Local layers turn heads and slide; every fourth sees all, without positions.
// Shapes: scope.ts.

import { positive } from "../hparam.ts";
import { layersByPattern, localRope, readPeriod, readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const cohere2: Arch = {
  params(meta) {
    const p = readParams(meta, "cohere2", { eps: "layer_norm_epsilon" });
    return withParams(p, {
      logitScale: positive("cohere2.logit_scale", meta.f32("cohere2.logit_scale")),
      layers: layersByPattern(p.nLayer, {
        period: readPeriod(meta, "cohere2", 4),
        sliding: {
          window: readWindow(meta, "cohere2"),
          rope: localRope(meta, "cohere2", p.layers[0]!.rope!),
        },
        full: { window: 0, rope: undefined },
      }),
    });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      let h = layer.plainLayerNorm(x, "attn_norm"); //                           [E, T]
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.rope(q), k: layer.rope(k), v }); //     [D H, T]
      [a, h, x] = layer.wanted(a, h, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.swiglu(h), x); //                                          [E, T]
    }
    return net.plainLayerNorm(x, "output_norm");
  },

  logits: (net, x) => net.tiedLogits(x),
};
