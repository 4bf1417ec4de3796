// Embeddings: texts in, one vector for each out.

import { checkOptions, FormatError, GraphError } from "../errors.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Engine } from "../runtime/engine.ts";
import {
  embeddingGraphList,
  type EmbeddingGraphs,
  embeddingGraphs,
  MAX_TEXTS,
  rowsOf,
  rowTaken,
  TextWriter,
} from "./embedding_graph.ts";
import type { ProgressListener } from "./generate.ts";
import { checkIds } from "./model_context.ts";
import { type Pooling, POOLINGS } from "./params.ts";
import type { ModelHeader, ModelPlan } from "./plan_model.ts";

/** Tokens of the graphs at least, so that short texts come in batches. */
const LEAST_BATCH = 512;

/** Options of `embed`. */
export interface EmbedOptions {
  /** how the rows of a text become one vector; default: as the file says, "none" (every row) when it says nothing */
  readonly pooling?: Pooling | undefined;
  /** vectors of length 1; default true where pooling gives one vector that is no score */
  readonly normalize?: boolean | undefined;
  /** cut texts that are longer than the context instead of refusing them; default false */
  readonly truncate?: boolean | undefined;
  /** ends the call with the signal's reason */
  readonly signal?: AbortSignal | undefined;
  /** hears of the texts done */
  readonly onProgress?: ProgressListener | undefined;
}

/** Their names. */
export const EMBED_OPTIONS: readonly string[] = ["pooling", "normalize", "truncate", "signal", "onProgress"];

/** What became of a text. */
export interface Embedding {
  /** the vector; with pooling "none" one after the other for each token; with "rank" the classifier's scores */
  readonly embedding: Float32Array;
  /** tokens that were computed, start and end tokens included */
  readonly nTokens: number;
  /** the text was cut to the context */
  readonly truncated: boolean;
}

/** A text as token ids. */
export interface TokenizedText {
  readonly ids: readonly number[];
  readonly truncated: boolean;
}

// Graphs with their memory, and what writes their inputs.
interface Planned {
  readonly graphs: EmbeddingGraphs;
  readonly writer: TextWriter;
}

/** Computes embeddings over the weights of a model. Its graphs are planned at first use, and again for longer texts. */
export class Embedder {
  readonly #engine: Engine;
  readonly #header: ModelHeader;
  readonly #weights: ReadonlyMap<string, Tensor>;
  readonly #nCtx: number;
  #planned: Planned | undefined;
  /** calls wait for each other: they share the graphs */
  #tail: Promise<unknown> = Promise.resolve();

  /** Takes the memory of graphs that are planned already. @throws {DeviceError} out-of-memory */
  constructor(engine: Engine, plan: Pick<ModelPlan, "header" | "weights" | "nCtx" | "embedding">) {
    this.#engine = engine;
    this.#header = plan.header;
    this.#weights = plan.weights;
    this.#nCtx = plan.nCtx;
    if (plan.embedding !== undefined) this.#reserve(plan.embedding);
  }

  /** Gives the compute buffer back. */
  dispose(): void {
    if (this.#planned === undefined) return;
    for (const g of embeddingGraphList(this.#planned.graphs)) g.dispose();
    this.#planned = undefined;
  }

  /**
   * Vectors of texts, the same bits whether they come one by one or together.
   *
   * @throws {GraphError} context-full for a text that is too long, bad-data for one without tokens, token-range,
   *   bad-param, unsupported; TypeError for a misspelt option
   */
  async embed(
    texts: readonly (string | readonly number[])[],
    options: EmbedOptions = {},
  ): Promise<Embedding[]> {
    checkOptions("embed", options, EMBED_OPTIONS);
    const pooling = options.pooling ?? this.#header.params.pooling;
    if (!POOLINGS.includes(pooling)) {
      throw new GraphError(
        "bad-param",
        `embed: pooling "${pooling}", expected one of ${POOLINGS.join(", ")}`,
      );
    }
    const list = texts.map((text, i) =>
      this.#fit(this.#tokens(text), `text ${i}`, options.truncate ?? false),
    );
    return this.embedTokens(list, { ...options, pooling });
  }

  /** The same of texts that are tokens already and fit the context. */
  embedTokens(
    texts: readonly TokenizedText[],
    options: EmbedOptions & { readonly pooling: Pooling },
  ): Promise<Embedding[]> {
    const run = (): Promise<Embedding[]> => this.#all(texts, options);
    const result = this.#tail.then(run, run);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  #tokens(text: string | readonly number[]): readonly number[] {
    if (typeof text === "string") return this.#header.tokenizer.encode(text, { parseSpecial: false });
    checkIds(text, this.#header.params.nVocab);
    return text;
  }

  // A text that is cut keeps the token that ends it.
  #fit(ids: readonly number[], what: string, truncate: boolean): TokenizedText {
    if (ids.length === 0) throw new GraphError("bad-data", `embed: ${what} has no tokens`);
    if (ids.length <= this.#nCtx) return { ids, truncated: false };
    if (!truncate) {
      throw new GraphError(
        "context-full",
        `embed: ${what} has ${ids.length} tokens, the context ${this.#nCtx}; pass truncate to cut it`,
        { expected: this.#nCtx, actual: ids.length },
      );
    }
    const end = this.#header.tokenizer.addEos ? ids.slice(-1) : [];
    return { ids: [...ids.slice(0, this.#nCtx - end.length), ...end], truncated: true };
  }

  async #all(
    texts: readonly TokenizedText[],
    options: EmbedOptions & { readonly pooling: Pooling },
  ): Promise<Embedding[]> {
    const { pooling, normalize = pooling !== "none" && pooling !== "rank", signal, onProgress } = options;
    const longest = texts.reduce((n, { ids }) => Math.max(n, ids.length), 0);
    const out: Embedding[] = [];
    while (out.length < texts.length) {
      signal?.throwIfAborted();
      const { graphs, writer } = this.#plan(longest, pooling);
      const batch = nextBatch(texts, out.length, graphs.shape.nTokens);
      writer.write(batch.map(({ ids }) => ids));
      await graphs.graph.compute({ signal });
      const vectors = await this.#vectors(graphs, batch, signal);
      vectors.forEach((v, i) => {
        const { ids, truncated } = batch[i]!;
        out.push({ embedding: normalize ? normalized(v) : v, nTokens: ids.length, truncated });
      });
      onProgress?.({ phase: "embed", loaded: out.length, total: texts.length });
    }
    return out;
  }

  // Graphs for this pooling that a text of `nTokens` fits into.
  #plan(nTokens: number, pooling: Pooling): Planned {
    const old = this.#planned?.graphs.shape;
    if (old !== undefined && old.pooling === pooling && old.nTokens >= nTokens) return this.#planned!;
    const { params, embedding } = this.#header;
    const size = Math.max(LEAST_BATCH, old?.nTokens ?? 0, 2 ** Math.ceil(Math.log2(nTokens)));
    const shape = { nCtx: this.#nCtx, nTokens: Math.min(this.#nCtx, size), pooling };
    this.dispose();
    return this.#reserve(embeddingGraphs(this.#engine, embedding, params, this.#weights, shape));
  }

  #reserve(graphs: EmbeddingGraphs): Planned {
    this.#engine.reserve(embeddingGraphList(graphs));
    const { params, embedding } = this.#header;
    const taken = rowTaken(rowsOf(embedding, graphs.shape.pooling));
    this.#planned = { graphs, writer: new TextWriter(graphs.inputs, params.causal, taken) };
    return this.#planned;
  }

  // One vector for each text of a batch that has been computed.
  async #vectors(
    graphs: EmbeddingGraphs,
    batch: readonly TokenizedText[],
    signal: AbortSignal | undefined,
  ): Promise<Float32Array[]> {
    const pooling = rowsOf(this.#header.embedding, graphs.shape.pooling);
    const each = batch.map(({ ids }) => (rowTaken(pooling) === undefined ? ids.length : 1));
    const rows = await readRows(
      graphs.rows,
      each.reduce((a, b) => a + b, 0),
    );
    const { nEmbd } = this.#header.params;
    let first = 0;
    const pooled = each.map((n) => {
      const own = rows.subarray(first * nEmbd, (first + n) * nEmbd);
      first += n;
      return pooling === "mean" ? mean(own, nEmbd) : own.slice();
    });
    const vectors = graphs.head === undefined ? pooled : await through(graphs.head, pooled, nEmbd, signal);
    for (const v of vectors) checkFinite(v);
    return vectors;
  }
}

// As many of the texts from `from` on as fit into a batch; at least one.
function nextBatch(texts: readonly TokenizedText[], from: number, nTokens: number): readonly TokenizedText[] {
  let total = 0;
  let end = from;
  while (end < texts.length && end - from < MAX_TEXTS && total + texts[end]!.ids.length <= nTokens) {
    total += texts[end++]!.ids.length;
  }
  return texts.slice(from, end);
}

// The first `n` rows of a result [E, ..].
async function readRows(rows: Tensor, n: number): Promise<Float32Array> {
  const out = new Float32Array(n * rows.ne[0]);
  const { memory, offset } = rows.placement!;
  await memory.readInto(offset, new Uint8Array(out.buffer));
  return out;
}

async function through(
  head: NonNullable<EmbeddingGraphs["head"]>,
  pooled: readonly Float32Array[],
  nEmbd: number,
  signal: AbortSignal | undefined,
): Promise<Float32Array[]> {
  const x = new Float32Array(nEmbd * MAX_TEXTS);
  pooled.forEach((v, i) => x.set(v, i * nEmbd));
  head.x.write(x);
  head.live.write(Int32Array.of(pooled.length));
  await head.graph.compute({ signal });
  const all = await readRows(head.y, pooled.length);
  const n = head.y.ne[0];
  return pooled.map((_, i) => all.slice(i * n, (i + 1) * n));
}

// Average of rows of n elements, summed in double precision.
function mean(rows: Float32Array, n: number): Float32Array {
  const sum = new Float64Array(n);
  for (let i = 0; i < rows.length; i++) sum[i % n]! += rows[i]!;
  const count = rows.length / n;
  return Float32Array.from(sum, (s) => s / count);
}

// The vector over its length; one of zeros stays.
function normalized(v: Float32Array): Float32Array {
  let power = 0;
  for (const x of v) power += x * x;
  const length = Math.sqrt(power);
  return length === 0 ? v : v.map((x) => x / length);
}

function checkFinite(v: Float32Array): void {
  const wrong = v.find((x) => !Number.isFinite(x));
  if (wrong === undefined) return;
  throw new FormatError("non-finite", "embed: the result holds NaN or infinity", { actual: wrong });
}
