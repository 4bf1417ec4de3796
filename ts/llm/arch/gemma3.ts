// Architecture gemma3, and gemma-embedding, which reads both ways. Local layers turn heads by a base of their own.
// Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { notNegative } from "../hparam.ts";
import { layersByPattern, type LayerParams, localRope, readPeriod, readWindow } from "../layer_params.ts";
import type { Metadata } from "../metadata.ts";
import { type Params, readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import type { Net } from "./net.ts";

/** Layers of the largest model, whose scores are scaled by the width of the embedding. */
const LARGEST = 62;

export const gemma3: Arch = {
  params: (meta) => gemma3Params(meta, "gemma3", 0),
  wholeHeads: true,
  rows: gemma3Rows,
  logits: (net, x) => net.logits(x),
};

export const gemmaEmbedding: Arch = {
  params: (meta) => withParams(gemma3Params(meta, "gemma-embedding"), { causal: false }),
  wholeHeads: true,
  rows: gemma3Rows,

  // Maps that widen and narrow the pooled vector, each optional.
  project(net, x) {
    for (const name of ["dense_2", "dense_3"]) if (net.has(`${name}.weight`)) x = net.resized(x, name);
    return x; //                                                                 [any, S]
  },
};

function gemma3Params(meta: Metadata, arch: string, window?: number): Params {
  const p = readParams(meta, arch);
  const cap = `${arch}.final_logit_softcapping`;
  const full = p.layers[0]!;
  const scaling = { ...p.ropeScale, factor: 1 };
  const sliding: LayerParams = {
    window: readWindow(meta, arch, window),
    rope: localRope(meta, arch, { base: 10000, scaling }),
  };
  const period = sliding.window === 0 ? 1 : readPeriod(meta, arch, 6);
  return withParams(p, {
    embdScale: Math.sqrt(p.nEmbd),
    attnScale: 1 / Math.sqrt(p.nLayer === LARGEST ? Math.floor(p.nEmbd / p.nHead) : p.headDimK),
    logitSoftcap: notNegative(cap, meta.f32(cap, 0)),
    layers: layersByPattern(p.nLayer, { period, sliding, full }),
  });
}

function gemma3Rows(net: Net): Tensor {
  const { g, p } = net;
  let x = net.embeddings(); //                                                   [E, T]
  for (const layer of net.layers()) {
    const { q, k, v } = layer.qkv(layer.rmsNorm(x, "attn_norm")); //             [D, H, T], [D, G, T], [D, G, T]
    let a = layer.attention({
      q: layer.ropeNeox(layer.rmsNorm(q, "attn_q_norm")),
      k: layer.ropeNeox(layer.rmsNorm(k, "attn_k_norm")),
      v,
    }); //                                                                       [D H, T]
    [a, x] = layer.wanted(a, x);
    a = layer.linear(a, "attn_output", p.nEmbd);
    x = g.add(layer.rmsNorm(a, "post_attention_norm"), x);
    const f = layer.geglu(layer.rmsNorm(x, "ffn_norm"));
    x = g.add(layer.rmsNorm(f, "post_ffw_norm"), x); //                          [E, T]
  }
  return net.rmsNorm(x, "output_norm");
}
