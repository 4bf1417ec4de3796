// The inputs of one batch: what changes per token is data, not structure, so one planned graph serves every position.

import type { GraphBuilder } from "../graph/builder.ts";
import type { Tensor } from "../graph/tensor.ts";
import { Type } from "../types.ts";

/** Small input tensors of a graph for up to T tokens, O of whose rows reach the output. */
export interface BatchInputs {
  /** token ids, I32 [T] */
  readonly tokens: Tensor;
  /** positions, I32 [T]; also the cache rows that are written */
  readonly positions: Tensor;
  /** with a cache, I32 [2]: live cells of it, position of the first token */
  readonly length: Tensor | undefined;
  /** without a cache, I32 [2, T]: first cell and end of what each token sees; the cells are the batch's tokens */
  readonly spans: Tensor | undefined;
  /** columns whose rows are wanted, I32 [O]; absent: all */
  readonly outRows: Tensor | undefined;
  /** I32 scalar: tokens in the batch; absent when T = 1 */
  readonly live: Tensor | undefined;
  /** I32 scalar: entries of outRows that hold data */
  readonly outLive: Tensor | undefined;
}

/** Inputs of a batch that continues the sequence in a cache. */
export interface CacheInputs extends BatchInputs {
  readonly length: Tensor;
  readonly outRows: Tensor;
  readonly outLive: Tensor;
}

/** Makes the inputs for batches of up to `nTokens` tokens and `nOut` rows of logits. */
export function batchInputs(g: GraphBuilder, nTokens: number, nOut: number): CacheInputs {
  const i32 = (name: string, n: number): Tensor => g.input(name, Type.I32, [n]);
  return {
    tokens: i32("tokens", nTokens),
    positions: i32("positions", nTokens),
    length: i32("length", 2),
    spans: undefined,
    outRows: i32("out_rows", nOut),
    live: nTokens > 1 ? i32("n_live", 1) : undefined,
    outLive: i32("n_out", 1),
  };
}

/**
 * Makes the inputs for batches of several texts without a cache, up to `nTokens` tokens in all; with `nOut`, of so many
 * rows asked for.
 */
export function textInputs(g: GraphBuilder, nTokens: number, nOut?: number): BatchInputs {
  const i32 = (name: string, ...ne: number[]): Tensor => g.input(name, Type.I32, ne);
  return {
    tokens: i32("tokens", nTokens),
    positions: i32("positions", nTokens),
    length: undefined,
    spans: i32("spans", 2, nTokens),
    live: nTokens > 1 ? i32("n_live", 1) : undefined,
    outRows: nOut === undefined ? undefined : i32("out_rows", nOut),
    outLive: nOut === undefined ? undefined : i32("n_out", 1),
  };
}

const FIRST = [0];

/** Writes a batch: `ids` at positions from `start` on; logits of the columns in `out`. */
export class BatchWriter {
  readonly #inputs: CacheInputs;
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #outRows: Int32Array;
  readonly #pair: Int32Array = new Int32Array(2);
  readonly #one: Int32Array = new Int32Array(1);

  constructor(inputs: CacheInputs) {
    this.#inputs = inputs;
    this.#tokens = new Int32Array(inputs.tokens.ne[0]);
    this.#positions = new Int32Array(inputs.tokens.ne[0]);
    this.#outRows = new Int32Array(inputs.outRows.ne[0]);
  }

  write(ids: ArrayLike<number>, start: number, out: ArrayLike<number>): void {
    // Columns past the live ones are not computed; they get valid values all the same.
    for (let i = 0; i < this.#tokens.length; i++) this.#tokens[i] = ids[Math.min(i, ids.length - 1)]!;
    this.#inputs.tokens.write(this.#tokens);
    this.#place(ids.length, start, out);
  }

  /** Writes a batch of one token that is there already, with its logits. */
  writeNext(position: number): void {
    this.#place(1, position, FIRST);
  }

  #place(n: number, start: number, out: ArrayLike<number>): void {
    const { positions, length, outRows, live, outLive } = this.#inputs;
    for (let i = 0; i < this.#positions.length; i++) this.#positions[i] = start + Math.min(i, n - 1);
    for (let i = 0; i < this.#outRows.length; i++) this.#outRows[i] = out[i] ?? 0;
    positions.write(this.#positions);
    outRows.write(this.#outRows);
    this.#pair[0] = start + n;
    this.#pair[1] = start;
    length.write(this.#pair);
    this.#one[0] = n;
    live?.write(this.#one);
    this.#one[0] = out.length;
    outLive.write(this.#one);
  }
}
