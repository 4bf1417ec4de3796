// Loads a model: header, plan, one growth of memory, then every weight straight to its place.

import { checkOptions, GraphError } from "../errors.ts";
import { fromBF16, fromF16 } from "../graph/elements.ts";
import { quadLeafs } from "../graph/quads.ts";
import type { Tensor } from "../graph/tensor.ts";
import { type ByteSource, openGguf, type OpenGguf, type Part, type SourceInput } from "../gguf/index.ts";
import type { CpuBuffer } from "../runtime/cpu.ts";
import { createEngine, type Engine, type EngineOptions } from "../runtime/engine.ts";
import { Type } from "../types.ts";
import { Context, graphList } from "./context.ts";
import { Embedder } from "./embed.ts";
import { embeddingGraphList } from "./embedding_graph.ts";
import type { ProgressListener } from "./generate.ts";
import { Model } from "./model.ts";
import {
  type ContextOptions,
  type ModelHeader,
  type ModelPlan,
  planModel,
  readModelHeader,
} from "./plan_model.ts";

/** Options of a load: its own, the context's, and those of the engine it makes. */
export interface LoadOptions extends EngineOptions, Pick<ContextOptions, "nCtx" | "nBatch" | "kvType"> {
  /** an engine to load into; default: one of the model's own, disposed with it */
  readonly engine?: Engine | undefined;
  /**
   * order of the weights in memory: "quads" (default) interleaves four rows where type and use allow it, in place, for
   * faster products with the same bits; "file" keeps the file's order
   */
  readonly layout?: "quads" | "file" | undefined;
  /** chat template in place of the file's: a Jinja text, the name of one in the file, or "chatml" */
  readonly chatTemplate?: string | undefined;
  /** ends the load; what it took is given back */
  readonly signal?: AbortSignal | undefined;
  /** hears of the bytes loaded */
  readonly onProgress?: ProgressListener | undefined;
}

/** Names of all options. */
export const LOAD_OPTIONS: readonly string[] = [
  "engine",
  "chatTemplate",
  "signal",
  "onProgress",
  "nCtx",
  "nBatch",
  "kvType",
  "layout",
  "nThreads",
  "device",
  "wasm",
  "workerUrl",
  "maxMemory",
  "logger",
];

/**
 * Loads a GGUF model on this thread; see `loadModel` of slackwater/llm.
 *
 * @throws {FormatError} when the file is bad or of a kind that is not supported
 * @throws {DeviceError} out-of-memory, io, no-simd
 * @throws {TypeError} for a misspelt option; the reason of `signal`
 */
export async function loadHere(input: SourceInput, options: LoadOptions = {}): Promise<Model> {
  checkLoadOptions(options);
  const { signal } = options;
  signal?.throwIfAborted();
  return loadFile(await openGguf(input, { signal }), options);
}

/** @throws {TypeError} for a misspelt option; GraphError bad-param */
export function checkLoadOptions(options: LoadOptions): void {
  checkOptions("loadModel", options, LOAD_OPTIONS);
  const { layout = "quads" } = options;
  if (layout !== "quads" && layout !== "file") {
    throw new GraphError("bad-param", `loadModel: layout "${String(layout)}", expected "quads" or "file"`);
  }
}

/** Loads a model from a file that is open already, and closes it. */
export async function loadFile({ file, source }: OpenGguf, options: LoadOptions): Promise<Model> {
  let engine: Engine | undefined;
  try {
    const header = withTemplate(readModelHeader(file), options.chatTemplate);
    engine = options.engine ?? (await createEngine(engineOptions(options)));
    const plan = planModel(engine, header, options);
    return await load(engine, plan, source, options);
  } catch (error) {
    if (engine !== options.engine) engine?.dispose();
    throw error;
  } finally {
    await source.close();
  }
}

function withTemplate(header: ModelHeader, chatTemplate: string | undefined): ModelHeader {
  return chatTemplate === undefined ? header : { ...header, templates: header.templates.with(chatTemplate) };
}

async function load(
  engine: Engine,
  plan: ModelPlan,
  source: ByteSource,
  options: LoadOptions,
): Promise<Model> {
  engine.arena.ensure(plan.memory.total);
  const weights = [...plan.weights.values()];
  const memory = engine.allocate(weights, "weights");
  let context: Context | undefined;
  let embedder: Embedder | undefined;
  try {
    await readWeights(plan, source, options);
    if (options.layout !== "file") layQuads(engine, plan);
    if (plan.context !== undefined) context = new Context(engine, plan.context.graphs, plan.header.params);
    embedder = new Embedder(engine, plan);
    return new Model(engine, plan, { memory, context, embedder, ownsEngine: engine !== options.engine });
  } catch (error) {
    embedder?.dispose();
    context?.dispose();
    memory.dispose();
    throw error;
  }
}

async function readWeights(plan: ModelPlan, source: ByteSource, options: LoadOptions): Promise<void> {
  const after: (() => void)[] = [];
  const parts = [...plan.header.tensors.values()].map((info): Part => {
    const t = plan.weights.get(info.name)!;
    const { memory, offset } = t.placement!;
    if (t.type === info.type) {
      return {
        name: info.name,
        offset: info.offset,
        nBytes: info.nBytes,
        into: () => (memory as CpuBuffer).view(offset, info.nBytes),
      };
    }
    const staging = new Uint8Array(info.nBytes);
    after.push(() => t.write(widen(info.type, staging, t)));
    return { name: info.name, offset: info.offset, nBytes: info.nBytes, into: () => staging };
  });
  const { signal, onProgress } = options;
  await source.load(parts, {
    signal,
    onProgress: (loaded, total) => onProgress?.({ phase: "load", loaded, total }),
  });
  for (const f of after) f();
}

// Before graphs are planned: their records carry the layout.
function layQuads(engine: Engine, { context, embedding, weights }: ModelPlan): void {
  const graphs = [
    ...(context === undefined ? [] : graphList(context.graphs)),
    ...(embedding === undefined ? [] : embeddingGraphList(embedding)),
  ];
  const fit = quadLeafs(graphs.map((graph) => graph.program()));
  engine.toQuads([...weights.values()].filter((t) => fit.has(t)));
}

function widen(type: Type, bytes: Uint8Array, t: Tensor): Float32Array {
  const half = new Uint16Array(bytes.buffer, bytes.byteOffset, t.ne[0]);
  return Float32Array.from(half, type === Type.F16 ? fromF16 : fromBF16);
}

function engineOptions(o: LoadOptions): EngineOptions {
  const { nThreads, device, wasm, workerUrl, maxMemory, logger } = o;
  return { nThreads, device, wasm, workerUrl, maxMemory, logger };
}
