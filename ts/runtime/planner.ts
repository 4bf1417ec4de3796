// The planner over the node records of a graph.

import {
  Flag,
  NODE_BYTES,
  NODE_FLAGS,
  NODE_SCRATCH,
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
  PLAN_SUM,
  PLAN_WORK,
  PlanArray,
} from "../../assembly/abi.ts";
import type { WasmMemory } from "./instance.ts";
import {
  chunkBytes,
  copyColumns,
  entriesOf,
  type EntryColumns,
  mostScratch,
  type PlanEntry,
} from "./plan_entries.ts";
import { type PlanHost, SIZE_LIMIT, sizeError, withBlock } from "./plan_host.ts";
import { type PlanFigures, PlanSpace, spaceLayout } from "./plan_space.ts";

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
  /** who lies where; made when first asked for */
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
  /** most bytes of a chunk, a multiple of the alignment; Infinity by default */
  readonly chunkSize?: number | undefined;
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
  /** exactly what ggml does, its liveness and its best fit; for comparison */
  readonly ggml?: boolean | undefined;
}

// About 5 ms.
const GRAPH_BUDGET = 1e6;

/**
 * Plans one backend buffer of a graph; writes `offs`, `scratchOffs` and `parent` of its records, -1 where nothing was
 * placed. In one chunk never larger than ggml's plan for the same records.
 *
 * @throws {GraphError} `bad-plan` when sizes are no sizes, or larger than a chunk, or a chunk is smaller than the alignment
 */
export function planGraph(host: PlanHost, range: RecordRange): GraphPlan {
  const { chunkSize = Infinity, alignment = 32, seed = 1 } = range;
  if (!(chunkSize >= alignment)) throw sizeError();
  const start = performance.now();
  const records = range.nLeafs + range.nNodes;
  const layout = spaceLayout({ entries: countEntries(host.memory, range), records });
  return withBlock(host, layout, (at) => {
    const s = new PlanSpace(host.memory, at, layout, seed);
    ask(s, range, chunkSize);
    const { columns, ...kept } =
      range.ggml === true ? attempt(host, s, chunkSize, 0, false) : decide(host, s, chunkSize);
    const scratch = mostScratch(columns);
    const figures = { ...kept, work: s.float(PLAN_WORK), scratch, ...chunked(kept, columns, chunkSize) };
    return withEntries({ ...figures, chunkSize, ms: performance.now() - start }, columns);
  });
}

// Apart from the plan's making, so that what lives on keeps the columns and nothing of the host.
function withEntries(figures: Omit<GraphPlan, "entries">, columns: EntryColumns): GraphPlan {
  let made: PlanEntry[] | undefined;
  return {
    ...figures,
    get entries(): readonly PlanEntry[] {
      return (made ??= entriesOf(columns, figures.chunkSize));
    },
  };
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

function ask(s: PlanSpace, range: RecordRange, chunkSize: number): void {
  s.setFloat(PLAN_ALIGN, range.alignment ?? 32);
  s.setFloat(PLAN_CHUNK, chunkSize);
  s.setFloat(PLAN_BUDGET, range.budget ?? GRAPH_BUDGET);
  s.setInt(PLAN_RECORDS, range.records);
  s.setInt(PLAN_LEAFS, range.nLeafs);
  s.setInt(PLAN_NODES, range.nNodes);
  s.setInt(PLAN_BUFFER, range.buffer ?? 0);
}

// A complete plan, written into the records.
interface Attempt extends PlanFigures {
  readonly columns: EntryColumns;
}

// Our rules first. ggml's are tried only when their bound promises less than what ours came to.
function decide(host: PlanHost, s: PlanSpace, chunkSize: number): Attempt {
  host.exports.planLive(s.at, 0);
  const ggmlBound = s.float(PLAN_LOWER_BOUND);
  const ours = attempt(host, s, chunkSize, 1);
  return ours.peak <= ggmlBound ? ours : attempt(host, s, chunkSize, 0, true, ours);
}

// The pass does best fit; better is looked for only above the bound. Best fit knows no chunks: what does not end in the first
// one is placed anew.
function attempt(
  host: PlanHost,
  s: PlanSpace,
  chunkSize: number,
  rules: number,
  better = true,
  other?: Attempt,
): Attempt {
  const { planLive, planPlace, planWrite } = host.exports;
  planLive(s.at, rules);
  const n = s.int(PLAN_COUNT);
  const sum = s.float(PLAN_SUM);
  checkSizes(s, n, sum, chunkSize);
  const plain = s.float(PLAN_PEAK) <= chunkSize;
  s.setInt(PLAN_PLAIN, plain ? 1 : 0);
  if (!plain) s.setFloat(PLAN_PEAK, Infinity);
  if (better && s.float(PLAN_PEAK) > s.float(PLAN_LOWER_BOUND)) {
    s.number(n);
    planPlace(s.at);
  }
  if (other !== undefined && s.float(PLAN_PEAK) >= other.peak) return other;
  planWrite(s.at);
  return { ...s.figures(sum), columns: copyColumns(s, n) };
}

// In chunks each buffer may be pushed up by its own size.
function checkSizes(s: PlanSpace, n: number, sum: number, chunkSize: number): void {
  const bytes = s.floats(PlanArray.BYTES, n);
  let all = 0;
  for (let i = 0; i < n; i++) {
    const size = bytes[i]!;
    if (size > chunkSize) throw sizeError();
    all += size;
  }
  if (!(Math.max(all, sum) < (chunkSize < Infinity ? SIZE_LIMIT / 2 : SIZE_LIMIT))) throw sizeError();
}

// Several chunks are as large as what lies in them; whether a smaller sum of them is impossible only the bound can tell.
function chunked(
  { peak, lowerBound, optimal }: PlanFigures,
  columns: EntryColumns,
  chunkSize: number,
): Pick<GraphPlan, "chunks" | "peak" | "optimal"> {
  if (peak <= chunkSize) return { chunks: [peak], peak, optimal };
  const chunks = chunkBytes(columns, peak, chunkSize);
  const sum = chunks.reduce((bytes, n) => bytes + n, 0);
  return { chunks, peak: sum, optimal: sum <= lowerBound };
}
