// The workspace of a plan in linear memory: a header, what it asks for and comes to, and the arrays behind it.

import {
  BUFFER_BYTES,
  FRAME_BYTES,
  ITEM_BYTES,
  LIFE_BYTES,
  LISTS_PER_BUFFER,
  PLAN_ARRAYS,
  PLAN_CHUNK,
  PLAN_COUNT,
  PLAN_FIXED_COUNT,
  PLAN_FLOOR,
  PLAN_FREE_COUNT,
  PLAN_HEADER_BYTES,
  PLAN_LEAVES,
  PLAN_LOWER_BOUND,
  PLAN_PEAK,
  PLAN_PROVED,
  PLAN_SEED,
  PLAN_UNIT,
  PLAN_WORK,
  PlanArray,
  SEARCH_BYTES,
  SEARCH_MAX,
  SECTION_BYTES,
  SEGMENT_BYTES,
  SORT_COUNTS,
  TRAIL_PER_BUFFER,
  TREE_LEAF,
} from "../../assembly/abi.ts";
import type { WasmMemory } from "./instance.ts";

const NONE = new Int32Array(0);

/** What a workspace must have room for. */
export interface SpaceNeeds {
  /** entries of the list */
  readonly entries: number;
  /** buffers to place, where they may be fewer, and pre-placed ones */
  readonly free?: number | undefined;
  readonly fixed?: number | undefined;
  /** entries have alignments of their own */
  readonly aligned?: boolean | undefined;
  /** node records, for a graph */
  readonly records?: number | undefined;
}

/** A workspace: bytes in all, and where its arrays start, in the order of PlanArray; 0: not there. */
export interface SpaceLayout {
  readonly bytes: number;
  readonly starts: readonly number[];
}

/** About 190 bytes an entry, and 4 to 6 KiB a buffer more where there are few enough to be searched. */
export function spaceLayout(needs: SpaceNeeds): SpaceLayout {
  const sizes = arraySizes(needs);
  let bytes = align16(PLAN_HEADER_BYTES);
  const starts = Array.from({ length: PlanArray.LENGTH }, (_, i) => {
    const size = sizes.get(i) ?? 0;
    const at = bytes;
    bytes += align16(size);
    return size === 0 ? 0 : at;
  });
  return { bytes, starts };
}

function arraySizes({
  entries: n,
  free = n,
  fixed = 0,
  aligned = false,
  records = 0,
}: SpaceNeeds): Map<number, number> {
  return new Map<number, number>([
    ...[PlanArray.ID, PlanArray.LOWER, PlanArray.UPPER].map((a) => [a, 4 * n] as const),
    ...[PlanArray.SORT_A, PlanArray.SORT_B, PlanArray.SORT_C].map((a) => [a, 4 * n] as const),
    ...[PlanArray.BYTES, PlanArray.WEIGHT, PlanArray.LOAD].map((a) => [a, 8 * n] as const),
    ...[PlanArray.BEST_OFF, PlanArray.LOAD_MET].map((a) => [a, 8 * n] as const),
    // Behind the buffers there is room for the offset of entry -1.
    [PlanArray.BUFFERS, BUFFER_BYTES * n + 16],
    [PlanArray.OFFSET, 8 * n + 8],
    [PlanArray.LIVES, LIFE_BYTES * records],
    [PlanArray.NOW, records > 0 ? 8 * n : 0],
    [PlanArray.OWNER, records > 0 ? 4 * n : 0],
    [PlanArray.ALIGNS, aligned ? 8 * n : 0],
    [PlanArray.MAX_TREE, 16 * n],
    [PlanArray.TREE, 32 * leaves(n)],
    // Two entries a level; and the segment before the first.
    [PlanArray.STACK, 256 + SEGMENT_BYTES],
    [PlanArray.SEGMENTS, SEGMENT_BYTES * (n + 1)],
    [PlanArray.HEAP, 16 * (n + 1)],
    [PlanArray.COUNTS, 4 * SORT_COUNTS],
    [PlanArray.BLOCKS, 16 * (n + 2)],
    ...(free <= SEARCH_MAX ? searchSizes(free, free + fixed) : []),
  ]);
}

// n buffers in at most m sections.
function searchSizes(n: number, m: number): [number, number][] {
  const row = 8 * Math.ceil(n / 64);
  return [
    [PlanArray.SEARCH, SEARCH_BYTES],
    [PlanArray.ITEMS, ITEM_BYTES * n],
    [PlanArray.SECTIONS, SECTION_BYTES * m],
    [PlanArray.DIRTY, 4 * m],
    [PlanArray.OPEN, row],
    [PlanArray.TRAIL, 8 * TRAIL_PER_BUFFER * n],
    [PlanArray.LISTS, 4 * LISTS_PER_BUFFER * n],
    [PlanArray.FRAMES, FRAME_BYTES * (2 * n + 2)],
    [PlanArray.ROWS, (n + m) * row],
  ];
}

// Leaves of a tree over n buffers.
function leaves(n: number): number {
  let count = 1;
  while (count * TREE_LEAF < n) count *= 2;
  return count;
}

function gcd(a: number, b: number): number {
  while (b > 0) {
    const rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

function align16(x: number): number {
  return Math.ceil(x / 16) * 16;
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

/** A workspace at an address. Views hold until the memory grows; a plan does not grow it. */
export class PlanSpace {
  readonly at: number;
  readonly #i32: Int32Array;
  readonly #f64: Float64Array;

  constructor(memory: WasmMemory, at: number, layout: SpaceLayout, seed: number) {
    this.at = at;
    this.#i32 = new Int32Array(memory.buffer);
    this.#f64 = new Float64Array(memory.buffer);
    this.#i32.fill(0, at / 4, (at + PLAN_HEADER_BYTES) / 4);
    layout.starts.forEach((start, i) => this.setInt(PLAN_ARRAYS + 4 * i, start === 0 ? 0 : at + start));
    this.#f64[(at + layout.starts[PlanArray.OFFSET]!) / 8 - 1] = -1;
    this.setInt(PLAN_SEED, (Math.imul(seed, 2654435761) + 1) | 0 || 1);
  }

  int(field: number): number {
    return this.#i32[(this.at + field) / 4]!;
  }

  setInt(field: number, value: number): void {
    this.#i32[(this.at + field) / 4] = value;
  }

  float(field: number): number {
    return this.#f64[(this.at + field) / 8]!;
  }

  setFloat(field: number, value: number): void {
    this.#f64[(this.at + field) / 8] = value;
  }

  /** The first `n` elements of an array. */
  ints(array: PlanArray, n: number): Int32Array {
    const start = (this.int(PLAN_ARRAYS + 4 * array) >>> 0) / 4;
    return this.#i32.subarray(start, start + n);
  }

  floats(array: PlanArray, n: number): Float64Array {
    const start = (this.int(PLAN_ARRAYS + 4 * array) >>> 0) / 8;
    return this.#f64.subarray(start, start + n);
  }

  /**
   * Numbers what has bytes and a lifetime among `n` entries: first what is to be placed, then the pre-placed, which `fixed`
   * names by ascending offset. Entries must be there.
   */
  number(n: number, fixed: Int32Array = NONE): void {
    const [id, lower, upper] = [PlanArray.ID, PlanArray.LOWER, PlanArray.UPPER].map((a) => this.ints(a, n));
    const [bytes, offset] = [this.floats(PlanArray.BYTES, n), this.floats(PlanArray.OFFSET, n)];
    let free = 0;
    let unit = 0;
    for (let i = 0; i < n; i++) {
      const size = bytes[i]!;
      if (!(size > 0 && upper![i]! > lower![i]!) || (fixed.length > 0 && offset[i]! >= 0)) continue;
      id![free++] = i;
      if (free <= SEARCH_MAX && size % unit !== 0) unit = gcd(size, unit);
    }
    const placed = fixed.filter((i) => bytes[i]! > 0 && upper![i]! > lower![i]!);
    id!.set(placed, free);
    this.setInt(PLAN_COUNT, n);
    this.setInt(PLAN_FREE_COUNT, free);
    this.setInt(PLAN_FIXED_COUNT, placed.length);
    this.setInt(PLAN_LEAVES, leaves(free));
    this.setFloat(
      PLAN_FLOOR,
      placed.reduce((top, i) => Math.max(top, offset[i]! + bytes[i]!), 0),
    );
    if (free <= SEARCH_MAX)
      this.setFloat(PLAN_UNIT, this.#unit(unit, id!.subarray(0, free), placed, bytes, offset));
  }

  // What all sizes are multiples of, `unit` those of the free, and all offsets that a buffer can come to rest at.
  #unit(
    unit: number,
    free: Int32Array,
    placed: Int32Array,
    bytes: Float64Array,
    offset: Float64Array,
  ): number {
    for (const i of placed) unit = gcd(gcd(unit, bytes[i]!), offset[i]!);
    const chunk = this.float(PLAN_CHUNK);
    if (chunk < Infinity) unit = gcd(unit, chunk);
    if (this.int(PLAN_ARRAYS + 4 * PlanArray.ALIGNS) === 0) return unit;
    // An alignment that divides the unit asks for nothing; a finer unit may ask again for what was settled before.
    const aligns = this.floats(PlanArray.ALIGNS, bytes.length);
    for (let k = 0; k < free.length; k++) {
      const align = aligns[free[k]!]!;
      const finer = gcd(unit, align);
      if (finer === unit || finer === align) continue;
      unit = finer;
      k = -1;
    }
    return unit;
  }

  /** What the plan came to; `sum`: bytes without re-use. */
  figures(sum: number): PlanFigures {
    const peak = this.float(PLAN_PEAK);
    const lowerBound = this.float(PLAN_LOWER_BOUND);
    const optimal = peak <= Math.max(lowerBound, this.float(PLAN_PROVED));
    return { peak, lowerBound, sum, optimal, work: this.float(PLAN_WORK) };
  }
}
