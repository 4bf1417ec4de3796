// The planner over the node records of a graph.

import {
  PLAN_BYTES,
  PLAN_COUNT,
  PLAN_LOWER,
  PLAN_OFFSET,
  PLAN_OWNER,
  PLAN_RESULT_BYTES,
  PLAN_SCRATCH,
  PLAN_UPPER,
} from "../../assembly/abi.ts";
import { align16, type PlanFigures, type PlanHost, readResult, statusError, withBlock } from "./plan_host.ts";
import type { WasmMemory } from "./instance.ts";

/** A buffer of a graph's plan: a tensor (with all that took its memory over in place) or the scratch of one step. */
export interface PlanEntry {
  /** alive in steps [lower, upper) */
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  readonly offset: number;
  /** index of the record it was made for */
  readonly record: number;
  readonly scratch: boolean;
}

/** The plan of one backend buffer of a graph. Offsets themselves are in the records. */
export interface GraphPlan extends PlanFigures {
  readonly ms: number;
  /** largest scratch of a step, bytes; inside `peak`, outside `sum` */
  readonly scratch: number;
  readonly entries: readonly PlanEntry[];
}

export interface RecordRange {
  /** address of the first record */
  readonly records: number;
  readonly nLeafs: number;
  readonly nNodes: number;
  /** index of the backend buffer to plan; 0 by default */
  readonly buffer?: number | undefined;
  /** bytes; 32 by default */
  readonly alignment?: number | undefined;
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
}

// About 5 ms.
const GRAPH_BUDGET = 1e6;

/**
 * Plans one backend buffer of a graph; writes `offs`, `scratchOffs` and `parent` of its records.
 *
 * @throws {GraphError} `bad-plan` when sizes are no sizes
 */
export function planGraph(host: PlanHost, range: RecordRange): GraphPlan {
  const n = range.nLeafs + range.nNodes;
  const work = align16(PLAN_RESULT_BYTES);
  const bytes = work + host.exports.planRecordsWorkspace(range.records, n);
  return withBlock(host, { bytes }, (at) => {
    const start = performance.now();
    const status = host.exports.planRecords(
      range.records,
      range.nLeafs,
      range.nNodes,
      range.buffer ?? 0,
      range.alignment ?? 32,
      range.budget ?? GRAPH_BUDGET,
      range.seed ?? 1,
      at + work,
      at,
    );
    const ms = performance.now() - start;
    if (status !== 0) throw statusError(status);
    const scratch = new DataView(host.memory.buffer, at).getFloat64(PLAN_SCRATCH, true);
    return { ...readResult(host.memory, at), ms, scratch, entries: readEntries(host.memory, at) };
  });
}

function readEntries(memory: WasmMemory, at: number): PlanEntry[] {
  const v = new DataView(memory.buffer, at);
  const f = (field: number): number => v.getFloat64(field, true);
  const n = f(PLAN_COUNT);
  const i32 = (field: number): Int32Array => new Int32Array(memory.buffer, f(field), n);
  const f64 = (field: number): Float64Array => new Float64Array(memory.buffer, f(field), n);
  const [lower, upper, owner] = [i32(PLAN_LOWER), i32(PLAN_UPPER), i32(PLAN_OWNER)];
  const [size, offset] = [f64(PLAN_BYTES), f64(PLAN_OFFSET)];
  return Array.from(owner, (o, i) => ({
    lower: lower[i] ?? 0,
    upper: upper[i] ?? 0,
    size: size[i] ?? 0,
    offset: offset[i] ?? 0,
    record: o < 0 ? ~o : o,
    scratch: o < 0,
  }));
}
