// An instance of the core over a memory, on the main thread and in workers alike.

import type { __AdaptedExports } from "../../build/simd.d.ts";

/** Exports of the core module, as the AssemblyScript compiler describes them. */
export type Exports = Omit<typeof __AdaptedExports, "memory">;

/** A WebAssembly.Memory, as far as it is used: typings must hold where the DOM's are not loaded. */
export interface WasmMemory {
  readonly buffer: ArrayBufferLike;
  grow(delta: number): number;
}

/** A WebAssembly.Module. It has no members. */
export type WasmModule = object;

/**
 * The exports of a new instance.
 *
 * @throws {WebAssembly.LinkError} when the module wants other imports
 */
export function instanceOf(module: WasmModule, memory: WasmMemory): Exports {
  const abort = (): never => {
    throw new Error("abort");
  };
  const env = { memory: memory as WebAssembly.Memory, abort };
  return new WebAssembly.Instance(module, { env }).exports as unknown as Exports;
}
