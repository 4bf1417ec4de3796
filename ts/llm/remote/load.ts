// Chooses where a model runs: on this thread, or in a worker of its own.

import { checkOptions, DeviceError, GraphError } from "../../errors.ts";
import type { SourceInput } from "../../gguf/index.ts";
import { fetchCore, type WasmOption } from "../../runtime/wasm.ts";
import { LOAD_OPTIONS, loadHere, type LoadOptions } from "../load.ts";
import type { Model as LocalModel } from "../model.ts";
import type { Model } from "../surface.ts";
import { Connection } from "./connection.ts";
import { makePeer, webPeer, type WorkerLike } from "./peer.ts";
import type { LoadedModel } from "./protocol.ts";
import { RemoteModel } from "./remote_model.ts";

/** Options of {@link loadModel}. */
export interface LoadModelOptions extends LoadOptions {
  /**
   * where the model runs: true = in a worker of its own, so that this thread stays free; false = here. Default: true in a
   * page, false elsewhere, and false where an `engine` or a byte source of one's own is given. Or a worker whose script
   * calls {@link serveModels}: the model takes it over and ends it
   */
  readonly worker?: boolean | WorkerLike | undefined;
}

/**
 * Loads a GGUF model from a path, URL, Blob, file handle or bytes.
 *
 * In a page the model runs in a worker of its own, and its weights never come to the page: pass an address, a Blob or a
 * file handle, because bytes are copied once. Where a worker is not to be had the page itself computes, after one notice
 * to the `logger`. Options that must answer at once (`onLogits`) need `worker: false`.
 *
 * @throws {FormatError} when the file is bad or of a kind that is not supported
 * @throws {DeviceError} out-of-memory, io, no-simd
 * @throws {GraphError} unsupported for what cannot be sent to a worker
 * @throws {TypeError} for a misspelt option; the reason of `signal`
 */
export function loadModel(
  input: SourceInput,
  options: LoadModelOptions & { readonly worker: false },
): Promise<LocalModel>;
export function loadModel(input: SourceInput, options?: LoadModelOptions): Promise<Model>;
export async function loadModel(input: SourceInput, options: LoadModelOptions = {}): Promise<Model> {
  checkOptions("loadModel", options, [...LOAD_OPTIONS, "worker"]);
  const { worker, ...rest } = options;
  rest.signal?.throwIfAborted();
  const fixed = boundHere(input, rest);
  if (worker === false || (worker === undefined && (fixed !== undefined || !inPage())))
    return loadHere(input, rest);
  if (fixed !== undefined)
    throw new GraphError("unsupported", `loadModel: ${fixed} cannot be sent to a worker`);
  const connection = await connect(worker === true ? undefined : worker, rest);
  if (connection === undefined) return loadHere(input, blocksThreads(rest) ? { ...rest, nThreads: 1 } : rest);
  return loadThere(connection, input, rest);
}

/** True on the main thread of a page. */
function inPage(): boolean {
  return "document" in globalThis && typeof Worker === "function";
}

// What keeps a model on this thread.
function boundHere(input: SourceInput, { engine, verdicts }: LoadOptions): string | undefined {
  if (engine !== undefined) return "an engine";
  if (typeof verdicts === "object") return "a store of verdicts";
  return typeof input === "object" && input !== null && "load" in input ? "a byte source" : undefined;
}

// A line to a worker; undefined when there is none to be had, which the logger hears.
async function connect(given: WorkerLike | undefined, options: LoadOptions): Promise<Connection | undefined> {
  const { logger } = options;
  try {
    const peer =
      given === undefined ? await makePeer() : webPeer(given, "does its script call serveModels()?");
    if (peer !== undefined) return await Connection.open(peer);
    logger?.warn?.("loadModel: there are no workers here: the model runs on this thread");
  } catch (error) {
    if (!(error instanceof DeviceError && error.code === "worker-blocked")) throw error;
    const place = inPage() ? "in the page itself" : "on this thread";
    logger?.warn?.(
      `${error.message}: the model runs ${place}${blocksThreads(options) ? ", with one thread" : ""}`,
    );
  }
  return undefined;
}

// Where one worker is blocked so are all, unless they come from an address.
function blocksThreads({ workerUrl }: LoadOptions): boolean {
  return inPage() && workerUrl === undefined;
}

async function loadThere(connection: Connection, input: SourceInput, options: LoadOptions): Promise<Model> {
  try {
    const wasm = await sendableCore(options.wasm);
    const workerUrl = options.workerUrl === undefined ? undefined : absolute(options.workerUrl);
    const args = [await sendableSource(input), { ...options, wasm, workerUrl }];
    const result = await connection.call("worker", "load", args);
    options.signal?.throwIfAborted(); // it may have been done before it heard
    return new RemoteModel(connection, (result as { readonly value: unknown }).value as LoadedModel);
  } catch (error) {
    connection.end();
    throw error;
  }
}

/** Addresses are told in full, because those of a worker start elsewhere; bytes are copied. */
async function sendableSource(input: SourceInput): Promise<unknown> {
  if (typeof input === "string" || input instanceof URL) return absolute(input);
  if (typeof input !== "object" || input === null || input instanceof Blob) return input;
  if ("getFile" in input) return input.getFile();
  // Only the part that is looked at, not all that lies around it.
  return ArrayBuffer.isView(input)
    ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength).slice()
    : input;
}

async function sendableCore(wasm: WasmOption | undefined): Promise<WasmOption | undefined> {
  return wasm instanceof URL || wasm instanceof Response ? (await fetchCore(wasm)).bytes : wasm;
}

// A path where there are paths.
function absolute(address: string | URL): string {
  const base = globalThis.location?.href;
  if (address instanceof URL || address === "" || base === undefined || !URL.canParse(address, base))
    return String(address);
  return new URL(address, base).href;
}
