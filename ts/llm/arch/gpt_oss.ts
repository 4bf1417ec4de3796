// Architecture gpt-oss: sinks in attention, every second layer slides, experts with biases. Shapes: scope.ts.

import { layersByPattern, localRope, readPeriod, readWindow } from "../layer_params.ts";
import { expertParams, readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const gptOss: Arch = {
  params(meta) {
    const rotated = "gpt-oss.rope.dimension_count";
    const headDim = meta.has(rotated) ? meta.u32(rotated) : undefined;
    const p = expertParams(meta, readParams(meta, "gpt-oss", { headDim }));
    const full = p.layers[0]!;
    return withParams(p, {
      layers: layersByPattern(p.nLayer, {
        period: readPeriod(meta, "gpt-oss", 2),
        sliding: { window: readWindow(meta, "gpt-oss"), rope: localRope(meta, "gpt-oss", full.rope!) },
        full,
      }),
    });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      const sinks = layer.vector("attn_sinks.weight", p.nHead);
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }, sinks); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.affine(a, "attn_output", p.nEmbd), x);
      const h = layer.rmsNorm(x, "post_attention_norm");
      x = g.add(layer.experts(h, { gating: "softmax_weight", act: "oai" }), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
