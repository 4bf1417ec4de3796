// An instance of the core as the planner sees it: its two calls, and a block of its memory on loan.

import { Region } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { WasmMemory } from "./instance.ts";

/** What the planner needs of the core's exports. */
export interface PlanExports {
  regionAlloc(bytes: number, kind: number): number;
  regionFree(address: number): unknown;
  regionShortfall(bytes: number): number;
  /** Lifetimes of the records, offsets by best fit: under our rules (1) or ggml's (0). */
  planLive(pWork: number, ours: number): void;
  /** The places of the last pass, better ones or not, into its records. */
  planWrite(pWork: number): void;
  /** Better offsets for the list of the workspace. */
  planPlace(pWork: number): void;
}

/** An instance of the core: an engine's, or one made for planning alone. Its regions must be initialised. */
export interface PlanHost {
  readonly memory: WasmMemory;
  readonly exports: PlanExports;
}

/** Sizes must add up to less: every sum and offset is then exact. */
export const SIZE_LIMIT: number = 2 ** 53;

/** The error for sizes that are none, too many bytes, or more than a chunk takes. */
export function sizeError(): GraphError {
  return new GraphError(
    "bad-plan",
    "plan: padded sizes are negative, larger than a chunk, or add up to 2^53 or more",
  );
}

/** Lends a block of the arena for the time of `body`. */
export function withBlock<L extends { readonly bytes: number }, T>(
  host: PlanHost,
  layout: L,
  body: (at: number, layout: L) => T,
): T {
  const x = host.exports;
  const short = x.regionShortfall(layout.bytes);
  if (short > 0) growBy(host.memory, short);
  const at = x.regionAlloc(layout.bytes, Region.SCRATCH);
  if (at < 0) throw noMemory(layout.bytes);
  try {
    return body(at, layout);
  } finally {
    x.regionFree(at);
  }
}

function growBy(memory: WasmMemory, bytes: number): void {
  try {
    memory.grow(Math.ceil(bytes / 65536));
  } catch (cause) {
    throw noMemory(bytes, cause);
  }
}

function noMemory(bytes: number, cause?: unknown): DeviceError {
  return new DeviceError("out-of-memory", `plan: no memory for a workspace of ${bytes} bytes`, {
    expected: bytes,
    cause,
  });
}
