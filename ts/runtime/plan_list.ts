// The planner over a bare list of lifetimes.

import {
  PLAN_ALIGN,
  PLAN_BUDGET,
  PLAN_CAPACITY,
  PLAN_CHUNK,
  PLAN_LOWER_BOUND,
  PLAN_PEAK,
  PLAN_PLAIN,
  PlanArray,
} from "../../assembly/abi.ts";
import {
  checkPlanOptions,
  type CheckedOptions,
  type Lifetime,
  type LifetimeColumns,
  type PlanOptions,
  steps,
  toColumnsChecked,
} from "./plan_check.ts";
import { type PlanHost, SIZE_LIMIT, sizeError, withBlock } from "./plan_host.ts";
import { readRules, type Rules } from "./plan_rules.ts";
import { type PlanFigures, PlanSpace, spaceLayout } from "./plan_space.ts";

/** A placed list. */
export interface BufferPlan extends PlanFigures {
  /** bytes from the start of the chunk, in input order */
  readonly offsets: Float64Array;
  /** chunk of each buffer; all 0 without `maxChunk` */
  readonly chunkOf: Int32Array;
  /** bytes of each chunk; they add up to `peak` */
  readonly chunks: readonly number[];
  readonly ms: number;
}

// A list placed in chunks laid end to end.
interface Placed extends PlanFigures {
  readonly offsets: Float64Array;
}

/**
 * Places a list of buffers so that none that are alive together overlap. The result depends on the list, the options
 * and nothing else.
 *
 * @throws {GraphError} `bad-plan` for lifetimes, sizes, alignments or offsets that are none or contradict each other,
 * `too-large` for more than 2^24 buffers or 2^16 pre-placed ones
 * @throws {DeviceError} `out-of-memory` when the workspace (about 190 bytes a buffer) cannot be had
 */
export function planBuffers(
  host: PlanHost,
  list: readonly Lifetime[] | LifetimeColumns,
  options: PlanOptions = {},
): BufferPlan {
  const o = checkPlanOptions(options);
  const c = toColumnsChecked(list, o.alignment);
  const time = steps(c, c.size.length);
  const rules = readRules(c, o);
  const start = performance.now();
  const columns = { ...c, ...time };
  const plan =
    rules.chunk === Infinity ? whole(place(host, columns, rules, o)) : inChunks(host, columns, rules, o);
  return { ...plan, ms: performance.now() - start };
}

function whole(p: Placed): Omit<BufferPlan, "ms"> {
  return { ...p, chunkOf: new Int32Array(p.offsets.length), chunks: [p.peak] };
}

function place(host: PlanHost, c: LifetimeColumns, r: Rules, o: CheckedOptions): Placed {
  const n = c.size.length;
  const { sum, free } = count(c, r);
  if (!(sum < SIZE_LIMIT)) throw sizeError();
  const layout = spaceLayout({ entries: n, free, fixed: r.fixed.length, aligned: r.aligns !== undefined });
  return withBlock(host, layout, (at) => {
    const s = new PlanSpace(host.memory, at, layout, o.seed);
    ask(s, r, o);
    s.ints(PlanArray.LOWER, n).set(c.lower);
    s.ints(PlanArray.UPPER, n).set(c.upper);
    const bytes = s.floats(PlanArray.BYTES, n);
    for (let i = 0; i < n; i++) bytes[i] = padded(c, r, i);
    const offsets = s.floats(PlanArray.OFFSET, n);
    if (r.offsets === undefined) offsets.fill(0);
    else offsets.set(r.offsets);
    if (r.aligns !== undefined) s.floats(PlanArray.ALIGNS, n).set(r.aligns);
    s.number(n, r.fixed);
    host.exports.planPlace(at);
    return { offsets: offsets.map((x) => Math.max(0, x)), ...s.figures(sum) };
  });
}

function padded({ size }: LifetimeColumns, { base }: Rules, i: number): number {
  return Math.ceil((size[i] ?? 0) / base) * base;
}

// Padded bytes of all, and how many there are to place.
function count(c: LifetimeColumns, r: Rules): { sum: number; free: number } {
  let [sum, free] = [0, 0];
  for (let i = 0; i < c.size.length; i++) {
    const bytes = padded(c, r, i);
    sum += bytes;
    const pinned = r.offsets !== undefined && (r.offsets[i] ?? -1) >= 0;
    if (bytes > 0 && (c.upper[i] ?? 0) > (c.lower[i] ?? 0) && !pinned) free++;
  }
  return { sum, free };
}

function ask(s: PlanSpace, r: Rules, o: CheckedOptions): void {
  s.setFloat(PLAN_PEAK, Infinity);
  s.setFloat(PLAN_LOWER_BOUND, Infinity);
  s.setFloat(PLAN_ALIGN, r.base);
  s.setFloat(PLAN_CHUNK, r.chunk);
  s.setFloat(PLAN_CAPACITY, o.capacity);
  s.setFloat(PLAN_BUDGET, o.budget);
  s.setInt(PLAN_PLAIN, r.aligns === undefined && r.fixed.length === 0 && r.chunk === Infinity ? 1 : 0);
}

// Buffers above the chunk's size are set aside, the others placed in chunks laid end to end, none across a border.
function inChunks(host: PlanHost, c: LifetimeColumns, r: Rules, o: CheckedOptions): Omit<BufferPlan, "ms"> {
  const n = c.size.length;
  const bytes = (i: number): number => Math.ceil((c.size[i] ?? 0) / r.base) * r.base;
  const alive = (i: number): boolean => bytes(i) > 0 && (c.upper[i] ?? 0) > (c.lower[i] ?? 0);
  const all = Array.from({ length: n }, (_, i) => i);
  const small = all.filter((i) => bytes(i) <= r.chunk);
  const large = all.filter((i) => bytes(i) > r.chunk && alive(i));
  const pick = (from: ArrayLike<number>): Float64Array => Float64Array.from(small, (i) => from[i] ?? 0);
  const part = { lower: pick(c.lower), upper: pick(c.upper), size: pick(c.size) };
  const placed = place(host, part, { ...r, aligns: r.aligns && pick(r.aligns) }, o);
  const offsets = new Float64Array(n);
  const chunkOf = new Int32Array(n);
  const chunks: number[] = [];
  small.forEach((i, k) => {
    const at = placed.offsets[k] ?? 0;
    const chunk = Math.floor(at / r.chunk);
    offsets[i] = at - chunk * r.chunk;
    chunkOf[i] = chunk;
    if (alive(i)) chunks[chunk] = Math.max(chunks[chunk] ?? 0, (offsets[i] ?? 0) + bytes(i));
  });
  const members = new Map<number, number[]>();
  for (const i of large) chunkOf[i] = own(c, members, chunks, i, bytes(i));
  const sizes = Array.from(chunks, (x) => x ?? 0);
  const peak = sizes.reduce((sum, x) => sum + x, 0);
  const lowerBound = large.length === 0 ? placed.lowerBound : mostAlive(c, all.filter(alive), bytes);
  const sum = all.reduce((total, i) => total + bytes(i), 0);
  return {
    offsets,
    chunkOf,
    chunks: sizes,
    peak,
    lowerBound,
    sum,
    optimal: peak <= lowerBound,
    work: placed.work,
  };
}

// A chunk for buffer i: one that large buffers have which are never alive with it and are no smaller, else a new one. `members`:
// the large buffers of each chunk.
function own(
  c: LifetimeColumns,
  members: Map<number, number[]>,
  chunks: number[],
  i: number,
  bytes: number,
): number {
  const apart = (j: number): boolean =>
    (c.upper[j] ?? 0) <= (c.lower[i] ?? 0) || (c.upper[i] ?? 0) <= (c.lower[j] ?? 0);
  for (const [chunk, held] of members) {
    if ((chunks[chunk] ?? 0) < bytes || !held.every(apart)) continue;
    held.push(i);
    return chunk;
  }
  const chunk = chunks.push(bytes) - 1;
  members.set(chunk, [i]);
  return chunk;
}

// Most bytes alive at once: no plan is smaller.
function mostAlive(c: LifetimeColumns, alive: readonly number[], bytes: (i: number) => number): number {
  const events = alive.flatMap((i): [number, number][] => [
    [c.lower[i] ?? 0, bytes(i)],
    [c.upper[i] ?? 0, -bytes(i)],
  ]);
  events.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0;
  let most = 0;
  for (const [, change] of events) most = Math.max(most, (now += change));
  return most;
}
