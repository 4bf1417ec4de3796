// The planner over a bare list of lifetimes.

import { PLAN_RESULT_BYTES } from "../../assembly/abi.ts";
import {
  checkPlanOptions,
  type CheckedOptions,
  type Lifetime,
  type LifetimeColumns,
  type PlanOptions,
  steps,
  toColumnsChecked,
} from "./plan_check.ts";
import { align16, type PlanFigures, type PlanHost, readResult, statusError, withBlock } from "./plan_host.ts";
import { readRules, type Rules } from "./plan_rules.ts";

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
 * @throws {DeviceError} `out-of-memory` when the workspace (about 180 bytes a buffer) cannot be had
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
  return withBlock(host, listLayout(host, n, r), (at, l) => {
    const { buffer } = host.memory;
    new Int32Array(buffer, at + l.lower, n).set(c.lower);
    new Int32Array(buffer, at + l.upper, n).set(c.upper);
    new Float64Array(buffer, at + l.size, n).set(c.size);
    const offsets = new Float64Array(buffer, at + l.offset, n);
    if (r.offsets === undefined) offsets.fill(0);
    else offsets.set(r.offsets);
    if (r.aligns !== undefined) new Float64Array(buffer, at + l.aligns, n).set(r.aligns);
    new Int32Array(buffer, at + l.fixed, r.fixed.length).set(r.fixed);
    call(host, at, l, n, r, o);
    const placed = new Float64Array(host.memory.buffer, at + l.offset, n).map((x) => Math.max(0, x));
    return { offsets: placed, ...readResult(host.memory, at + l.result) };
  });
}

function call(host: PlanHost, at: number, l: ListLayout, n: number, r: Rules, o: CheckedOptions): void {
  const status = host.exports.planBuffers(
    at + l.lower,
    at + l.upper,
    at + l.size,
    at + l.offset,
    r.aligns === undefined ? 0 : at + l.aligns,
    at + l.fixed,
    n,
    r.fixed.length,
    r.base,
    r.chunk,
    o.capacity,
    o.budget,
    o.seed,
    at + l.work,
    at + l.result,
  );
  if (status !== 0) throw statusError(status);
}

interface ListLayout {
  readonly bytes: number;
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  readonly offset: number;
  readonly aligns: number;
  readonly fixed: number;
  readonly result: number;
  readonly work: number;
}

// lower i32[n] | upper i32[n] | size f64[n] | offset f64[n] | alignment f64[n] or none | fixed i32[] | result | workspace
function listLayout(host: PlanHost, n: number, r: Rules): ListLayout {
  const upper = align16(4 * n);
  const size = 2 * upper;
  const offset = align16(size + 8 * n);
  const aligns = align16(offset + 8 * n);
  const fixed = r.aligns === undefined ? aligns : align16(aligns + 8 * n);
  const result = align16(fixed + 4 * r.fixed.length);
  const work = result + align16(PLAN_RESULT_BYTES);
  const bytes = work + host.exports.planWorkspace(n);
  return { lower: 0, upper, size, offset, aligns, fixed, result, work, bytes };
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
  for (const i of large) chunkOf[i] = own(c, large, chunkOf, chunks, i, bytes(i));
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

// A chunk for buffer i: one that large buffers have which are never alive with it and are no smaller, else a new one.
function own(
  c: LifetimeColumns,
  large: readonly number[],
  chunkOf: Int32Array,
  chunks: number[],
  i: number,
  bytes: number,
): number {
  const before = large.slice(0, large.indexOf(i));
  const apart = (j: number): boolean =>
    (c.upper[j] ?? 0) <= (c.lower[i] ?? 0) || (c.upper[i] ?? 0) <= (c.lower[j] ?? 0);
  for (const j of before) {
    const chunk = chunkOf[j] ?? 0;
    if ((chunks[chunk] ?? 0) < bytes) continue;
    if (before.every((k) => chunkOf[k] !== chunk || apart(k))) return chunk;
  }
  return chunks.push(bytes) - 1;
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
