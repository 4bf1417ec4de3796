// The graphs of embeddings: several texts in one batch without a cache, and what pooled vectors go through.

import type { Graph } from "../graph/graph.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Engine } from "../runtime/engine.ts";
import { Type } from "../types.ts";
import type { EmbeddingBuild } from "./arch/index.ts";
import { type BatchInputs, textInputs } from "./batch.ts";
import type { Params, Pooling } from "./params.ts";

/** Texts that a batch can have. */
export const MAX_TEXTS = 32;

/** Sizes of the graphs. */
export interface EmbeddingShape {
  /** tokens that a text can have */
  readonly nCtx: number;
  /** tokens of all texts in a batch */
  readonly nTokens: number;
  readonly pooling: Pooling;
}

/** The graphs, built but not yet planned. */
export interface EmbeddingGraphs {
  readonly shape: EmbeddingShape;
  readonly graph: Graph;
  readonly inputs: BatchInputs;
  /** F32 [E, T], or [E, MAX_TEXTS] when pooling takes one row of each text */
  readonly rows: Tensor;
  /** what pooled vectors go through; absent: nothing */
  readonly head:
    { readonly graph: Graph; readonly x: Tensor; readonly live: Tensor; readonly y: Tensor } | undefined;
}

/** Which row of a text stands for it; undefined = all do. */
export function rowTaken(pooling: Pooling): "first" | "last" | undefined {
  return pooling === "cls" ? "first" : pooling === "last" ? "last" : undefined;
}

/** Builds the graphs. Leafs of weights may get their memory later. */
export function embeddingGraphs(
  engine: Engine,
  build: EmbeddingBuild,
  p: Params,
  weights: ReadonlyMap<string, Tensor>,
  shape: EmbeddingShape,
): EmbeddingGraphs {
  const { nTokens, pooling } = shape;
  const graph = engine.graph();
  const one = rowTaken(rowsOf(build, pooling)) !== undefined;
  const inputs = textInputs(graph, nTokens, one ? MAX_TEXTS : undefined);
  const rows = build.rows(graph, p, weights, inputs, shape.nCtx).asOutput("rows");
  return { shape, graph, inputs, rows, head: headGraph(engine, build, p, weights, pooling) };
}

/** The pooling by which rows are taken: a classifier takes those that its architecture says. */
export function rowsOf(build: EmbeddingBuild, pooling: Pooling): Pooling {
  return pooling === "rank" ? build.rankBy : pooling;
}

function headGraph(
  engine: Engine,
  build: EmbeddingBuild,
  p: Params,
  weights: ReadonlyMap<string, Tensor>,
  pooling: Pooling,
): EmbeddingGraphs["head"] {
  if (pooling === "none") return undefined;
  const graph = engine.graph();
  const x = graph.input("pooled", Type.F32, [p.nEmbd, MAX_TEXTS]);
  const live = graph.input("n_live", Type.I32, [1]);
  const y = build.pooled(graph, p, weights, x, live, pooling === "rank");
  return y === undefined ? undefined : { graph, x, live, y: y.asOutput("embedding") };
}

/** Graphs as a list. */
export function embeddingGraphList({ graph, head }: EmbeddingGraphs): Graph[] {
  return head === undefined ? [graph] : [graph, head.graph];
}

/** Writes batches of texts. Reuses its arrays. */
export class TextWriter {
  readonly #inputs: BatchInputs;
  readonly #tokens: Int32Array;
  readonly #positions: Int32Array;
  readonly #spans: Int32Array;
  readonly #outRows: Int32Array = new Int32Array(MAX_TEXTS);
  readonly #one: Int32Array = new Int32Array(1);
  readonly #causal: boolean;
  readonly #taken: "first" | "last" | undefined;

  constructor(inputs: BatchInputs, causal: boolean, taken: "first" | "last" | undefined) {
    const n = inputs.tokens.ne[0];
    this.#inputs = inputs;
    this.#tokens = new Int32Array(n);
    this.#positions = new Int32Array(n);
    this.#spans = new Int32Array(2 * n);
    this.#causal = causal;
    this.#taken = taken;
  }

  /** Texts one after the other, each with positions from 0 on. */
  write(texts: readonly (readonly number[])[]): void {
    let first = 0;
    // Columns past the live ones are not computed; they get valid values all the same.
    for (const a of [this.#tokens, this.#positions, this.#spans, this.#outRows]) a.fill(0);
    texts.forEach((ids, text) => {
      ids.forEach((id, i) =>
        this.#token(first + i, id, i, first, this.#causal ? first + i + 1 : first + ids.length),
      );
      this.#outRows[text] = this.#taken === "last" ? first + ids.length - 1 : first;
      first += ids.length;
    });
    const { tokens, positions, spans, live, outRows, outLive } = this.#inputs;
    tokens.write(this.#tokens);
    if (positions.placement !== undefined) positions.write(this.#positions); // not every network has a use for them
    spans!.write(this.#spans);
    outRows?.write(this.#outRows);
    this.#one[0] = first;
    live?.write(this.#one);
    this.#one[0] = texts.length;
    outLive?.write(this.#one);
  }

  #token(column: number, id: number, position: number, first: number, end: number): void {
    this.#tokens[column] = id;
    this.#positions[column] = position;
    this.#spans[2 * column] = first;
    this.#spans[2 * column + 1] = end;
  }
}
