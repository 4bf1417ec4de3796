// Architecture modern-bert: an encoder with norms before each block; two of three layers look at a window on both sides,
// with a rotation of their own. Shapes: scope.ts.

import { layersByPattern, localRope, readPeriod, readWindow } from "../layer_params.ts";
import { readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import { classifier } from "./classifier.ts";

export const modernBert: Arch = {
  params(meta) {
    const p = readParams(meta, "modern-bert", { eps: "layer_norm_epsilon" });
    const full = p.layers[0]!;
    const window = readWindow(meta, "modern-bert", 0);
    const sliding = { window, rope: localRope(meta, "modern-bert", full.rope!) };
    const period = window === 0 ? 1 : readPeriod(meta, "modern-bert", 3);
    return withParams(p, {
      causal: false,
      layers: layersByPattern(p.nLayer, { period, fullFirst: true, sliding, full }),
    });
  },

  rows(net) {
    const { g, p } = net;
    let x = net.plainLayerNorm(net.embeddings(), "token_embd_norm"); //          [E, T]
    for (const layer of net.layers()) {
      const h = layer.has("attn_norm.weight") ? layer.plainLayerNorm(x, "attn_norm") : x;
      const { q, k, v } = layer.qkv(h); //                                       [D, H, T], [D, G, T], [D, G, T]
      let a = layer.attention({ q: layer.ropeNeox(q), k: layer.ropeNeox(k), v }); // [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      x = g.add(layer.fusedGeglu(layer.plainLayerNorm(x, "ffn_norm")), x); //    [E, T]
    }
    return net.plainLayerNorm(x, "output_norm");
  },

  classify: (net, x) => classifier(net, x, (y) => net.g.gelu(y)),
  rankBy: "mean",
};
