// What a model needs before any of its weights is read: parameters, weights as leafs, context size, exact bytes.

import { Flag } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { Graph } from "../graph/graph.ts";
import { leaf, type Tensor } from "../graph/tensor.ts";
import type { GgufFile, TensorInfo } from "../gguf/index.ts";
import type { DeviceBytes, Engine } from "../runtime/engine.ts";
import { streamMs } from "../runtime/scheduler/costs.ts";
import { Type } from "../types.ts";
import {
  type BuildGraph,
  type EmbeddingBuild,
  embeddingOf,
  graphOf,
  loadParams,
  loadTensors,
} from "./arch/index.ts";
import { cacheTensors, checkKvType, kvBytesPerPosition, type KvType } from "./cache.ts";
import { ChatTemplates } from "./chat/templates.ts";
import { contextGraphs, type ContextGraphs, type ContextShape, graphList } from "./context.ts";
import { embeddingGraphList, type EmbeddingGraphs, embeddingGraphs } from "./embedding_graph.ts";
import { fingerprint } from "./fingerprint.ts";
import { Metadata } from "./metadata.ts";
import type { Params } from "./params.ts";
import { recommendedSampling } from "./recommended.ts";
import type { SamplingOptions } from "./sampling.ts";
import { loadTokenizer, type Tokenizer } from "./tokenizer.ts";
import { loadedType } from "./weights.ts";

/** Context length by default at most; a longer one must be asked for. */
const DEFAULT_CTX = 4096;
const DEFAULT_BATCH = 256;
/** Tokens of embedding batches that get their memory at load. */
const DEFAULT_EMBEDDING_BATCH = 512;

/** A model as its header describes it. */
export interface ModelHeader {
  /** general.name, or the architecture where there is none */
  readonly name: string;
  readonly build: BuildGraph;
  readonly embedding: EmbeddingBuild;
  readonly params: Params;
  readonly tokenizer: Tokenizer;
  readonly templates: ChatTemplates;
  /** text with {query} and {document} for reranking */
  readonly rerankTemplate: string | undefined;
  /** sampler settings that the file recommends */
  readonly sampling: Partial<SamplingOptions>;
  /** hash of metadata and tensor table */
  readonly fingerprint: Uint8Array;
  /** tensors of the file that the model uses, by name */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
}

/**
 * Checks parameters, tensors and vocabulary of a file.
 *
 * @throws {FormatError} of the model level
 */
export function readModelHeader(file: GgufFile): ModelHeader {
  const meta = new Metadata(file.metadata);
  const params = loadParams(meta);
  const tokenizer = loadTokenizer(meta);
  const templates = ChatTemplates.read(meta);
  return {
    name: textIn(meta, "general.name") ?? params.arch,
    build: graphOf(params.arch),
    embedding: embeddingOf(params.arch),
    params,
    tokenizer,
    templates,
    rerankTemplate: textIn(meta, "tokenizer.chat_template.rerank"),
    sampling: recommendedSampling(file.metadata),
    fingerprint: fingerprint(file),
    tensors: loadTensors(params, file.tensors),
  };
}

// A text that may be absent. One of the wrong kind is no reason to refuse a file.
function textIn(meta: Metadata, key: string): string | undefined {
  try {
    return meta.str(key, "") || undefined;
  } catch {
    return undefined;
  }
}

/** Leafs for the weights, without memory yet. */
export function weightLeafs(header: ModelHeader): Map<string, Tensor> {
  const leafs = new Map<string, Tensor>();
  for (const info of header.tensors.values()) {
    const t = leaf(info.name, loadedType(info), info.ne);
    t.flags |= Flag.EXTERNAL;
    leafs.set(info.name, t);
  }
  return leafs;
}

/** Bytes that a model takes in linear memory, by use, and on devices. */
export interface ModelMemory {
  readonly weights: number;
  readonly kv: number;
  readonly records: number;
  readonly compute: number;
  readonly total: number;
  /** bytes that devices take beside it: weights, cache and compute buffers */
  readonly devices: readonly DeviceBytes[];
}

/** A model with sizes fixed, before memory is taken. */
export interface ModelPlan {
  readonly header: ModelHeader;
  readonly weights: ReadonlyMap<string, Tensor>;
  /** positions that a text can have */
  readonly nCtx: number;
  /** what it was made for */
  readonly options: ContextOptions;
  /** the model's own context; absent for an embedding model, which makes one when it is asked to generate */
  readonly context: ContextPlan | undefined;
  /** graphs of embeddings; absent for other models, which make them when they are asked to embed */
  readonly embedding: EmbeddingGraphs | undefined;
  readonly memory: ModelMemory;
  /** what devices must hold beside the weights */
  readonly rest: readonly DeviceBytes[];
}

/** Wishes for a context. */
export interface ContextOptions {
  /** positions; default: the file's, at most 4096, and what fits */
  readonly nCtx?: number | undefined;
  /** tokens of a prompt computed at once, default 256 */
  readonly nBatch?: number | undefined;
  /** type of keys and values, default F16 */
  readonly kvType?: KvType | undefined;
  /**
   * layers on the device, counted from the last; what comes after the layers counts as one more. All by default, of a
   * device that has too little memory as many as fit
   */
  readonly gpuLayers?: number | undefined;
  /** rows of logits per batch; 1 for generation */
  readonly nOut?: number | undefined;
}

/** A context with sizes fixed, before memory is taken. */
export interface ContextPlan {
  readonly shape: ContextShape;
  readonly graphs: ContextGraphs;
  readonly memory: Omit<ModelMemory, "weights">;
}

/**
 * Fixes the context and plans the graphs.
 *
 * @throws {GraphError} bad-param
 * @throws {DeviceError} out-of-memory, with both sizes, when an explicit context does not fit
 */
export function planModel(engine: Engine, header: ModelHeader, options: ContextOptions): ModelPlan {
  const weights = weightLeafs(header);
  pinLayers(engine, header.params, weights.values(), options.gpuLayers);
  const common = { header, weights, options };
  if (isEmbedder(header.params)) {
    const embedding = planEmbedding(engine, header, weights, options);
    const { records, arena: compute, devices } = engine.measure(embeddingGraphList(embedding));
    const own = engine.measureLeafs([...weights.values()]);
    const total = own.arena + records + compute;
    checkRoom(engine, embedding.shape.nCtx, total);
    const memory = {
      weights: own.arena,
      kv: 0,
      records,
      compute,
      total,
      devices: joined(own.devices, devices),
    };
    return { ...common, nCtx: embedding.shape.nCtx, context: undefined, embedding, memory, rest: devices };
  }
  const context = planContext(engine, header, weights, options, [...weights.values()]);
  const own = engine.measureLeafs([...weights.values()]);
  const memory = {
    ...context.memory,
    weights: own.arena,
    total: own.arena + context.memory.total,
    devices: joined(own.devices, context.memory.devices),
  };
  const rest = context.memory.devices;
  return { ...common, nCtx: context.shape.nCtx, context, embedding: undefined, memory, rest };
}

function joined(...lists: readonly (readonly DeviceBytes[])[]): DeviceBytes[] {
  const sums = new Map<string, number>();
  for (const { name, bytes } of lists.flat()) sums.set(name, (sums.get(name) ?? 0) + bytes);
  return [...sums].map(([name, bytes]) => ({ name, bytes }));
}

/** Graphs that get their memory when the model is loaded. */
export function plannedGraphs({ context, embedding }: ModelPlan): Graph[] {
  return [
    ...(context === undefined ? [] : graphList(context.graphs)),
    ...(embedding === undefined ? [] : embeddingGraphList(embedding)),
  ];
}

/** Layers of a model as `gpuLayers` counts them. */
export function layerCount({ params }: ModelHeader): number {
  return params.layers.length + 1;
}

// What shall not go to the device is pinned to the CPU, the rest goes there if it can.
function pinLayers(engine: Engine, p: Params, leafs: Iterable<Tensor>, gpuLayers: number | undefined): void {
  if (gpuLayers === undefined) return;
  if (!Number.isInteger(gpuLayers) || gpuLayers < 0) {
    throw new GraphError("bad-param", `model: gpuLayers is ${gpuLayers}, expected a count`, {
      actual: gpuLayers,
    });
  }
  if (engine.devices.length < 2) return;
  if (gpuLayers === 0) {
    engine.confine(leafs, engine.backend.name);
    return;
  }
  const list = [...leafs];
  const first = p.layers.length + 1 - gpuLayers;
  const table = sharedTable(p, list);
  const tableHere = table !== undefined && first > 0 && first < p.layers.length && isCheapHere(engine, table);
  for (const t of list) {
    const layer = /^(?:blk|cache_[kv])\.(\d+)/.exec(t.name)?.[1];
    const isInput = t === table ? tableHere : /^(?:token_embd|position_embd|token_types)\./.test(t.name);
    const index = layer === undefined ? (isInput ? 0 : p.layers.length) : Number(layer);
    if (index < first) engine.pin(t, engine.backend.name);
    else engine.prefer([t], engine.devices[0]!.name);
  }
}

/** The table of tokens that is the output's matrix too, where there is no other. */
function sharedTable(p: Params, leafs: readonly Tensor[]): Tensor | undefined {
  if (isEmbedder(p) || leafs.some((t) => t.name === "output.weight")) return undefined;
  return leafs.find((t) => t.name === "token_embd.weight");
}

// With the first layers here, a shared table on the device costs a wait more: for the rows of the tokens. Here it costs a
// product on the CPU.
function isCheapHere(engine: Engine, table: Tensor): boolean {
  return streamMs(table.nBytes) < engine.devices[0]!.costs.roundTripMs;
}

/** Is it a model for embeddings: an encoder, or one whose file says how rows are pooled? */
function isEmbedder({ causal, pooling }: Params): boolean {
  return !causal || pooling !== "none";
}

function planEmbedding(
  engine: Engine,
  { embedding, params }: ModelHeader,
  weights: ReadonlyMap<string, Tensor>,
  { nCtx = Math.min(params.nCtxTrain, DEFAULT_CTX), nBatch }: ContextOptions,
): EmbeddingGraphs {
  checkContext(params, nCtx, nBatch, Type.F32);
  const nTokens = Math.min(nCtx, nBatch ?? DEFAULT_EMBEDDING_BATCH);
  return embeddingGraphs(engine, embedding, params, weights, { nCtx, nTokens, pooling: params.pooling });
}

/**
 * Fixes a context over weights, and plans its graphs.
 *
 * @param reserved leafs that will take memory beside it; none when the weights have theirs
 * @throws as {@link planModel}
 */
export function planContext(
  engine: Engine,
  header: ModelHeader,
  weights: ReadonlyMap<string, Tensor>,
  options: ContextOptions,
  reserved: readonly Tensor[],
): ContextPlan {
  const { nCtx, nBatch = DEFAULT_BATCH, kvType = Type.F16, nOut = 1, gpuLayers } = options;
  if (!header.params.causal) throw noTokens(header.params);
  checkContext(header.params, nCtx, nBatch, kvType);
  const make = (n: number): ContextPlan =>
    build(engine, header, weights, { nCtx: n, nBatch: Math.min(nBatch, n), kvType, nOut }, gpuLayers);
  const wanted = nCtx ?? Math.min(header.params.nCtxTrain, DEFAULT_CTX);
  const first = make(wanted);
  const needed = (reserved.length === 0 ? 0 : engine.measureLeafs(reserved).arena) + first.memory.total;
  const room = engine.arena.maxBytes - engine.arena.usedBytes;
  if (needed <= room) return first;
  const fitting = wanted - Math.ceil((needed - room) / kvBytesPerPosition(header.params, kvType));
  if (nCtx === undefined && fitting >= 2) return make(fitting);
  throw outOfMemory(wanted, needed, room);
}

function checkRoom(engine: Engine, nCtx: number, needed: number): void {
  const room = engine.arena.maxBytes - engine.arena.usedBytes;
  if (needed > room) throw outOfMemory(nCtx, needed, room);
}

function outOfMemory(nCtx: number, needed: number, room: number): DeviceError {
  return new DeviceError(
    "out-of-memory",
    `model: a context of ${nCtx} needs ${needed} bytes; there are ${room}`,
    { expected: needed, actual: room },
  );
}

function noTokens({ arch }: Params): GraphError {
  return new GraphError("unsupported", `${arch}: an encoder predicts no tokens`);
}

/** The graphs of a model for a context of this shape, the largest last, without memory: for looking at their plans. */
export function modelGraphs(engine: Engine, header: ModelHeader, options: ContextOptions): Graph[] {
  if (isEmbedder(header.params)) {
    return embeddingGraphList(planEmbedding(engine, header, weightLeafs(header), options)).toReversed();
  }
  const {
    nCtx = Math.min(header.params.nCtxTrain, DEFAULT_CTX),
    nBatch = DEFAULT_BATCH,
    kvType = Type.F16,
    nOut = 1,
  } = options;
  const shape = { nCtx, nBatch: Math.min(nBatch, nCtx), kvType, nOut };
  return graphList(contextGraphs(engine, header.build, header.params, weightLeafs(header), shape));
}

function build(
  engine: Engine,
  header: ModelHeader,
  weights: ReadonlyMap<string, Tensor>,
  shape: ContextShape,
  gpuLayers: number | undefined,
): ContextPlan {
  const graphs = contextGraphs(engine, header.build, header.params, weights, shape);
  const cache = cacheTensors(graphs.cache);
  pinLayers(engine, header.params, cache, gpuLayers);
  const { records, arena: compute, devices } = engine.measure(graphList(graphs));
  const kv = engine.measureLeafs(cache);
  const total = kv.arena + records + compute;
  return {
    shape,
    graphs,
    memory: { kv: kv.arena, records, compute, total, devices: joined(kv.devices, devices) },
  };
}

function checkPositions({ learnedPositions, nCtxTrain }: Params, nCtx = 0): void {
  if (!learnedPositions || nCtx <= nCtxTrain) return;
  throw new GraphError("bad-param", `model: nCtx is ${nCtx}; the model has ${nCtxTrain} positions`, {
    expected: nCtxTrain,
    actual: nCtx,
  });
}

function checkContext(p: Params, nCtx: number | undefined, nBatch: number | undefined, kvType: Type): void {
  const count = (name: string, n: number | undefined): void => {
    if (n === undefined || (Number.isInteger(n) && n >= 1 && n < 2 ** 31)) return;
    throw new GraphError("bad-param", `model: ${name} is ${n}, expected a count of at least 1`, {
      actual: n,
    });
  };
  count("nCtx", nCtx);
  count("nBatch", nBatch);
  checkPositions(p, nCtx);
  checkKvType(p, kvType);
}
