// Loads a model: header, plan, one growth of memory, then every weight straight to its place.

import { Flag } from "../../assembly/abi.ts";
import { checkOptions, DeviceError, GraphError } from "../errors.ts";
import { fromBF16, fromF16 } from "../graph/elements.ts";
import { quadLeafs } from "../graph/quads.ts";
import type { Tensor } from "../graph/tensor.ts";
import {
  type ByteSource,
  openGguf,
  type OpenGguf,
  type Part,
  type SourceInput,
  type TensorInfo,
} from "../gguf/index.ts";
import type { Allocation } from "../runtime/allocation.ts";
import type { Buffer } from "../runtime/backend.ts";
import { touchFirst } from "../runtime/cpu.ts";
import type { QuadWindows } from "../runtime/quads.ts";
import { createEngine, type Engine, type EngineOptions } from "../runtime/engine.ts";
import { Type } from "../types.ts";
import { Context } from "./context.ts";
import { Embedder } from "./embed.ts";
import type { ProgressListener } from "./generate.ts";
import { Model } from "./model.ts";
import {
  type ContextOptions,
  layerCount,
  type ModelHeader,
  type ModelPlan,
  plannedGraphs,
  planModel,
  readModelHeader,
} from "./plan_model.ts";
import { SlowLoad, WarmUp } from "./warm_up.ts";

/** Options of a load: its own, the context's, and those of the engine it makes. */
export interface LoadOptions
  extends EngineOptions, Pick<ContextOptions, "nCtx" | "nBatch" | "kvType" | "gpuLayers"> {
  /** an engine to load into; default: one of the model's own, disposed with it */
  readonly engine?: Engine | undefined;
  /**
   * order of the weights in memory: "quads" (default) interleaves eight rows where type and use allow it, in place, for
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

/** Part of the layers that stay on a device which had too little memory for all. */
const FEWER = 0.75;

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
  "gpuLayers",
  "nThreads",
  "device",
  "fuse",
  "verdicts",
  "wasm",
  "vectors",
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
  return loadFile(await openGguf(input, { signal }), options, () => openGguf(input));
}

/** @throws {TypeError} for a misspelt option; GraphError bad-param */
export function checkLoadOptions(options: LoadOptions): void {
  checkOptions("loadModel", options, LOAD_OPTIONS);
  const { layout = "quads" } = options;
  if (layout !== "quads" && layout !== "file") {
    throw new GraphError("bad-param", `loadModel: layout "${String(layout)}", expected "quads" or "file"`);
  }
}

/**
 * Loads a model from a file that is open already, and closes it.
 *
 * @param open opens the file once more, after the loss of a device
 */
export async function loadFile(
  { file, source }: OpenGguf,
  options: LoadOptions,
  open: () => Promise<OpenGguf>,
): Promise<Model> {
  let engine: Engine | undefined;
  try {
    const header = withTemplate(readModelHeader(file), options.chatTemplate);
    engine = options.engine ?? (await createEngine(engineOptions(options)));
    await engine.recover();
    options.signal?.throwIfAborted();
    const taken = await take(engine, header, options);
    return await load(engine, taken, source, options, open);
  } catch (error) {
    // memory that a lost device had mapped ends reading in many ways
    const loss = options.signal?.aborted ? undefined : engine?.devices.find((d) => d.lost)?.lost;
    if (engine !== options.engine) engine?.dispose();
    await source.close().catch(() => undefined); // the first fault is told
    throw loss ?? error;
  }
}

function withTemplate(header: ModelHeader, chatTemplate: string | undefined): ModelHeader {
  return chatTemplate === undefined ? header : { ...header, templates: header.templates.with(chatTemplate) };
}

/** A model with the memory of its weights. */
interface Taken {
  readonly plan: ModelPlan;
  readonly memory: Allocation;
  readonly quads: Quads;
  /** gives back what {@link holdRest} holds */
  readonly release: () => void;
}

/** Leafs that shall lie in quads, and their way there. */
interface Quads {
  readonly leafs: ReadonlySet<Tensor>;
  readonly windows: QuadWindows;
}

// Memory for the weights, and the certainty that a device has enough for the rest: with fewer layers there if need be.
async function take(engine: Engine, header: ModelHeader, options: LoadOptions): Promise<Taken> {
  let layers = options.gpuLayers;
  for (let ready = false; ;) {
    const plan = planModel(engine, header, { ...options, gpuLayers: layers });
    // Afterwards backends may be able to do less than before.
    if (!ready && (ready = await engine.prepare(plannedGraphs(plan), options.signal))) continue;
    ready = true;
    try {
      return await takeFor(engine, plan, options.layout);
    } catch (error) {
      const most = Math.min(layers ?? Infinity, layerCount(header));
      if (plan.memory.devices.length === 0 || most === 0 || !isLack(error)) throw error;
      layers = Math.floor(most * FEWER);
      options.logger?.warn?.(`${error.message}: ${layers} layers on the device`);
    }
  }
}

function isLack(error: unknown): error is DeviceError {
  return error instanceof DeviceError && ["out-of-memory", "buffer-too-large"].includes(error.code);
}

async function takeFor(engine: Engine, plan: ModelPlan, layout: LoadOptions["layout"]): Promise<Taken> {
  const { memory: sizes, weights } = plan;
  const { arena } = engine;
  arena.ensure(sizes.total);
  const used = arena.usedBytes;
  const memory = engine.allocate([...weights.values()], "weights");
  let release = (): void => undefined;
  try {
    const rest = sizes.total - (arena.usedBytes - used);
    const quads = quadsOf(engine, plan, layout, rest);
    release = holdRest(engine, quads.windows, rest);
    await memory.ready();
    await engine.probe(plan.rest);
    return { plan, memory, quads, release };
  } catch (error) {
    release();
    memory.dispose();
    throw error;
  }
}

function quadsOf(engine: Engine, plan: ModelPlan, layout: LoadOptions["layout"], room: number): Quads {
  const leafs = layout === "file" ? new Set<Tensor>() : leafsForQuads(plan);
  const here = [...leafs].filter((t) => (t.placement!.memory as Buffer).view !== undefined);
  return { leafs: new Set(here), windows: engine.quadWindows(here, room) };
}

// Keeps the room of what comes after the weights, so that another load meanwhile does not count on it. The windows are in
// front of it: memory behind them stays fresh.
function holdRest({ arena }: Engine, windows: QuadWindows, nBytes: number): () => void {
  try {
    const release = arena.hold(nBytes - windows.nBytes);
    return () => {
      release();
      windows.free();
    };
  } catch (error) {
    windows.free();
    throw error;
  }
}

async function load(
  engine: Engine,
  { plan, memory, quads, release }: Taken,
  source: ByteSource,
  options: LoadOptions,
  open: () => Promise<OpenGguf>,
): Promise<Model> {
  let context: Context | undefined;
  let embedder: Embedder | undefined;
  try {
    await readWeights(engine, { plan, memory, quads }, source, options);
    await engine.arrived; // long since, unless the model is tiny
    await source.close();
    options.signal?.throwIfAborted(); // nothing is waited for from here on
    release();
    if (plan.context !== undefined) context = new Context(engine, plan.context.graphs, plan.header.params);
    embedder = new Embedder(engine, plan);
    const reload = (): Promise<Allocation> => loadAgain(engine, plan, open, options.layout);
    const ownsEngine = engine !== options.engine;
    return new Model(engine, plan, { memory, context, embedder, reload, ownsEngine });
  } catch (error) {
    release();
    embedder?.dispose();
    context?.dispose();
    memory.dispose();
    throw error;
  }
}

// The weights once more, where the engine wants them now.
async function loadAgain(
  engine: Engine,
  plan: ModelPlan,
  open: () => Promise<OpenGguf>,
  layout: LoadOptions["layout"],
): Promise<Allocation> {
  const { source } = await open();
  const weights = [...plan.weights.values()];
  let memory: Allocation | undefined;
  let windows: QuadWindows | undefined;
  try {
    for (const t of weights) t.flags &= ~Flag.QUADS;
    engine.settle(plannedGraphs(plan));
    memory = engine.allocate(weights, "weights");
    const quads = quadsOf(engine, plan, layout, engine.arena.report().free);
    ({ windows } = quads);
    await memory.ready();
    await readWeights(engine, { plan, memory, quads }, source, {});
    await source.close();
    return memory;
  } catch (error) {
    memory?.dispose();
    await source.close().catch(() => undefined);
    throw error;
  } finally {
    windows?.free();
  }
}

// Matrices are put in quads on their way, and before graphs are planned: their records carry the layout.
async function readWeights(
  engine: Engine,
  { plan, memory, quads }: Omit<Taken, "release">,
  source: ByteSource,
  { signal, onProgress }: LoadOptions,
): Promise<void> {
  const after: (() => void)[] = [];
  const parts = [...plan.header.tensors.values()].map((info): Part => {
    const t = plan.weights.get(info.name)!;
    if (t.type === info.type) return quads.leafs.has(t) ? laidOut(t, info, quads.windows) : placeOf(t, info);
    const bytes = new Uint8Array(info.nBytes);
    after.push(() => t.write(widen(info.type, bytes, t)));
    return { name: info.name, offset: info.offset, nBytes: info.nBytes, into: () => bytes };
  });
  const endTouch = touchFirst(engine.backend, memory.buffers);
  const warming = new SlowLoad(() => WarmUp.start(engine, plan, quads.leafs.size > 0));
  try {
    await source.load(parts, {
      signal,
      onProgress: (loaded, total) => {
        warming.look(loaded, total);
        onProgress?.({ phase: "load", loaded, total });
      },
    });
  } finally {
    endTouch();
    await warming.end();
  }
  for (const f of after) f();
}

function laidOut(t: Tensor, info: TensorInfo, windows: QuadWindows): Part {
  return {
    ...placeOf(t, info),
    stage: (done, n) => windows.piece(t, done, n),
    whole: () => windows.whole(t),
  };
}

// Straight into the memory of the host, or through the device's staging.
function placeOf(t: Tensor, { name, offset, nBytes }: TensorInfo): Part {
  const at = t.placement!;
  const buffer = at.memory as Buffer;
  const into = (): Uint8Array => buffer.view!(at.offset, nBytes);
  if (buffer.view !== undefined) return { name, offset, nBytes, into };
  return { name, offset, nBytes, into, stage: (done, n) => buffer.stage(at.offset + done, n) };
}

function leafsForQuads(plan: ModelPlan): Set<Tensor> {
  return quadLeafs(plannedGraphs(plan).map((graph) => graph.program()));
}

function widen(type: Type, bytes: Uint8Array, t: Tensor): Float32Array {
  const half = new Uint16Array(bytes.buffer, bytes.byteOffset, t.ne[0]);
  return Float32Array.from(half, type === Type.F16 ? fromF16 : fromBF16);
}

function engineOptions(o: LoadOptions): EngineOptions {
  const { nThreads, device, fuse, verdicts, wasm, vectors, workerUrl, maxMemory, logger } = o;
  return { nThreads, device, fuse, verdicts, wasm, vectors, workerUrl, maxMemory, logger };
}
