// What a model needs before any of its weights is read: parameters, weights as leafs, context size, exact bytes.

import { Flag } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { Graph } from "../graph/graph.ts";
import { leaf, type Tensor } from "../graph/tensor.ts";
import type { GgufFile, TensorInfo } from "../gguf/index.ts";
import type { Engine } from "../runtime/engine.ts";
import { alignUp } from "../shape.ts";
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
const DEFAULT_BATCH = 64;
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

/** Bytes that a model takes in the arena, by use. */
export interface ModelMemory {
  readonly weights: number;
  readonly kv: number;
  readonly records: number;
  readonly compute: number;
  readonly total: number;
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
}

/** Wishes for a context. */
export interface ContextOptions {
  /** positions; default: the file's, at most 4096, and what fits */
  readonly nCtx?: number | undefined;
  /** tokens of a prompt computed at once, default 64 */
  readonly nBatch?: number | undefined;
  /** type of keys and values, default F16 */
  readonly kvType?: KvType | undefined;
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
  const nBytes = bufferBytes(engine, weights.values());
  const common = { header, weights, options };
  if (isEmbedder(header.params)) {
    const embedding = planEmbedding(engine, header, weights, options);
    const { records, compute } = engine.measure(embeddingGraphList(embedding));
    const total = nBytes + records + compute;
    checkRoom(engine, embedding.shape.nCtx, total);
    const memory = { weights: nBytes, kv: 0, records, compute, total };
    return { ...common, nCtx: embedding.shape.nCtx, context: undefined, embedding, memory };
  }
  const context = planContext(engine, header, weights, options, nBytes);
  const memory = { ...context.memory, weights: nBytes, total: nBytes + context.memory.total };
  return { ...common, nCtx: context.shape.nCtx, context, embedding: undefined, memory };
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
 * @param reserved bytes that the weights will take beside it; 0 when they have their memory
 * @throws as {@link planModel}
 */
export function planContext(
  engine: Engine,
  header: ModelHeader,
  weights: ReadonlyMap<string, Tensor>,
  options: ContextOptions,
  reserved: number,
): ContextPlan {
  const { nCtx, nBatch = DEFAULT_BATCH, kvType = Type.F16, nOut = 1 } = options;
  if (!header.params.causal) throw noTokens(header.params);
  checkContext(header.params, nCtx, nBatch, kvType);
  const make = (n: number): ContextPlan =>
    build(engine, header, weights, { nCtx: n, nBatch: Math.min(nBatch, n), kvType, nOut });
  const wanted = nCtx ?? Math.min(header.params.nCtxTrain, DEFAULT_CTX);
  const first = make(wanted);
  const needed = reserved + first.memory.total;
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
): ContextPlan {
  const graphs = contextGraphs(engine, header.build, header.params, weights, shape);
  const { records, compute } = engine.measure(graphList(graphs));
  const kv = bufferBytes(engine, cacheTensors(graphs.cache));
  return { shape, graphs, memory: { kv, records, compute, total: kv + records + compute } };
}

/** Bytes that tensors take in a buffer of their own. */
function bufferBytes(engine: Engine, tensors: Iterable<Tensor>): number {
  let sum = 0;
  for (const t of tensors) sum += alignUp(t.nBytes, engine.backend.bufferType.alignment);
  return engine.arena.regionBytes(sum);
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
