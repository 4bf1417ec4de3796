// Options of an engine, and whom it tells what happens.

import { checkOptions, DeviceError, GraphError } from "../errors.ts";
import { type FuseOption, readFusions } from "../graph/fusion.ts";
import type { VerdictStore } from "./backend.ts";
import type { VectorBits } from "./vectors.ts";
import type { WasmOption } from "./wasm.ts";

/** Receives notices; silent by default. */
export interface Logger {
  debug?(message: string): void;
  info?(message: string): void;
  warn?(message: string): void;
  error?(message: string): void;
  /** the same for programs: what happened, in figures */
  onEvent?(event: EngineEvent): void;
}

/** A plan was made (not found again), graphs moved to a larger compute buffer, or a device was lost. */
export type EngineEvent =
  | { readonly type: "plan"; readonly nTensors: number; readonly nBytes: number }
  | { readonly type: "grow"; readonly from: number; readonly to: number; readonly graphs: number }
  | { readonly type: "device-lost"; readonly name: string; readonly reopened: boolean };

/** What is asked of a GPUDevice here, so that these types need no others. */
export interface DeviceHandle {
  readonly queue: object;
  readonly limits: object;
  readonly lost: Promise<unknown>;
}

/** Options of {@link createEngine}. */
export interface EngineOptions {
  /** threads, 1 to 64; default: what the host reports, at most 8, and 1 where memory cannot be shared */
  readonly nThreads?: number | undefined;
  /**
   * where graphs run: "auto" (default) measures shortly and takes a GPU that is faster than the CPU; "webgpu" takes the GPU
   * for all that it can do, software adapters too; a GPUDevice of yours is used as it is. Without a GPU it is the CPU;
   * {@link Engine.backends} says why
   */
  readonly device?: "auto" | "cpu" | "webgpu" | DeviceHandle | undefined;
  /**
   * which neighbours in a graph run as one node: true (default) for all that the backends have, false for none, or names
   * with true or false. Results differ by rounding at most
   */
  readonly fuse?: FuseOption | undefined;
  /**
   * where it is kept which GPU kernels have passed their test, so that the next process need not test them again: the path
   * of a file (Node, Deno, Bun), a store of yours, false for nowhere. Default: the Cache API in pages and their workers,
   * nowhere else. Nothing is taken from another version of this package, another host, adapter or driver
   */
  readonly verdicts?: VerdictStore | string | false | undefined;
  /** a build of the core by name, or one given core file */
  readonly wasm?: WasmOption | undefined;
  /**
   * 128 (default) or 256: in Node and Electron on x64 this turns on, for the whole process, a pass of V8 (14 and later)
   * that makes 256-bit vectors of pairs: prompts then run at 1.4 times the rate, with the same bits. V8 marks it as
   * experimental. A browser must have been started with `--js-flags=--experimental-wasm-revectorize`. Engines known to lack
   * it stay at 128: see {@link Engine.vectors}
   */
  readonly vectors?: VectorBits | undefined;
  /** worker script for pages whose policy forbids blob workers */
  readonly workerUrl?: string | URL | undefined;
  /** largest memory, bytes; default 4 GiB or what the host grants */
  readonly maxMemory?: number | undefined;
  readonly logger?: Logger | undefined;
}

const OPTIONS = [
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
const DEVICES: readonly unknown[] = ["auto", "cpu", "webgpu"];
/** Bytes of a page of linear memory. */
export const PAGE = 65536;
/** Memory at start: room for the records of a common model, so that loading grows it once, to the known total. */
export const START_PAGES = 32;

/**
 * Refuses options that are none.
 *
 * @throws {TypeError} for an unknown option
 * @throws {GraphError} bad-param
 * @throws {DeviceError} unsupported
 */
export function checkEngineOptions(options: EngineOptions): void {
  checkOptions("createEngine", options, OPTIONS);
  const { nThreads, device = "auto", fuse, maxMemory = Infinity } = options;
  readFusions(fuse);
  checkVectors(options.vectors);
  checkVerdicts(options.verdicts);
  if (!DEVICES.includes(device) && (typeof device !== "object" || device === null || !("queue" in device))) {
    const expected = '"auto", "cpu", "webgpu" or a GPUDevice';
    throw new DeviceError("unsupported", `createEngine: device "${String(device)}", expected ${expected}`, {
      expected,
      actual: String(device),
    });
  }
  if (typeof maxMemory !== "number" || !(maxMemory >= START_PAGES * PAGE)) {
    throw new GraphError(
      "bad-param",
      `createEngine: maxMemory is ${String(maxMemory)}, expected at least ${START_PAGES * PAGE} bytes`,
      { expected: START_PAGES * PAGE, actual: maxMemory },
    );
  }
  if (nThreads !== undefined && !(Number.isInteger(nThreads) && nThreads >= 1 && nThreads <= 64)) {
    throw new GraphError("bad-param", `createEngine: nThreads is ${nThreads}, expected 1 to 64`, {
      actual: nThreads,
    });
  }
}

function checkVectors(vectors: unknown): void {
  if (vectors === undefined || vectors === 128 || vectors === 256) return;
  const text = `createEngine: vectors is ${String(vectors)}, expected 128 or 256`;
  throw new GraphError("bad-param", text, { expected: "128 or 256", actual: vectors });
}

function checkVerdicts(verdicts: unknown): void {
  const { get, set } = Object(verdicts) as { readonly get?: unknown; readonly set?: unknown };
  const store = typeof get === "function" && typeof set === "function";
  if (verdicts === undefined || verdicts === false || typeof verdicts === "string" || store) return;
  const text = "createEngine: verdicts is neither a path nor false nor { get, set }";
  throw new GraphError("bad-param", text, { actual: typeof verdicts });
}
