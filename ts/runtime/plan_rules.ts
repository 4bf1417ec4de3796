// What a list asks for beyond lifetimes and sizes: alignment per buffer, pre-placed buffers, chunks.

import { GraphError } from "../errors.ts";
import { badOption, type CheckedOptions, type LifetimeColumns } from "./plan_check.ts";

/** The rules of a list, in the form the wasm takes. */
export interface Rules {
  /** divides every alignment; sizes are padded to it */
  readonly base: number;
  /** per buffer; undefined when all have `base` */
  readonly aligns: Float64Array | undefined;
  /** pre-placed buffers by ascending offset */
  readonly fixed: Int32Array;
  /** per buffer, -1 = not pre-placed; undefined when none is */
  readonly offsets: Float64Array | undefined;
  /** bytes of a chunk, a multiple of every alignment; Infinity: one without end */
  readonly chunk: number;
}

/** Most pre-placed buffers: each placement looks at all of them. */
export const MAX_FIXED: number = 1 << 16;

const NONE = new Int32Array(0);

/**
 * Reads and checks the rules of a list whose lifetimes and sizes are sound.
 *
 * @throws {GraphError} bad-plan: alignments that are none, pre-placed buffers that overlap or are not aligned, a chunk
 * smaller than an alignment, chunks together with pre-placed buffers; too-large: more than 2^16 pre-placed
 */
export function readRules(c: LifetimeColumns, o: CheckedOptions): Rules {
  const aligns = c.alignment === undefined ? undefined : checkAligns(c.alignment);
  const base = aligns === undefined ? o.alignment : aligns.reduce(gcd, 0) || 1;
  const mixed = aligns?.some((a) => a !== base) === true ? aligns : undefined;
  const fixed = c.offset === undefined ? NONE : fixedOf(c, c.offset, aligns, base);
  const offsets =
    fixed.length === 0 ? undefined : Float64Array.from(c.offset ?? [], (x) => (x >= 0 ? x : -1));
  const rules = { base, aligns: mixed, fixed, offsets, chunk: chunkOf(o.maxChunk, base, mixed) };
  if (fixed.length > 0 && rules.chunk !== Infinity) {
    throw new GraphError("bad-plan", "planBuffers: maxChunk does not go with pre-placed buffers", {
      key: "maxChunk",
    });
  }
  checkReach(c, rules);
  return rules;
}

function checkAligns(alignment: ArrayLike<number>): Float64Array {
  return Float64Array.from(alignment, (a, i) => {
    if (Number.isSafeInteger(a) && a >= 1) return a;
    throw badRule(i, "alignment", a, "a whole number of at least 1");
  });
}

function badRule(i: number, key: string, actual: number, expected: string): GraphError {
  return new GraphError("bad-plan", `buffer ${i}: ${key} is ${actual}, expected ${expected}`, {
    expected,
    actual,
    key,
    node: i,
  });
}

function gcd(a: number, b: number): number {
  while (b > 0) [a, b] = [b, a % b];
  return a;
}

// Whole chunks, so that a place aligned in its chunk is aligned in all of them laid end to end.
function chunkOf(maxChunk: number, base: number, aligns: Float64Array | undefined): number {
  if (maxChunk === Infinity) return Infinity;
  let all = base;
  for (const a of new Set(aligns ?? [])) {
    all *= a / gcd(all, a);
    if (all > maxChunk) break;
  }
  if (all > maxChunk) throw badOption("maxChunk", maxChunk, "at least a common multiple of the alignments");
  return Math.floor(maxChunk / all) * all;
}

function fixedOf(
  c: LifetimeColumns,
  offset: ArrayLike<number>,
  aligns: Float64Array | undefined,
  base: number,
): Int32Array {
  const fixed: number[] = [];
  for (let i = 0; i < offset.length; i++) {
    const at = offset[i] ?? NaN;
    if (Number.isNaN(at)) continue;
    const align = aligns?.[i] ?? base;
    if (!(Number.isSafeInteger(at) && at >= 0 && at % align === 0)) {
      throw badRule(i, "offset", at, align === 1 ? "whole bytes" : `a multiple of ${align}`);
    }
    fixed.push(i);
  }
  if (fixed.length > MAX_FIXED) {
    const [expected, actual] = [MAX_FIXED, fixed.length];
    const what = `planBuffers: ${actual} pre-placed buffers, at most ${expected}`;
    throw new GraphError("too-large", what, { expected, actual });
  }
  checkOverlaps(c, offset, fixed);
  return Int32Array.from(fixed.sort((a, b) => (offset[a] ?? 0) - (offset[b] ?? 0)));
}

// A sweep over births; those whose time is over leave when the next is looked at.
function checkOverlaps(c: LifetimeColumns, offset: ArrayLike<number>, fixed: readonly number[]): void {
  const [lower, upper] = [(i: number): number => c.lower[i] ?? 0, (i: number): number => c.upper[i] ?? 0];
  const end = (i: number): number => (offset[i] ?? 0) + (c.size[i] ?? 0);
  const real = fixed.filter((i) => upper(i) > lower(i) && (c.size[i] ?? 0) > 0);
  let alive: number[] = [];
  for (const i of real.sort((a, b) => lower(a) - lower(b))) {
    alive = alive.filter((j) => upper(j) > lower(i));
    const other = alive.find((j) => (offset[j] ?? 0) < end(i) && (offset[i] ?? 0) < end(j));
    if (other !== undefined) {
      throw new GraphError(
        "bad-plan",
        `buffers ${other} and ${i}: pre-placed, alive together and overlapping`,
        {
          actual: [other, i],
          node: i,
        },
      );
    }
    alive.push(i);
  }
}

// Rules cost room: at worst each buffer is pushed up by its own size or alignment, and over what is pre-placed.
function checkReach(c: LifetimeColumns, r: Rules): void {
  let sum = 0;
  for (let i = 0; i < c.size.length; i++) {
    const size = c.size[i] ?? 0;
    const align = r.aligns?.[i] ?? r.base;
    sum += 2 * (Math.ceil(size / align) + 1) * align + Math.max(0, r.offsets?.[i] ?? 0);
  }
  const special = r.aligns !== undefined || r.fixed.length > 0 || r.chunk !== Infinity;
  if (special && sum > Number.MAX_SAFE_INTEGER) {
    throw new GraphError("bad-plan", `planBuffers: offsets may reach ${sum}, expected less than 2^53`, {
      actual: sum,
    });
  }
}
