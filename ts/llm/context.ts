// A context: a KV cache and the planned graphs that run over it, one for single tokens and one for batches.

import { GraphError } from "../errors.ts";
import type { Graph } from "../graph/graph.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Allocation } from "../runtime/allocation.ts";
import type { Engine } from "../runtime/engine.ts";
import type { Reservation } from "../runtime/reservation.ts";
import type { BuildGraph } from "./arch/index.ts";
import { batchInputs, BatchWriter } from "./batch.ts";
import { cacheTensors, kvCache, type KvCache, type KvType } from "./cache.ts";
import { DecodeLoop, type LoopGraph, loopState } from "./decode_loop.ts";
import { chooseToken } from "./device_sampling.ts";
import type { Params } from "./params.ts";

/** Sizes of a context. */
export interface ContextShape {
  /** positions the cache holds */
  readonly nCtx: number;
  /** tokens computed at once */
  readonly nBatch: number;
  /** rows of logits a batch can give */
  readonly nOut: number;
  readonly kvType: KvType;
}

/** A graph with its inputs and its result. */
export interface BatchGraph {
  readonly graph: Graph;
  readonly writer: BatchWriter;
  readonly nTokens: number;
  /** F32 [V, O] */
  readonly logits: Tensor;
}

/** The graphs of a context, built but not yet planned. */
export interface ContextGraphs {
  readonly cache: KvCache;
  readonly single: BatchGraph;
  /** absent when nBatch is 1 */
  readonly batch: BatchGraph | undefined;
  /** builds one for single tokens that chooses the next, below `nVocab`, among the `k` best: see {@link chooseToken} */
  readonly loop: (k: number, nVocab: number) => LoopGraph;
}

/** Builds the graphs of a context. Leafs of weights and cache may get their memory later. */
export function contextGraphs(
  engine: Engine,
  build: BuildGraph,
  p: Params,
  weights: ReadonlyMap<string, Tensor>,
  shape: ContextShape,
): ContextGraphs {
  const cache = kvCache(p, shape.nCtx, shape.kvType);
  const make = (nTokens: number, nOut: number): BatchGraph => {
    const graph = engine.graph();
    const inputs = batchInputs(graph, nTokens, nOut);
    const logits = build(graph, p, weights, cache, inputs);
    return { graph, writer: new BatchWriter(inputs), nTokens, logits };
  };
  return {
    cache,
    single: make(1, 1),
    batch: shape.nBatch > 1 ? make(shape.nBatch, shape.nOut) : undefined,
    loop: (k, nVocab) => {
      const graph = engine.graph();
      const state = loopState();
      const inputs = { ...batchInputs(graph, 1, 1), tokens: state.token };
      const logits = graph.view(build(graph, p, weights, cache, inputs), [nVocab]);
      const choice = chooseToken(graph, logits, k);
      graph.expand(graph.cpy(graph.sum(logits), state.sum));
      graph.expand(graph.cpy(choice.id, state.token));
      return { graph, writer: new BatchWriter(inputs), choice, state };
    },
  };
}

/** Graphs of a context as a list. */
export function graphList(graphs: ContextGraphs): Graph[] {
  return graphs.batch === undefined ? [graphs.single.graph] : [graphs.single.graph, graphs.batch.graph];
}

/** A sequence of tokens in a cache, and the means to go on with it. */
export class Context {
  readonly nCtx: number;
  readonly nBatch: number;
  readonly #graphs: ContextGraphs;
  readonly #engine: Engine;
  #cacheMemory: Allocation;
  readonly #nVocab: number;
  #logits: Float32Array<ArrayBuffer>;
  #logitBytes: Uint8Array<ArrayBuffer>;
  /** ids of the tokens in the cache; those from `position` on are forgotten */
  readonly #ids: Int32Array;
  #position = 0;
  #renewals = 0;
  #reservation: Reservation;
  /** the last one asked for, by its candidates */
  #loop: { readonly k: number; readonly loop: DecodeLoop | undefined } | undefined;

  /** @throws {DeviceError} out-of-memory */
  constructor(engine: Engine, graphs: ContextGraphs, p: Params) {
    this.#engine = engine;
    this.#graphs = graphs;
    this.nCtx = graphs.cache.nCtx;
    this.nBatch = graphs.batch?.nTokens ?? 1;
    [this.#cacheMemory, this.#reservation] = this.#take();
    this.#ids = new Int32Array(this.nCtx);
    this.#nVocab = p.nVocab;
    this.#logits = new Float32Array(p.nVocab);
    this.#logitBytes = new Uint8Array(this.#logits.buffer);
  }

  #take(): readonly [Allocation, Reservation] {
    const graphs = graphList(this.#graphs);
    this.#engine.settle(graphs);
    const memory = this.#engine.allocate(cacheTensors(this.#graphs.cache), "kv");
    try {
      return [memory, this.#engine.reserve(graphs)];
    } catch (error) {
      memory.dispose();
      throw error;
    }
  }

  /** The cache, or part of it, was on a device that is gone. */
  get lost(): boolean {
    return this.#cacheMemory.lost;
  }

  /** Takes memory anew after {@link dispose}; all tokens are forgotten. @throws {DeviceError} out-of-memory */
  renew(): void {
    this.#position = 0;
    this.#renewals++;
    [this.#cacheMemory, this.#reservation] = this.#take();
  }

  /** How often {@link renew} emptied it. */
  get renewals(): number {
    return this.#renewals;
  }

  /** Tokens in the cache; the position of the next one. */
  get position(): number {
    return this.#position;
  }

  /** Ids of the tokens in the cache, a copy. */
  get tokens(): number[] {
    return Array.from(this.#ids.subarray(0, this.#position));
  }

  /** Tensors of the cache: one row per position. */
  get cacheTensors(): readonly Tensor[] {
    return cacheTensors(this.#graphs.cache);
  }

  /**
   * Forgets all tokens from the first on at which the cache and `ids` differ. At least the last of `ids` is forgotten,
   * so that appending the others gives its logits.
   *
   * @returns tokens kept
   */
  reuse(ids: readonly number[]): number {
    const most = Math.min(this.#position, ids.length - 1);
    let n = 0;
    while (n < most && this.#ids[n] === ids[n]) n++;
    this.#position = Math.max(0, n);
    return this.#position;
  }

  /** Says that the cache now holds these tokens: their rows have been written from elsewhere. */
  adopt(ids: ArrayLike<number>): void {
    this.#ids.set(ids);
    this.#position = ids.length;
  }

  /** Forgets all tokens from `position` on. */
  rewind(position = 0): void {
    this.#position = Math.min(position, this.#position);
  }

  /**
   * Appends tokens and computes the logits after the last one. `onBatch` is called after each batch with the tokens done.
   *
   * @returns logits, F32 [V]; the array is used again by the next call
   * @throws {GraphError} context-full when they do not fit; nothing is appended then
   * @throws {DeviceError} trap, timeout; the reason of `signal`
   */
  async append(
    ids: readonly number[],
    signal?: AbortSignal,
    onBatch?: (done: number) => void,
  ): Promise<Float32Array> {
    this.#needRoom(ids.length);
    for (let i = 0; i < ids.length;) {
      const n = Math.min(this.nBatch, ids.length - i);
      const last = i + n === ids.length;
      const ran = await this.#run(ids.slice(i, i + n), last ? [n - 1] : [], signal);
      i += n;
      if (last) await this.#readRow(ran.logits, 0);
      onBatch?.(i);
    }
    return this.#logits;
  }

  /**
   * Appends tokens and gives the logits after each of them, one row at a time; see {@link append}. The batch graph must
   * have been built with as many output rows as tokens.
   */
  async *appendAll(ids: readonly number[], signal?: AbortSignal): AsyncGenerator<Float32Array, void> {
    this.#needRoom(ids.length);
    for (let i = 0; i < ids.length;) {
      const n = Math.min(this.nBatch, ids.length - i);
      const part = ids.slice(i, i + n);
      const ran = await this.#run(
        part,
        part.map((_, column) => column),
        signal,
      );
      for (let row = 0; row < n; row++) {
        await this.#readRow(ran.logits, row);
        yield this.#logits;
      }
      i += n;
    }
  }

  /**
   * Steps that choose their tokens among the `k` best without anybody waiting; see {@link step}. Planned at first use and
   * kept until another `k` is asked for.
   *
   * @param nVocab tokens to choose from
   * @returns undefined unless one device computes all of a step
   * @throws {DeviceError} out-of-memory, device-lost; the reason of `signal`
   */
  async loop(k: number, nVocab: number, signal?: AbortSignal): Promise<DecodeLoop | undefined> {
    if (this.#engine.devices.every((d) => d.bufferType.isHost)) return undefined;
    if (this.#loop?.k === k && this.#loop.loop?.lost !== true) return this.#loop.loop;
    this.#dropLoop();
    const graph = this.#graphs.loop(k, nVocab);
    this.#loop = { k, loop: await DecodeLoop.open(this.#engine, this.#reservation, graph, signal) };
    return this.#loop.loop;
  }

  /**
   * Appends a token and gives the one that the device chose after it.
   *
   * @param most tokens wanted from here on
   * @throws {GraphError} context-full; as {@link DecodeLoop.next}
   */
  async step(loop: DecodeLoop, id: number, most: number, signal?: AbortSignal): Promise<number> {
    this.#needRoom(1);
    const room = this.nCtx - this.#position;
    const next = await loop.next(id, this.#position, Math.min(most, room), signal);
    this.#ids[this.#position++] = id;
    return next;
  }

  /** Gives the cache and the compute buffer back. */
  dispose(): void {
    this.#dropLoop();
    for (const g of graphList(this.#graphs)) g.dispose();
    this.#cacheMemory.dispose();
  }

  #dropLoop(): void {
    this.#loop?.loop?.dispose();
    this.#loop = undefined;
  }

  async #run(ids: readonly number[], out: readonly number[], signal?: AbortSignal): Promise<BatchGraph> {
    const { single, batch } = this.#graphs;
    const chosen = batch === undefined || (ids.length === 1 && out.length <= 1) ? single : batch;
    chosen.writer.write(ids, this.#position, out);
    await chosen.graph.compute({ signal });
    this.#ids.set(ids, this.#position);
    this.#position += ids.length;
    return chosen;
  }

  async #readRow(logits: Tensor, row: number): Promise<void> {
    if (this.#logits.length === 0) {
      // It was handed out, and its buffer moved to another thread.
      this.#logits = new Float32Array(this.#nVocab);
      this.#logitBytes = new Uint8Array(this.#logits.buffer);
    }
    const at = logits.placement!;
    const nBytes = this.#logitBytes.length;
    await at.memory.readInto(at.offset + row * nBytes, this.#logitBytes);
  }

  #needRoom(n: number): void {
    if (n > 0 && this.#position + n <= this.nCtx) return;
    if (n === 0) throw new GraphError("bad-data", "context: no tokens given");
    throw new GraphError(
      "context-full",
      `context: ${n} tokens do not fit: ${this.#position} of ${this.nCtx} positions are taken`,
      { expected: this.nCtx, actual: this.#position + n },
    );
  }
}
