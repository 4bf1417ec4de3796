// A part of a network under construction, with a prefix for the names of its weights: norms and linear maps.
//
// Shapes, here and in the architectures: E = nEmbd, H = nHead, G = nHeadKv, D = head size, F = nFf, V = nVocab,
// T = tokens of the batch, O = rows asked for, X = experts, K = experts that a token uses.

import type { GraphBuilder } from "../../graph/builder.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { BatchInputs } from "../batch.ts";
import type { KvCache } from "../cache.ts";
import type { Params } from "../params.ts";
import type { Weights } from "../weights.ts";

/** What a graph is made of. */
export interface Parts {
  readonly g: GraphBuilder;
  readonly p: Params;
  readonly weights: Weights;
  readonly batch: BatchInputs;
  /** absent: each text lies whole in the batch */
  readonly cache: KvCache | undefined;
  /** positions that a text can have */
  readonly nCtx: number;
}

/** Names weights below a prefix, checks their shapes, and applies them. */
export class Scope {
  readonly g: GraphBuilder;
  readonly p: Params;
  readonly parts: Parts;
  readonly prefix: string;

  constructor(parts: Parts, prefix: string) {
    this.g = parts.g;
    this.p = parts.p;
    this.parts = parts;
    this.prefix = prefix;
  }

  /** Does the file have this weight? */
  has(name: string): boolean {
    return this.parts.weights.has(this.prefix + name);
  }

  /** A weight for products: maps `from` values to `to`; with a third size a stack of such maps. */
  matrix(name: string, from: number, to: number, ...count: number[]): Tensor {
    return this.parts.weights.get({ name: this.prefix + name, use: "matrix", ne: [from, to, ...count] });
  }

  /** A norm's weight, a bias, or other factors. */
  vector(name: string, ...ne: number[]): Tensor {
    return this.parts.weights.get({ name: this.prefix + name, use: "vector", ne });
  }

  /** W x, plus the bias where the file has one: [to, ...]. */
  linear(x: Tensor, name: string, to: number): Tensor {
    return this.#map(x, name, to, this.has(`${name}.bias`));
  }

  /** W x + b: [to, ...]. */
  affine(x: Tensor, name: string, to: number): Tensor {
    return this.#map(x, name, to, true);
  }

  /** x / sqrt(mean x^2 + eps) * w over each row of `x`. */
  rmsNorm(x: Tensor, name: string): Tensor {
    const y = this.g.rmsNorm(x, this.p.normEps);
    return this.g.mul(y, this.vector(`${name}.weight`, x.ne[0])).named(this.prefix + name);
  }

  /** (x - mean) / sqrt(variance + eps) * w + b over each row of `x`. */
  layerNorm(x: Tensor, name: string): Tensor {
    const y = this.plainLayerNorm(x, name);
    return this.g.add(y, this.vector(`${name}.bias`, x.ne[0])).named(`${this.prefix}${name} + bias`);
  }

  /** (x - mean) / sqrt(variance + eps) * w, without a bias. */
  plainLayerNorm(x: Tensor, name: string): Tensor {
    const y = this.g.norm(x, this.p.normEps);
    return this.g.mul(y, this.vector(`${name}.weight`, x.ne[0])).named(this.prefix + name);
  }

  #map(x: Tensor, name: string, to: number, biased: boolean): Tensor {
    const y = this.g.mulMat(this.matrix(`${name}.weight`, x.ne[0], to), x).named(this.prefix + name);
    if (!biased) return y;
    return this.g.add(y, this.vector(`${name}.bias`, to)).named(`${this.prefix}${name} + bias`);
  }
}
