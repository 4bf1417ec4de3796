// Architecture olmo2: OLMo 2 and 3. Blocks read rows as they are and are normed after; queries and keys are normed over
// all heads together. Shapes: scope.ts.

import { layersByPattern, localRope, readPeriod, readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";

export const olmo2: Arch = {
  params(meta) {
    const p = readParams(meta, "olmo2");
    const window = readWindow(meta, "olmo2", 0);
    if (window === 0) return p;
    const full = p.layers[0]!;
    const scaling = { ...p.ropeScale, factor: 1, ext: 0, attnFactor: 1 }; // only full layers are stretched
    const rope = localRope(meta, "olmo2", { base: p.ropeBase, scaling });
    const period = readPeriod(meta, "olmo2", 4);
    return withParams(p, { layers: layersByPattern(p.nLayer, { period, sliding: { window, rope }, full }) });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const q = layer.rmsNorm(layer.linear(x, "attn_q", p.nHead * p.headDimK), "attn_q_norm"); // [D H, T]
      const k = layer.rmsNorm(layer.linear(x, "attn_k", p.nHeadKv * p.headDimK), "attn_k_norm"); // [D G, T]
      const v = layer.linear(x, "attn_v", p.nHeadKv * p.headDimV); //            [D G, T]
      let a = layer.attention({
        q: layer.ropeNeox(layer.heads(q, p.headDimK)),
        k: layer.ropeNeox(layer.heads(k, p.headDimK)),
        v: layer.heads(v, p.headDimV),
      }); //                                                                     [D H, T]
      [a, x] = layer.wanted(a, x);
      a = layer.linear(a, "attn_output", p.nEmbd);
      x = g.add(layer.rmsNorm(a, "post_attention_norm"), x);
      x = g.add(layer.rmsNorm(layer.swiglu(x), "post_ffw_norm"), x); //          [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.untiedLogits(x),
};
