// Options that all commands with a model share, and loading with a progress line.

import { fileURLToPath } from "node:url";
import { type KvType, loadModel, type LocalModel } from "../llm/index.ts";
import { comparedVectors, type VectorBits } from "../runtime/vectors.ts";
import { Type } from "../types.ts";
import { type Args, existingOrUrl, type Option } from "./args.ts";
import { complain, progressLine } from "./progress.ts";

/** Options of {@link openModel}. */
export const MODEL_OPTIONS = {
  threads: { type: "string", short: "t", help: "threads; default: what the machine has, at most 8" },
  ctx: { type: "string", short: "c", help: "context length; default: the file's, at most 4096" },
  batch: { type: "string", short: "b", help: "prompt tokens computed at once; default 256" },
  kv: { type: "string", help: "type of keys and values: f16 (default), f32, q8_0 or q4_0" },
  device: { type: "string", help: "auto (default), cpu or webgpu" },
  "gpu-layers": { type: "string", help: "layers on the GPU, from the last; default: all, or as many as fit" },
  wasm: { type: "string", help: "build of the core: simd or relaxed; default: the best this engine runs" },
  vectors: {
    type: "string",
    help: "128 or 256 bits; default: 256 with the versions of V8 it was compared with",
  },
} as const satisfies Record<string, Option>;

/** The model that ships in the package. */
export function shippedModel(): string {
  return fileURLToPath(new URL("../examples/demo-model/slackwater-stories.gguf", import.meta.url));
}

/** The model file named by the arguments, or the shipped one. */
export function modelPath(args: Args): string {
  const [path = shippedModel()] = args.positionals;
  return existingOrUrl(path);
}

/** Loads the model, with a progress line on a terminal. */
export async function openModel(args: Args, signal?: AbortSignal): Promise<LocalModel> {
  const wasm = oneOf(args, "wasm", ["simd", "relaxed"] as const);
  return loadModel(modelPath(args), {
    worker: false,
    nThreads: args.number("threads"),
    nCtx: args.number("ctx"),
    nBatch: args.number("batch"),
    kvType: kvType(args),
    device: oneOf(args, "device", ["auto", "cpu", "webgpu"] as const),
    gpuLayers: args.number("gpu-layers"),
    wasm,
    vectors: Number(oneOf(args, "vectors", ["128", "256"]) ?? comparedVectors()) as VectorBits,
    signal,
    onProgress: progressLine(),
    logger: { warn: complain },
  });
}

const KV_TYPES = { f16: Type.F16, f32: Type.F32, q8_0: Type.Q8_0, q4_0: Type.Q4_0 } as const;

/** Type of keys and values, when given. */
export function kvType(args: Args): KvType | undefined {
  const name = oneOf(args, "kv", Object.keys(KV_TYPES) as (keyof typeof KV_TYPES)[]);
  return name === undefined ? undefined : KV_TYPES[name];
}

function oneOf<T extends string>(args: Args, name: string, values: readonly T[]): T | undefined {
  const text = args.text(name);
  if (text === undefined || values.includes(text as T)) return text as T | undefined;
  throw new TypeError(`--${name}: "${text}", expected ${values.join(" or ")}`);
}

/** A signal that Ctrl-C aborts; a second Ctrl-C ends the process. Listens until it is disposed. */
export function onInterrupt(): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new Error("interrupted"));
  process.once("SIGINT", abort);
  return { signal: controller.signal, [Symbol.dispose]: () => void process.off("SIGINT", abort) };
}
