// Architecture mistral3: Mistral Small 3, Ministral 3. The llama block; far positions ask their questions louder.
// Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { Type } from "../../types.ts";
import { notNegative } from "../hparam.ts";
import { readParams, withParams } from "../params.ts";
import { yarnMagnitude } from "../rope_scaling.ts";
import type { Arch } from "./arch.ts";
import type { Net } from "./net.ts";

export const mistral3: Arch = {
  params(meta) {
    const key = "mistral3.attention.temperature_scale";
    const m = meta.f32("mistral3.rope.scaling.yarn_log_multiplier", 0);
    const magnitude = (factor: number): number => yarnMagnitude(factor) / yarnMagnitude(factor, m);
    const p = readParams(meta, "mistral3", { magnitude });
    return withParams(p, { temperatureScale: notNegative(key, meta.f32(key, 0)) });
  },

  rows(net) {
    const { g, p } = net;
    const factors = net.ropeFactors(); //                                        [R / 2]
    const louder = temperatures(net); //                                         [1, 1, T]
    let x = net.embeddings(); //                                                 [E, T]
    for (const layer of net.layers()) {
      const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //           [D, H, T], [D, G, T], [D, G, T]
      const turned = layer.rope(q, factors);
      let a = layer.attention({
        q: louder === undefined ? turned : g.mul(turned, louder),
        k: layer.rope(k, factors),
        v,
      }); //                                                                     [D H, T]
      [a, x] = layer.wanted(a, x);
      x = g.add(layer.linear(a, "attn_output", p.nEmbd), x);
      const h = layer.rmsNorm(x, "ffn_norm");
      x = g.add(p.nExpert > 0 ? layer.experts(h, { norm: true }) : layer.swiglu(h), x); // [E, T]
    }
    return net.rmsNorm(x, "output_norm");
  },

  logits: (net, x) => net.logits(x),
};

// 1 + s ln(1 + floor(position / nCtxOrig)) for each token: [1, 1, T]. The half position keeps the quotient clear of
// whole numbers, at which rounding could go either way.
function temperatures({ g, p, parts }: Net): Tensor | undefined {
  if (p.temperatureScale === 0) return undefined;
  const n = p.ropeScale.nCtxOrig;
  const positions = g.cast(parts.batch.positions, Type.F32);
  const spans = g.floor(g.scale(positions, 1 / n, 0.5 / n));
  const t = g.scale(g.log(g.scale(spans, 1, 1)), p.temperatureScale, 1);
  return g.reshape(t, [1, 1, t.ne[0]]);
}
