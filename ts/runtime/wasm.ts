// The wasm module: which build, from where, and whether its memory is shared.

import { NODE_BYTES } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import { type CoreBuild, coreBytes } from "./cores.ts";
import { type Exports, instanceOf, type WasmMemory, type WasmModule } from "./instance.ts";

export type { Exports } from "./instance.ts";

/** Where the core module comes from: a build by name, or one given file: its address, bytes, or compiled module. */
export type WasmOption = CoreBuild | URL | Response | ArrayBuffer | ArrayBufferView | WasmModule;

/** A function whose body needs SIMD: i8x16.popcnt(i8x16.splat(0)). */
const SIMD_PROBE =
  "\0asm\x01\0\0\0\x01\x05\x01\x60\0\x01\x7b\x03\x02\x01\0\x0a\x0a\x01\x08\0\x41\0\xfd\x0f\xfd\x62\x0b";

/** A compiled core module. */
export interface Core {
  readonly module: WasmModule;
  /** which build was taken; "custom" when the user gave the file */
  readonly build: CoreBuild | "custom";
}

/**
 * Compiles the core module.
 *
 * Without an option: the relaxed build where the engine compiles it and it passes a known-answer test, else the
 * baseline SIMD build. One file serves plain and shared memory: the memory import's flag is set here.
 *
 * @throws {DeviceError} no-simd, bad-wasm, wasm-blocked
 */
export async function compileCore(option: WasmOption | undefined, shared: boolean): Promise<Core> {
  if (typeof option === "string") {
    if (option !== "simd" && option !== "relaxed") {
      throw new GraphError(
        "bad-param",
        `wasm: "${String(option)}" is no build of the core, expected simd or relaxed`,
      );
    }
    return { module: await compile(await coreBytes(option), shared, option), build: option };
  }
  if (option !== undefined) return { module: await compileGiven(option, shared), build: "custom" };
  // To ask first whether it is valid would take as long as to compile it.
  const core = withShared(await coreBytes("relaxed"), shared);
  const module = await WebAssembly.compile(core).catch(() => undefined);
  if (module !== undefined && knownAnswer(module, shared)) return { module, build: "relaxed" };
  return { module: await compile(await coreBytes("simd"), shared, "simd"), build: "simd" };
}

async function compileGiven(option: Exclude<WasmOption, string>, shared: boolean): Promise<WasmModule> {
  if (option instanceof WebAssembly.Module) return option;
  if (option instanceof URL || option instanceof Response) {
    const { bytes, from } = await fetchCore(option);
    return compile(bytes, shared, from);
  }
  return compile(bytesOf(option), shared, "the given bytes");
}

/** The bytes of a core file that lies elsewhere. @throws {DeviceError} bad-wasm where they do not come, and for a status that is no success */
export async function fetchCore(
  option: URL | Response,
): Promise<{ readonly bytes: Uint8Array<ArrayBuffer>; readonly from: string }> {
  const from = option instanceof URL ? option.href : option.url;
  const lost = (cause: unknown): never => {
    throw new DeviceError("bad-wasm", `wasm: ${from} cannot be read`, { cause });
  };
  const response = option instanceof URL ? await fetch(option).catch(lost) : option;
  if (!response.ok) {
    throw new DeviceError("bad-wasm", `wasm: ${response.url}: status ${response.status}`, {
      actual: response.status,
    });
  }
  return { bytes: new Uint8Array(await response.arrayBuffer().catch(lost)), from: response.url };
}

function bytesOf(data: object): Uint8Array {
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  throw new DeviceError("bad-wasm", "wasm: neither a URL, a Response, bytes nor a compiled module");
}

async function compile(bytes: Uint8Array, shared: boolean, from: string): Promise<WebAssembly.Module> {
  if (bytes[0] !== 0 || bytes[1] !== 0x61) {
    const start = new TextDecoder().decode(bytes.subarray(0, 16));
    const what = start.trimStart().startsWith("<") ? "HTML" : JSON.stringify(start);
    throw new DeviceError("bad-wasm", `wasm: ${from} is not a wasm module but ${what}`, { actual: start });
  }
  const core = withShared(bytes, shared);
  try {
    return await WebAssembly.compile(core);
  } catch (cause) {
    if (WebAssembly.validate(core)) {
      throw new DeviceError(
        "wasm-blocked",
        `wasm: ${from} is sound but may not be compiled; a page's policy must allow it (script-src 'wasm-unsafe-eval')`,
        { cause },
      );
    }
    throw refused(from, cause);
  }
}

// Why the engine does not take a module that its policy allows: a file, unlike the builds inside, may be damaged.
function refused(from: string, cause: unknown): DeviceError {
  const simd = WebAssembly.validate(Uint8Array.from(SIMD_PROBE, (c) => c.charCodeAt(0)));
  if (simd && from !== "simd" && from !== "relaxed") {
    const message = `wasm: ${from}: damaged, or in need of what this engine lacks`;
    return new DeviceError("bad-wasm", message, { cause });
  }
  const needs = from === "relaxed" ? "relaxed SIMD" : "SIMD";
  return new DeviceError(
    "no-simd",
    `wasm: this engine cannot compile the core (${from}); it needs ${needs}`,
    {
      cause,
    },
  );
}

/** A copy of the module whose memory import is shared or not. Atomics work on plain memory too; only waiting does not. */
export function withShared(bytes: Uint8Array, shared: boolean): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(bytes);
  let at = 8;
  const leb = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = out[at++] ?? 0; // past the end: the engine will refuse the module
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  };
  const skipName = (): void => {
    const length = leb();
    at += length;
  };
  while (at < out.length) {
    const id = out[at++];
    const end = leb() + at;
    if (id !== 2) {
      at = end;
      continue;
    }
    for (let n = leb(); n > 0; n--) {
      skipName();
      skipName();
      const kind = out[at++];
      if (kind === 2) {
        // limits: bit 0 = has a maximum, bit 1 = shared
        out[at] = shared ? 3 : 1;
        return out;
      }
      leb(); // the type of an imported function
    }
  }
  return out;
}

/** A memory and the pages it may grow to. */
export interface GrowableMemory {
  readonly memory: WasmMemory;
  readonly maxPages: number;
}

/** A memory of `pages` 64 KiB pages that may grow as far as this engine allows, at most to `maxPages`. */
export function createMemory(pages: number, shared: boolean, maxPages = 65536): GrowableMemory {
  for (let maximum = Math.max(pages, maxPages); ; maximum = Math.ceil(maximum / 2)) {
    try {
      return { memory: new WebAssembly.Memory({ initial: pages, maximum, shared }), maxPages: maximum };
    } catch (cause) {
      if (maximum > Math.max(pages, 1024)) continue;
      throw new DeviceError("out-of-memory", `wasm: no memory of ${pages} pages to be had`, { cause });
    }
  }
}

/** An instance of the core over a memory. Checks that both sides agree on the record layout. */
export function instantiate(module: WasmModule, memory: WasmMemory): Exports {
  let core: Exports;
  try {
    core = instanceOf(module, memory);
  } catch (cause) {
    throw new DeviceError("bad-wasm", "wasm: the module wants other imports than the core", { cause });
  }
  if (core.nodeBytes?.() !== NODE_BYTES) {
    throw new DeviceError("bad-wasm", "wasm: the core belongs to another version", {
      expected: NODE_BYTES,
      actual: core.nodeBytes?.(),
    });
  }
  return core;
}

// Some engines validate relaxed SIMD and compute its dot wrongly in one of their tiers.
function knownAnswer(module: WasmModule, shared: boolean): boolean {
  try {
    return instantiate(module, createMemory(4, shared, 4).memory).selfTest() === 1;
  } catch {
    return false;
  }
}
