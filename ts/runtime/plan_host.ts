// An instance of the core as the planner sees it: a block of its memory on loan, a status, the result block.

import {
  PLAN_LOWER_BOUND,
  PLAN_OPTIMAL,
  PLAN_PEAK,
  PLAN_SUM,
  PLAN_WORK,
  PlanStatus,
  Region,
} from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { WasmMemory } from "./instance.ts";

/** What the planner needs of the core's exports. */
export interface PlanExports {
  regionAlloc(bytes: number, kind: number): number;
  regionFree(address: number): unknown;
  regionShortfall(bytes: number): number;
  planWorkspace(n: number): number;
  planBuffers(
    pLower: number,
    pUpper: number,
    pSize: number,
    pOffset: number,
    pAlign: number,
    pFixed: number,
    n: number,
    nFixed: number,
    align: number,
    chunk: number,
    capacity: number,
    budget: number,
    seed: number,
    pWork: number,
    pResult: number,
  ): number;
  planRecordsWorkspace(records: number, n: number): number;
  planRecords(
    records: number,
    nLeafs: number,
    nNodes: number,
    buffer: number,
    align: number,
    chunk: number,
    budget: number,
    seed: number,
    pWork: number,
    pResult: number,
  ): number;
}

/** An instance of the core: an engine's, or one made for planning alone. Its regions must be initialised. */
export interface PlanHost {
  readonly memory: WasmMemory;
  readonly exports: PlanExports;
}

/** Figures every plan has. */
export interface PlanFigures {
  /** bytes needed */
  readonly peak: number;
  /** most bytes alive at once: no plan is smaller */
  readonly lowerBound: number;
  /** bytes without any re-use */
  readonly sum: number;
  /** no plan is smaller: the peak is the lower bound, or a complete search found nothing below it */
  readonly optimal: boolean;
  /** work done, in buffers looked at */
  readonly work: number;
}

/** The error for a status other than OK. */
export function statusError(status: number): GraphError {
  if (status === PlanStatus.BAD_SIZE) {
    return new GraphError("bad-plan", "plan: padded sizes are negative, or add up to 2^53 or more");
  }
  return new GraphError("bad-plan", `plan: ${PlanStatus[status] ?? status}`);
}

/** Smallest multiple of 16 that holds x. */
export function align16(x: number): number {
  return Math.ceil(x / 16) * 16;
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

/** Reads the result block at `at`. */
export function readResult(memory: WasmMemory, at: number): PlanFigures {
  const v = new DataView(memory.buffer, at);
  const f = (field: number): number => v.getFloat64(field, true);
  return {
    peak: f(PLAN_PEAK),
    lowerBound: f(PLAN_LOWER_BOUND),
    sum: f(PLAN_SUM),
    optimal: f(PLAN_OPTIMAL) === 1,
    work: f(PLAN_WORK),
  };
}
