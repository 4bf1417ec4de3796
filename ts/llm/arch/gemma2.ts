// Architecture gemma2: every second layer slides, scores and logits are capped, norms after each block too. Shapes: scope.ts.

import { notNegative } from "../hparam.ts";
import { layersByPattern, localRope, readPeriod, readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

/** Layers of the largest model, whose scores are scaled by the width of the embedding. */
const LARGEST = 46;

export const gemma2: Arch = {
  params(meta) {
    const p = readParams(meta, "gemma2");
    const full = p.layers[0]!;
    const cap = (key: string, byDefault: number): number => notNegative(key, meta.f32(key, byDefault));
    return withParams(p, {
      embdScale: Math.sqrt(p.nEmbd),
      attnScale: 1 / Math.sqrt(p.nLayer === LARGEST ? Math.floor(p.nEmbd / p.nHead) : p.headDimK),
      attnSoftcap: cap("gemma2.attn_logit_softcapping", 50),
      logitSoftcap: cap("gemma2.final_logit_softcapping", 30),
      layers: layersByPattern(p.nLayer, {
        period: readPeriod(meta, "gemma2", 2),
        sliding: { window: readWindow(meta, "gemma2", 4096), rope: localRope(meta, "gemma2", full.rope!) },
        full,
      }),
    });
  },
  wholeHeads: true,

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      a = layer.linear(a, "attn_output", p.nEmbd);
      x = g.add(layer.rmsNorm(a, "post_attention_norm"), x);
      const f = layer.geglu(layer.rmsNorm(x, "ffn_norm"));
      x = g.add(layer.rmsNorm(f, "post_ffw_norm"), x); //                        [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.tiedLogits(x),
};
