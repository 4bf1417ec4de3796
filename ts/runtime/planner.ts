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
  /** bytes from the start of its chunk */
  readonly offset: number;
  readonly chunk: number;
  /** index of the record it was made for */
  readonly record: number;
  readonly scratch: boolean;
}

/**
 * The plan of one backend's memory for a graph: one buffer, or several chunks where the backend's largest is too small.
 * Offsets themselves are in the records, where they count on through the chunks: see {@link locate}.
 */
export interface GraphPlan extends PlanFigures {
  /** bytes of each chunk, one at least; they add up to `peak` */
  readonly chunks: readonly number[];
  /** offsets of a chunk in the records */
  readonly chunkSize: number;
  readonly ms: number;
  /** largest scratch of a step, bytes; inside `peak`, outside `sum` */
  readonly scratch: number;
  readonly entries: readonly PlanEntry[];
}

/** Where in which chunk an offset of the records lies. */
export interface ChunkPlace {
  readonly chunk: number;
  readonly offset: number;
}

/** Finds the place of an offset; `chunkSize` may be Infinity. */
export function locate(offset: number, chunkSize: number): ChunkPlace {
  return { chunk: Math.floor(offset / chunkSize), offset: offset % chunkSize };
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
  /** most bytes of a chunk, a multiple of the alignment; Infinity by default */
  readonly chunkSize?: number | undefined;
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
  const { chunkSize = Infinity } = range;
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
      chunkSize,
      range.budget ?? GRAPH_BUDGET,
      range.seed ?? 1,
      at + work,
      at,
    );
    const ms = performance.now() - start;
    if (status !== 0) throw statusError(status);
    const scratch = new DataView(host.memory.buffer, at).getFloat64(PLAN_SCRATCH, true);
    const figures = readResult(host.memory, at);
    const entries = readEntries(host.memory, at, chunkSize);
    return { ...figures, ms, scratch, entries, chunkSize, ...chunked(figures, entries, chunkSize) };
  });
}

// Several chunks are as large as what lies in them; whether a smaller sum of them is impossible only the bound can tell.
function chunked(
  { peak, lowerBound, optimal }: PlanFigures,
  entries: readonly PlanEntry[],
  chunkSize: number,
): Pick<GraphPlan, "chunks" | "peak" | "optimal"> {
  if (peak <= chunkSize) return { chunks: [peak], peak, optimal };
  const chunks = Array.from({ length: Math.ceil(peak / chunkSize) }, () => 0);
  for (const { chunk, offset, size } of entries)
    if (size > 0) chunks[chunk] = Math.max(chunks[chunk]!, offset + size);
  const sum = chunks.reduce((bytes, n) => bytes + n, 0);
  return { chunks, peak: sum, optimal: sum <= lowerBound };
}

function readEntries(memory: WasmMemory, at: number, chunkSize: number): PlanEntry[] {
  const v = new DataView(memory.buffer, at);
  const f = (field: number): number => v.getFloat64(field, true);
  const n = f(PLAN_COUNT);
  const i32 = (field: number): Int32Array => new Int32Array(memory.buffer, f(field), n);
  const f64 = (field: number): Float64Array => new Float64Array(memory.buffer, f(field), n);
  const [lower, upper, owner] = [i32(PLAN_LOWER), i32(PLAN_UPPER), i32(PLAN_OWNER)];
  const [size, offset] = [f64(PLAN_BYTES), f64(PLAN_OFFSET)];
  return Array.from(owner, (o, i) => {
    const at = locate(offset[i] ?? 0, chunkSize);
    return {
      lower: lower[i] ?? 0,
      upper: upper[i] ?? 0,
      size: size[i] ?? 0,
      offset: at.offset,
      chunk: at.chunk,
      record: o < 0 ? ~o : o,
      scratch: o < 0,
    };
  });
}
