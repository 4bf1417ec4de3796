// Architectures granite and granitemoe: four scales over the llama block. Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { notNegative, positive } from "../hparam.ts";
import { layersAlike } from "../layer_params.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import type { Net } from "./net.ts";

export const granite: Arch = {
  params: (meta) => graniteParams(meta, readParams(meta, "granite")),
  rows: graniteRows,
  logits: (net, x) => net.logits(x),
};

export const graniteMoe: Arch = {
  params(meta) {
    const p = graniteParams(meta, readParams(meta, "granitemoe"));
    return withParams(p, { nFfShared: meta.u32("granitemoe.expert_shared_feed_forward_length", 0) });
  },
  rows: graniteRows,
  logits: (net, x) => net.logits(x),
};

// An absent scale, and one of 0, is none. The stored logit scale divides.
function graniteParams(meta: Metadata, p: Params): Params {
  const scale = (name: string, none: number): number =>
    notNegative(`${p.arch}.${name}`, meta.f32(`${p.arch}.${name}`, 0)) || none;
  const logitKey = `${p.arch}.logit_scale`;
  const hasRope = meta.bool(`${p.arch}.rope.scaling.finetuned`, true);
  return withParams(p, {
    embdScale: scale("embedding_scale", 1),
    residualScale: scale("residual_scale", 1),
    attnScale: scale("attention.scale", p.attnScale),
    logitScale: 1 / positive(logitKey, meta.f32(logitKey)),
    layers: hasRope ? p.layers : layersAlike(p.nLayer, { window: 0, rope: undefined }),
  });
}

function graniteRows(net: Net): Tensor {
  const { g, p } = net;
  const factors = net.ropeFactors(); //                                          [R / 2]
  let x = net.embeddings(); //                                                   [E, T]
  for (const layer of net.layers()) {
    const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //             [D, H, T], [D, G, T], [D, G, T]
    let a = layer.attention({ q: layer.rope(q, factors), k: layer.rope(k, factors), v }); // [D H, T]
    [a, x] = layer.wanted(a, x);
    x = g.add(net.scaled(layer.linear(a, "attn_output", p.nEmbd), p.residualScale), x);
    const h = layer.rmsNorm(x, "ffn_norm");
    let f = p.nExpert > 0 ? layer.experts(h, { norm: true }) : layer.swiglu(h);
    if (p.nFfShared > 0) f = g.add(f, layer.sharedExpert(h));
    x = g.add(net.scaled(f, p.residualScale), x); //                             [E, T]
  }
  return net.rmsNorm(x, "output_norm");
}
