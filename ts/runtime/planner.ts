// The planner over the node records of a graph.

import {
  Flag,
  LIFE_BYTES,
  LIFE_ENTRY,
  LIFE_PARENT,
  LIFE_SCRATCH,
  NODE_BUFFER,
  NODE_BYTES,
  NODE_FLAGS,
  NODE_OFFS,
  NODE_PARENT,
  NODE_SCRATCH,
  NODE_SCRATCH_OFFS,
  NODE_SIZE,
  NODE_VIEW_SRC,
  PLAN_ALIGN,
  PLAN_BUDGET,
  PLAN_BUFFER,
  PLAN_CHUNK,
  PLAN_COUNT,
  PLAN_LEAFS,
  PLAN_LOWER_BOUND,
  PLAN_NODES,
  PLAN_PEAK,
  PLAN_PLAIN,
  PLAN_RECORDS,
  PLAN_WORK,
  PlanArray,
} from "../../assembly/abi.ts";
import type { WasmMemory } from "./instance.ts";
import { type PlanHost, SIZE_LIMIT, sizeError, withBlock } from "./plan_host.ts";
import { type PlanFigures, PlanSpace, spaceLayout } from "./plan_space.ts";

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
  /** exactly what ggml does, its liveness and its best fit; for comparison */
  readonly ggml?: boolean | undefined;
}

// About 5 ms.
const GRAPH_BUDGET = 1e6;

/**
 * Plans one backend buffer of a graph; writes `offs`, `scratchOffs` and `parent` of its records, -1 where nothing was
 * placed. Never larger than ggml's plan for the same records.
 *
 * @throws {GraphError} `bad-plan` when sizes are no sizes
 */
export function planGraph(host: PlanHost, range: RecordRange): GraphPlan {
  const { buffer = 0, alignment = 32, budget = GRAPH_BUDGET, seed = 1 } = range;
  const start = performance.now();
  const found = survey(host.memory, range, buffer, alignment);
  const layout = spaceLayout(found);
  return withBlock(host, layout, (at) => {
    const s = new PlanSpace(host.memory, at, layout, seed);
    s.setFloat(PLAN_ALIGN, alignment);
    s.setFloat(PLAN_CHUNK, Infinity);
    s.setFloat(PLAN_BUDGET, budget);
    s.setInt(PLAN_PLAIN, 1);
    s.setInt(PLAN_RECORDS, range.records);
    s.setInt(PLAN_LEAFS, range.nLeafs);
    s.setInt(PLAN_NODES, range.nNodes);
    s.setInt(PLAN_BUFFER, buffer);
    const kept = range.ggml === true ? attempt(host, s, found, false, false) : decide(host, s, found);
    writePlaces(host.memory, range, buffer, kept);
    const figures = { ...kept.figures, work: s.float(PLAN_WORK) };
    return { ...figures, ms: performance.now() - start, scratch: found.scratch, entries: kept.entries };
  });
}

// Entries of the list at most: tensors and scratches of all buffers.
function countEntries({ buffer }: WasmMemory, range: RecordRange): number {
  const i32 = new Int32Array(buffer);
  const f64 = new Float64Array(buffer);
  const end = range.records + (range.nLeafs + range.nNodes) * NODE_BYTES;
  let entries = 0;
  for (let at = range.records; at < end; at += NODE_BYTES) {
    const scratch = f64[(at + NODE_SCRATCH) / 8]!;
    if (!(f64[(at + NODE_SIZE) / 8]! >= 0 && scratch >= 0)) throw sizeError();
    if ((i32[(at + NODE_FLAGS) / 4]! & Flag.EXTERNAL) === 0 && i32[(at + NODE_VIEW_SRC) / 4] === 0) entries++;
    if (scratch > 0) entries++;
  }
  return entries;
}

// A complete plan: what each record came to (LIFE_*), and its list.
interface Attempt {
  readonly figures: PlanFigures;
  readonly lives: Int32Array;
  readonly offset: Float64Array;
  readonly entries: readonly PlanEntry[];
}

// Our rules first. ggml's are tried only when their bound promises less than what ours came to.
function decide(host: PlanHost, s: PlanSpace, found: Found): Attempt {
  host.exports.planLive(s.at, 0);
  const ggmlBound = s.float(PLAN_LOWER_BOUND);
  const ours = attempt(host, s, found, true, true);
  if (ours.figures.peak <= ggmlBound) return ours;
  const other = attempt(host, s, found, false, true);
  return other.figures.peak < ours.figures.peak ? other : ours;
}

// The pass does best fit; better is looked for only above the bound.
function attempt(host: PlanHost, s: PlanSpace, found: Found, ours: boolean, better: boolean): Attempt {
  host.exports.planLive(s.at, ours ? 1 : 0);
  const n = s.int(PLAN_COUNT);
  if (better && s.float(PLAN_PEAK) > s.float(PLAN_LOWER_BOUND)) {
    s.number(n);
    host.exports.planPlace(s.at);
  }
  return {
    figures: s.figures(found.sum),
    lives: s.ints(PlanArray.LIVES, (found.records * LIFE_BYTES) / 4).slice(),
    offset: s.floats(PlanArray.OFFSET, n).slice(),
    entries: readEntries(s, n),
  };
}

function readEntries(s: PlanSpace, n: number): PlanEntry[] {
  const [lower, upper] = [s.ints(PlanArray.LOWER, n), s.ints(PlanArray.UPPER, n)];
  const [size, offset] = [s.floats(PlanArray.BYTES, n), s.floats(PlanArray.OFFSET, n)];
  return Array.from(s.ints(PlanArray.OWNER, n), (o, i) => ({
    lower: lower[i] ?? 0,
    upper: upper[i] ?? 0,
    size: size[i] ?? 0,
    offset: offset[i] ?? 0,
    record: o < 0 ? ~o : o,
    scratch: o < 0,
  }));
}
