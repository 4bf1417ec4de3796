// A list of lifetimes and the options of its plan, checked.

import { checkOptions, GraphError } from "../errors.ts";

/** One buffer: alive in [lower, upper), `size` bytes. */
export interface Lifetime {
  readonly lower: number;
  readonly upper: number;
  readonly size: number;
  /** the offset is a multiple of it, bytes; the option's by default */
  readonly alignment?: number | undefined;
  /** pre-placed: the buffer lies there and the others keep clear of it */
  readonly offset?: number | undefined;
}

/** The same as columns, for long lists. */
export interface LifetimeColumns {
  readonly lower: ArrayLike<number>;
  readonly upper: ArrayLike<number>;
  readonly size: ArrayLike<number>;
  readonly alignment?: ArrayLike<number> | undefined;
  /** NaN: not pre-placed */
  readonly offset?: ArrayLike<number> | undefined;
}

/** Options of planBuffers. */
export interface PlanOptions {
  /** offsets are multiples of it, bytes; 1 by default. Sizes are padded to what divides all alignments */
  readonly alignment?: number | undefined;
  /** bytes that are good enough; by default the lower bound is aimed at */
  readonly capacity?: number | undefined;
  /** most work, in buffers looked at (about 5 ns each); fixes the result together with the seed. 2e8, with a capacity 4e9 */
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
  /** cuts memory in chunks of at most this many bytes; a larger buffer gets one of its own, as in ggml */
  readonly maxChunk?: number | undefined;
}

/** Most buffers of a list: the workspace of twice as many would pass 4 GiB. */
export const MAX_BUFFERS: number = 1 << 24;

// About a second for a list, at most 20 for one that has a capacity to get below.
const LIST_BUDGET = 2e8;
const CAPACITY_BUDGET = 4e9;
// Budgets above are the same as this one; it keeps the wasm side's sums exact.
const BUDGET_MAX = 2 ** 52;

const OPTIONS = ["alignment", "capacity", "budget", "seed", "maxChunk"] as const;

function isList(list: readonly Lifetime[] | LifetimeColumns): list is readonly Lifetime[] {
  return Array.isArray(list);
}

function toColumns(list: readonly Lifetime[], alignment: number): LifetimeColumns {
  const n = list.length;
  const columns = { lower: new Float64Array(n), upper: new Float64Array(n), size: new Float64Array(n) };
  let special = false;
  list.forEach((b, i) => {
    columns.lower[i] = b.lower;
    columns.upper[i] = b.upper;
    columns.size[i] = b.size;
    special ||= b.alignment !== undefined || b.offset !== undefined;
  });
  if (!special) return columns;
  const offset = Float64Array.from(list, (b) => b.offset ?? NaN);
  return { ...columns, offset, alignment: Float64Array.from(list, (b) => b.alignment ?? alignment) };
}

/** Options with their defaults. */
export interface CheckedOptions {
  readonly alignment: number;
  readonly capacity: number;
  readonly budget: number;
  readonly seed: number;
  readonly maxChunk: number;
}

/**
 * Checks options and fills in defaults.
 *
 * @throws {TypeError} for a misspelt one
 * @throws {GraphError} bad-plan
 */
export function checkPlanOptions(o: PlanOptions): CheckedOptions {
  checkOptions("planBuffers", o, OPTIONS);
  const { alignment = 1, capacity = 0, seed = 1, maxChunk = Infinity } = o;
  const { budget = capacity > 0 ? CAPACITY_BUDGET : LIST_BUDGET } = o;
  const whole = (x: number): boolean => Number.isSafeInteger(x);
  if (!whole(alignment) || alignment < 1)
    throw badOption("alignment", alignment, "a whole number of at least 1");
  if (!(capacity >= 0)) throw badOption("capacity", capacity, "bytes");
  if (!(budget >= 0)) throw badOption("budget", budget, "a number of at least 0");
  if (!whole(seed)) throw badOption("seed", seed, "a whole number");
  if (maxChunk !== Infinity && !(whole(maxChunk) && maxChunk >= 1))
    throw badOption("maxChunk", maxChunk, "whole bytes, at least 1");
  return { alignment, capacity, budget: Math.min(budget, BUDGET_MAX), seed: seed | 0, maxChunk };
}

/** The error for an option that is none. */
export function badOption(name: string, actual: unknown, expected: string): GraphError {
  return new GraphError("bad-plan", `planBuffers: ${name} is ${String(actual)}, expected ${expected}`, {
    expected,
    actual,
    key: name,
  });
}

/**
 * The list as columns of equal length.
 *
 * @throws {GraphError} bad-plan, too-large
 */
export function toColumnsChecked(
  list: readonly Lifetime[] | LifetimeColumns,
  alignment: number,
): LifetimeColumns {
  const c = isList(list) ? toColumns(list, alignment) : list;
  checkLengths(c, c.size.length);
  return c;
}

function checkLengths(c: LifetimeColumns, n: number): void {
  const lengths = [c.lower, c.upper, c.alignment, c.offset].map((x) => x?.length ?? n);
  if (lengths.some((x) => x !== n)) {
    throw new GraphError("bad-plan", `planBuffers: columns have ${lengths.join(", ")} and ${n} entries`);
  }
  if (n > MAX_BUFFERS) {
    throw new GraphError("too-large", `planBuffers: ${n} buffers, at most ${MAX_BUFFERS}`, {
      expected: MAX_BUFFERS,
      actual: n,
    });
  }
}

/**
 * Checks lifetimes and sizes. Lifetimes that are no 32-bit integers are replaced by their ranks: only their order
 * matters.
 *
 * @throws {GraphError} bad-plan
 */
export function steps(
  c: LifetimeColumns,
  n: number,
): { readonly lower: ArrayLike<number>; readonly upper: ArrayLike<number> } {
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
