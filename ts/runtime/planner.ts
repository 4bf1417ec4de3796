// The planner of the wasm core, called from TypeScript: a bare list of lifetimes, or the node records of a graph.

import {
  PLAN_BYTES,
  PLAN_COUNT,
  PLAN_LOWER,
  PLAN_LOWER_BOUND,
  PLAN_OFFSET,
  PLAN_OPTIMAL,
  PLAN_OWNER,
  PLAN_PEAK,
  PLAN_RESULT_BYTES,
  PLAN_SCRATCH,
  PLAN_SUM,
  PLAN_UPPER,
  PLAN_WORK,
  PlanStatus,
  Region,
} from "../../assembly/abi.ts";
import { checkOptions, DeviceError, GraphError } from "../errors.ts";

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
    n: number,
    align: number,
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
    budget: number,
    seed: number,
    pWork: number,
    pResult: number,
  ): number;
}

/** An instance of the core: an engine's, or one made for planning alone. Its regions must be initialised. */
export interface PlanHost {
  readonly memory: WebAssembly.Memory;
  readonly exports: PlanExports;
}

/** One buffer: alive in [lower, upper), `size` bytes. */
export interface Lifetime {
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
}

/** The same as columns, for long lists. */
export interface LifetimeColumns {
  readonly lower: ArrayLike<number>;
  readonly upper: ArrayLike<number>;
  readonly size: ArrayLike<number>;
}

export interface PlanOptions {
  /** offsets are multiples of it, bytes; 1 by default */
  readonly alignment?: number | undefined;
  /** bytes that are good enough; by default the lower bound is aimed at */
  readonly capacity?: number | undefined;
  /** most work, in buffers looked at (about 5 ns each); fixes the result together with the seed. 2e8, with a capacity 4e9 */
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
}

/** A placed list. */
export interface BufferPlan {
  /** bytes, in input order */
  readonly offsets: Float64Array;
  /** bytes needed */
  readonly peak: number;
  /** most bytes alive at once: no plan is smaller */
  readonly lowerBound: number;
  /** bytes without any re-use */
  readonly sum: number;
  /** the peak is the lower bound */
  readonly optimal: boolean;
  readonly ms: number;
  /** work done, in buffers looked at */
  readonly work: number;
}

/** A buffer of a graph's plan: a tensor (with all that took its memory over in place) or the scratch of one step. */
export interface PlanEntry extends Lifetime {
  readonly offset: number;
  /** index of the record it was made for */
  readonly record: number;
  readonly scratch: boolean;
}

/** The plan of one backend buffer of a graph. Offsets themselves are in the records. */
export interface GraphPlan extends Omit<BufferPlan, "offsets"> {
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

/** Most buffers of a list: the workspace of twice as many would pass 4 GiB. */
export const MAX_BUFFERS: number = 1 << 24;

// About a second for a list, at most 20 for one that has a capacity to get below, about 5 ms for a graph.
const LIST_BUDGET = 2e8;
const CAPACITY_BUDGET = 4e9;
const GRAPH_BUDGET = 1e6;
// Budgets above are the same as this one; it keeps the wasm side's sums exact.
const BUDGET_MAX = 2 ** 52;

const OPTIONS = ["alignment", "capacity", "budget", "seed"] as const;

/**
 * Places a list of buffers. The result depends on the list, the options and nothing else.
 *
 * @throws {GraphError} `bad-plan` for lifetimes or sizes that are none, `too-large` for more than 2^24 buffers
 * @throws {DeviceError} `out-of-memory` when the workspace (about 180 bytes a buffer) cannot be had
 */
export function planBuffers(
  host: PlanHost,
  list: readonly Lifetime[] | LifetimeColumns,
  options: PlanOptions = {},
): BufferPlan {
  checkOptions("planBuffers", options, OPTIONS);
  const o = checkedOptions(options);
  const columns = isList(list) ? toColumns(list) : list;
  const n = columns.size.length;
  checkLengths(columns, n);
  const { lower, upper } = steps(columns, n);
  return withBlock(host, listLayout(host, n), (at, l) => {
    new Int32Array(host.memory.buffer, at + l.lower, n).set(lower);
    new Int32Array(host.memory.buffer, at + l.upper, n).set(upper);
    new Float64Array(host.memory.buffer, at + l.size, n).set(columns.size);
    const start = performance.now();
    const x = host.exports;
    const status = x.planBuffers(
      at + l.lower,
      at + l.upper,
      at + l.size,
      at + l.offset,
      n,
      o.alignment,
      o.capacity,
      o.budget,
      o.seed,
      at + l.work,
      at + l.result,
    );
    const ms = performance.now() - start;
    if (status !== 0) throw statusError(status);
    const offsets = new Float64Array(host.memory.buffer, at + l.offset, n).slice();
    return { offsets, ...readResult(host.memory, at + l.result), ms };
  });
}

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

function isList(list: readonly Lifetime[] | LifetimeColumns): list is readonly Lifetime[] {
  return Array.isArray(list);
}

function toColumns(list: readonly Lifetime[]): LifetimeColumns {
  const n = list.length;
  const columns = { lower: new Float64Array(n), upper: new Float64Array(n), size: new Float64Array(n) };
  list.forEach((b, i) => {
    columns.lower[i] = b.lower;
    columns.upper[i] = b.upper;
    columns.size[i] = b.size;
  });
  return columns;
}

interface CheckedOptions {
  readonly alignment: number;
  readonly capacity: number;
  readonly budget: number;
  readonly seed: number;
}

function checkedOptions(o: PlanOptions): CheckedOptions {
  const { alignment = 1, capacity = 0, seed = 1 } = o;
  const { budget = capacity > 0 ? CAPACITY_BUDGET : LIST_BUDGET } = o;
  const whole = (x: number): boolean => Number.isSafeInteger(x);
  if (!whole(alignment) || alignment < 1)
    throw badOption("alignment", alignment, "a whole number of at least 1");
  if (!(capacity >= 0)) throw badOption("capacity", capacity, "bytes");
  if (!(budget >= 0)) throw badOption("budget", budget, "a number of at least 0");
  if (!whole(seed)) throw badOption("seed", seed, "a whole number");
  return { alignment, capacity, budget: Math.min(budget, BUDGET_MAX), seed: seed | 0 };
}

function badOption(name: string, actual: unknown, expected: string): GraphError {
  return new GraphError("bad-plan", `planBuffers: ${name} is ${String(actual)}, expected ${expected}`, {
    expected,
    actual,
    key: name,
  });
}

function checkLengths(c: LifetimeColumns, n: number): void {
  if (c.lower.length !== n || c.upper.length !== n) {
    throw new GraphError(
      "bad-plan",
      `planBuffers: columns have ${c.lower.length}, ${c.upper.length} and ${n} entries`,
    );
  }
  if (n > MAX_BUFFERS) {
    throw new GraphError("too-large", `planBuffers: ${n} buffers, at most ${MAX_BUFFERS}`, {
      expected: MAX_BUFFERS,
      actual: n,
    });
  }
}

// Checks the list. Lifetimes that are no 32-bit integers are replaced by their ranks: only their order matters.
function steps(c: LifetimeColumns, n: number): { lower: ArrayLike<number>; upper: ArrayLike<number> } {
  let small = true;
  let sum = 0;
  for (let i = 0; i < n; i++) {
    const lower = c.lower[i] ?? NaN;
    const upper = c.upper[i] ?? NaN;
    const size = c.size[i] ?? NaN;
    if (!(lower >= 0 && upper >= lower && upper < Infinity)) throw badLifetime(i, lower, upper);
    if (!(size >= 0) || !Number.isSafeInteger(size)) throw badSize(i, size);
    small &&= (lower | 0) === lower && (upper | 0) === upper;
    sum += size;
  }
  if (sum > Number.MAX_SAFE_INTEGER) throw tooManyBytes(sum);
  return small ? c : ranks(c, n);
}

function ranks(c: LifetimeColumns, n: number): { lower: Int32Array; upper: Int32Array } {
  const times = new Float64Array(2 * n);
  times.set(c.lower);
  times.set(c.upper, n);
  times.sort();
  const distinct = times.filter((t, i) => i === 0 || t !== times[i - 1]);
  return { lower: rankOf(c.lower, distinct), upper: rankOf(c.upper, distinct) };
}

function rankOf(values: ArrayLike<number>, sorted: Float64Array): Int32Array {
  return Int32Array.from(values, (v) => {
    let l = 0;
    for (let r = sorted.length; l < r;) {
      const mid = (l + r) >>> 1;
      if ((sorted[mid] ?? NaN) < v) l = mid + 1;
      else r = mid;
    }
    return l;
  });
}

function badLifetime(i: number, lower: number, upper: number): GraphError {
  const expected = "0 <= lower <= upper, finite";
  return new GraphError("bad-plan", `buffer ${i}: lifetime is [${lower}, ${upper}), expected ${expected}`, {
    expected,
    actual: [lower, upper],
    node: i,
  });
}

function badSize(i: number, size: number): GraphError {
  const expected = "whole bytes below 2^53";
  return new GraphError("bad-plan", `buffer ${i}: size is ${size}, expected ${expected}`, {
    expected,
    actual: size,
    node: i,
  });
}

function tooManyBytes(sum: number): GraphError {
  return new GraphError("bad-plan", `planBuffers: sizes add up to ${sum}, expected less than 2^53`, {
    actual: sum,
  });
}

function statusError(status: number): GraphError {
  if (status === PlanStatus.BAD_SIZE) {
    return new GraphError("bad-plan", "plan: padded sizes are negative, or add up to 2^53 or more");
  }
  return new GraphError("bad-plan", `plan: ${PlanStatus[status] ?? status}`);
}

function align16(x: number): number {
  return Math.ceil(x / 16) * 16;
}

interface ListLayout {
  readonly bytes: number;
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  readonly offset: number;
  readonly result: number;
  readonly work: number;
}

// lower i32[n] | upper i32[n] | size f64[n] | offset f64[n] | result | workspace
function listLayout(host: PlanHost, n: number): ListLayout {
  const upper = align16(4 * n);
  const size = 2 * upper;
  const offset = align16(size + 8 * n);
  const result = align16(offset + 8 * n);
  const work = result + align16(PLAN_RESULT_BYTES);
  return { lower: 0, upper, size, offset, result, work, bytes: work + host.exports.planWorkspace(n) };
}

// Lends a block of the arena for the time of `body`.
function withBlock<L extends { readonly bytes: number }, T>(
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

function growBy(memory: WebAssembly.Memory, bytes: number): void {
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

function readResult(memory: WebAssembly.Memory, at: number): Omit<BufferPlan, "offsets" | "ms"> {
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

function readEntries(memory: WebAssembly.Memory, at: number): PlanEntry[] {
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
