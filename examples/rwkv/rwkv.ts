// RWKV v4, a recurrent language model, one token at a time. E = nEmbed, F = rows of ffn.key, V = nVocab.
//
// File: u32 "ggmf" | u32 version 100 or 101 | i32 nVocab nEmbed nLayer dataType | tensors (../legacy/tensors.ts).
// Its time_decay is already -exp(w).

import { type Engine, type Graph, type Tensor, Type, Unary } from "../../ts/index.ts";
import { type LegacyTensor, readInts, readTensors } from "../legacy/tensors.ts";
import { Weights } from "../legacy/weights.ts";

const MAGIC = 0x67676d66;
/** Numbers of element types in these files; they are not ggml's. */
const TYPES: ReadonlyMap<number, Type> = new Map([
  [0, Type.F32],
  [1, Type.F16],
  [2, Type.Q4_0],
  [3, Type.Q4_1],
  [7, Type.Q5_0],
  [8, Type.Q5_1],
  [9, Type.Q8_0],
]);
const EPS = 1e-5;
// Stands for minus infinity: differences of two stay finite.
const NEVER = -1e30;

/** A file, taken apart. */
export interface RwkvFile {
  readonly nVocab: number;
  readonly nEmbed: number;
  readonly nLayer: number;
  readonly tensors: ReadonlyMap<string, LegacyTensor>;
}

/** Reads the legacy container. */
export function readRwkv(file: Uint8Array): RwkvFile {
  const [magic, version, nVocab, nEmbed, nLayer] = readInts(file, 0, 5) as [
    number,
    number,
    number,
    number,
    number,
  ];
  if (magic !== MAGIC || version < 100 || version > 101)
    throw new Error(`not an RWKV file: version ${version}`);
  return { nVocab, nEmbed, nLayer, tensors: readTensors(file, 24, TYPES) };
}

/** A planned model with the state of one sequence. */
export class Rwkv {
  readonly #g: Graph;
  readonly #weights: Weights;
  readonly #token: Tensor;
  readonly #logits: Tensor;

  constructor(engine: Engine, file: RwkvFile) {
    this.#g = engine.graph();
    this.#weights = new Weights(this.#g, file.tensors);
    this.#token = this.#g.input("token", Type.I32, [1]);
    this.#logits = build(this.#g, this.#weights, file, this.#token).asOutput("logits"); // [V]
    this.#g.plan();
    this.#weights.write();
  }

  /** Logits after one more token. */
  async next(token: number): Promise<Float32Array> {
    this.#token.write([token]);
    await this.#g.compute();
    return (await this.#logits.read()) as Float32Array;
  }

  /** Forgets all tokens. */
  reset(): void {
    this.#weights.reset();
  }

  dispose(): void {
    this.#g.dispose();
  }
}

function build(g: Graph, w: Weights, { nEmbed, nLayer }: RwkvFile, token: Tensor): Tensor {
  let x = g.getRows(w.get("emb.weight"), token); //        [E, 1]
  x = layerNorm(g, w, x, "blocks.0.ln0");
  for (let i = 0; i < nLayer; i++) {
    x = g.add(x, timeMix(g, w, x, `blocks.${i}`, nEmbed)); // [E, 1]
    x = g.add(x, channelMix(g, w, x, `blocks.${i}`, nEmbed)); // [E, 1]
  }
  return g.mulMat(w.get("head.weight"), layerNorm(g, w, x, "ln_out")); // [V, 1]
}

function layerNorm(g: Graph, w: Weights, x: Tensor, name: string): Tensor {
  return g.add(g.mul(g.norm(x, EPS), w.get(`${name}.weight`)), w.get(`${name}.bias`));
}

// m x + (1 - m) before
function mix(g: Graph, x: Tensor, before: Tensor, m: Tensor): Tensor {
  return g.add(g.mul(g.sub(x, before), m), before);
}

// The larger of each pair of elements.
function maximum(g: Graph, a: Tensor, b: Tensor): Tensor {
  return g.add(b, g.relu(g.sub(a, b)));
}

// Makes `value` the state of the next run. What reads the old one must come first: `after` is expanded before.
function keep(g: Graph, after: Tensor, ...pairs: readonly (readonly [Tensor, Tensor])[]): void {
  g.expand(after);
  for (const [, value] of pairs) g.expand(value);
  for (const [state, value] of pairs) g.expand(g.cpy(value, state));
}

// Attention's stand-in: a weighted mean of all values, weights e^(key), fading by e^(decay) a token. Sums are kept
// divided by e^(peak), the largest exponent so far.
function timeMix(g: Graph, w: Weights, residual: Tensor, block: string, nEmbed: number): Tensor {
  const at = (name: string): Tensor => w.get(`${block}.att.${name}`);
  const before = w.state(`${block}.att.x`, nEmbed); //                  [E]
  const sum = w.state(`${block}.att.sum`, nEmbed); //                   [E] sum of e^(key - peak) value
  const size = w.state(`${block}.att.size`, nEmbed); //                 [E] sum of e^(key - peak)
  const peak = w.state(`${block}.att.peak`, nEmbed, NEVER); //          [E]

  const x = layerNorm(g, w, residual, `${block}.ln1`); //               [E, 1]
  const k = g.mulMat(at("key.weight"), mix(g, x, before, at("time_mix_k")));
  const v = g.mulMat(at("value.weight"), mix(g, x, before, at("time_mix_v")));
  const r = g.sigmoid(g.mulMat(at("receptance.weight"), mix(g, x, before, at("time_mix_r"))));

  // this token counts with a bonus
  const now = weigh(g, g.add(k, at("time_first")), peakOf(g, k, peak), v, sum, size);
  const out = g.mulMat(at("output.weight"), g.mul(r, g.div(now.sum, now.size))); // [E, 1]

  const next = weigh(g, k, g.add(peakOf(g, k, peak), at("time_decay")), v, sum, size);
  keep(g, out, [before, x], [sum, next.sum], [size, next.size], [peak, next.peak]);
  return out;
}

// The state's vector as the matrix of one column that the others are.
function peakOf(g: Graph, like: Tensor, peak: Tensor): Tensor {
  return g.reshape(peak, like.ne);
}

interface Sums {
  readonly sum: Tensor;
  readonly size: Tensor;
  readonly peak: Tensor;
}

// The sums with one more value of exponent `key`; the old ones have exponent `peak`.
function weigh(g: Graph, key: Tensor, peak: Tensor, v: Tensor, sum: Tensor, size: Tensor): Sums {
  const top = maximum(g, peak, key); //                                 [E, 1]
  const old = g.unary(g.sub(peak, top), Unary.EXP);
  const fresh = g.unary(g.sub(key, top), Unary.EXP);
  return {
    sum: g.add(g.mul(old, sum), g.mul(fresh, v)),
    size: g.add(g.mul(old, size), fresh),
    peak: top,
  };
}

function channelMix(g: Graph, w: Weights, residual: Tensor, block: string, nEmbed: number): Tensor {
  const at = (name: string): Tensor => w.get(`${block}.ffn.${name}`);
  const before = w.state(`${block}.ffn.x`, nEmbed); //                  [E]
  const x = layerNorm(g, w, residual, `${block}.ln2`); //               [E, 1]
  const k = g.mulMat(at("key.weight"), mix(g, x, before, at("time_mix_k"))); // [F, 1]
  const r = g.sigmoid(g.mulMat(at("receptance.weight"), mix(g, x, before, at("time_mix_r"))));
  const out = g.mul(r, g.mulMat(at("value.weight"), g.sqr(g.relu(k)))); // [E, 1]
  keep(g, out, [before, x]);
  return out;
}
