// Architectures bert and its kin: encoders whose norms come after each block.
//
//   bert          BERT, MiniLM, bge, e5, RoBERTa, XLM-R: learned positions, gelu
//   nomic-bert    heads are turned, swiglu; nomic-bert-moe: gelu, every second layer with experts
//   jina-bert-v3  heads are turned, gelu
//   jina-bert-v2  scores fall with the distance, geglu or gelu
//
// Shapes: scope.ts.

import type { Tensor } from "../../graph/tensor.ts";
import { ranged } from "../hparam.ts";
import type { Metadata } from "../metadata.ts";
import { type ParamRules, type Params, readParams, withParams } from "../params.ts";
import type { Arch } from "./arch.ts";
import { classifier } from "./classifier.ts";
import type { Layer, Qkv } from "./layer.ts";
import type { Net } from "./net.ts";

/** Bias of the scores of jina-bert-v2, fixed. */
const JINA_BIAS = 8;

export const bert: Arch = {
  params(meta) {
    ranged(meta, "tokenizer.ggml.token_type_count", 1, Infinity);
    return withParams(encoderParams(meta, "bert", { rope: false }), { learnedPositions: true });
  },
  rows: (net) =>
    encoderRows(
      net,
      (layer, x) => layer.qkv(x),
      (layer, x) => layer.gelu(x),
    ),
  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};

export const nomicBert: Arch = {
  params: (meta) => encoderParams(meta, "nomic-bert"),
  rows: (net) => encoderRows(net, turned, (layer, x) => layer.swiglu(x)),
  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};

export const nomicBertMoe: Arch = {
  params(meta) {
    const every = meta.u32("nomic-bert-moe.moe_every_n_layers", 0);
    return withParams(encoderParams(meta, "nomic-bert-moe"), { expertsEvery: every });
  },
  rows: (net) =>
    encoderRows(net, turned, (layer, x) => {
      const routed = net.p.expertsEvery > 0 && layer.index % net.p.expertsEvery === 1;
      return routed ? layer.experts(x, { act: "gelu" }) : layer.gelu(x);
    }),
  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};

export const jinaBertV3: Arch = {
  params: (meta) => encoderParams(meta, "jina-bert-v3"),
  rows: (net) => encoderRows(net, turned, (layer, x) => layer.gelu(x)),
  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};

export const jinaBertV2: Arch = {
  params: (meta) => withParams(encoderParams(meta, "jina-bert-v2", { rope: false }), { maxBias: JINA_BIAS }),
  rows: (net) => encoderRows(net, normed, jinaFeedForward),
  classify: (net, x) => classifier(net, x, (y) => net.g.tanh(y)),
};

function encoderParams(meta: Metadata, arch: string, rules: ParamRules = {}): Params {
  return withParams(readParams(meta, arch, { eps: "layer_norm_epsilon", ...rules }), { causal: false });
}

function encoderRows(
  net: Net,
  qkv: (layer: Layer, x: Tensor) => Qkv,
  feedForward: (layer: Layer, x: Tensor) => Tensor,
): Tensor {
  const { g, p } = net;
  let x = net.embeddings(); //                                                   [E, T]
  if (net.has("token_types.weight")) x = g.add(x, net.firstTokenType());
  if (p.learnedPositions) x = g.add(x, net.positionEmbeddings());
  x = net.layerNorm(x, "token_embd_norm");
  for (const layer of net.layers()) {
    let a = layer.attention(qkv(layer, x)); //                                   [D H, T]
    [a, x] = layer.wanted(a, x);
    let h = layer.layerNorm(g.add(layer.linear(a, "attn_output", p.nEmbd), x), "attn_output_norm");
    if (layer.has("attn_norm_2.weight")) h = layer.layerNorm(g.add(h, x), "attn_norm_2");
    x = layer.layerNorm(g.add(feedForward(layer, h), h), "layer_output_norm"); // [E, T]
  }
  return x;
}

function turned(layer: Layer, x: Tensor): Qkv {
  const { q, k, v } = layer.qkv(x); //                                           [D, H, T], [D, G, T], [D, G, T]
  return { q: layer.ropeNeox(q), k: layer.ropeNeox(k), v };
}

// Queries and keys normed over all heads together, where the file has norms for it.
function normed(layer: Layer, x: Tensor): Qkv {
  const { headDimK } = layer.p;
  const { q, k, v } = layer.qkv(x); //                                           [D, H, T], [D, G, T], [D, G, T]
  const norm = (y: Tensor, name: string): Tensor =>
    layer.has(`${name}.weight`) ? layer.heads(layer.layerNorm(layer.rowsOf(y), name), headDimK) : y;
  return { q: norm(q, "attn_q_norm"), k: norm(k, "attn_k_norm"), v };
}

function jinaFeedForward(layer: Layer, x: Tensor): Tensor {
  if (layer.has("ffn_gate.weight")) return layer.geglu(x);
  const fused = layer.parts.weights.rows(`${layer.prefix}ffn_up.weight`) === 2 * layer.p.nFf;
  return fused ? layer.fusedGeglu(x) : layer.gelu(x);
}
