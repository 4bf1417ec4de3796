// Q8_0 activations spread out for the integer dots: codes in dot order (math/dot.ts), scales as f32, seeds.
//
// A weight code q of a type with zero point z counts as q - z. The integer sum of a block therefore starts at its seed,
// -z times the sum of the block's activations. Types with signed codes cannot stand on the 0..127 side of a relaxed
// dot, so there the activation does, split in two: x = lo - 128 * hi, lo = x & 127, hi = its sign bit.
//
//   column (one row times one column)    per block: code vectors; split: those of lo, then those of hi
//   group (eight rows times a group)     per four bytes of a row: [lane 0][lane 1][lane 2][lane 3];
//                                        lanes = four columns; split: lo, hi of two columns

import { VECTORS, bytes, storeTransposed, sums4, sumI32 } from "../math/dot";
import { f16ToF32, f16x4ToF32 } from "../math/f16";

const Q8_BYTES: usize = 34;

// prettier-ignore
const SPLIT = memory.data<u32>([
  0x7f7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f,
  0x01010101, 0x01010101, 0x01010101, 0x01010101,
], 16);

/** Bytes of codes per block and column. */
export function columnBytes(split: bool): usize {
  return (<usize>VECTORS) << (split ? 5 : 4);
}


@inline
function lo(v: v128): v128 {
  return v128.and(v, v128.load(SPLIT));
}


@inline
function hi(v: v128): v128 {
  return v128.and(i16x8.shr_u(v, 7), v128.load(SPLIT, 16));
}

// Four lanes that add up to the sum of the block's activations.
@inline
function partialSums(p: usize): v128 {
  const a = i16x8.extadd_pairwise_i8x16_s(v128.load(p, 2));
  const b = i16x8.extadd_pairwise_i8x16_s(v128.load(p, 18));
  return i32x4.extadd_pairwise_i16x8_s(i16x8.add(a, b));
}

/** One column of `nb` blocks at p: codes to pq, scales to pd, seeds for zero point `zero` to ps. */
export function expandColumn(
  p: usize,
  nb: i32,
  zero: i32,
  split: bool,
  pq: usize,
  pd: usize,
  ps: usize,
): void {
  const step = columnBytes(split);
  for (let b = 0; b < nb; b++, p += Q8_BYTES, pq += step, pd += 4, ps += 4) {
    store<f32>(pd, f16ToF32(load<u16>(p)));
    store<i32>(ps, -zero * sumI32(partialSums(p)));
    for (let i = 0; i < VECTORS; i++) {
      const v = bytes(p + 2, i);
      v128.store(pq + ((<usize>i) << 4), split ? lo(v) : v);
      if (split) v128.store(pq + ((<usize>(i + VECTORS)) << 4), hi(v));
    }
  }
}

/** Columns of a group. */
export function groupColumns(split: bool): i32 {
  return split ? 2 : 4;
}

/** A group of columns at p0..p3 (split: p0 and p1), interleaved. pd and ps hold four entries per block, one a lane. */
export function expandGroup(
  p0: usize,
  p1: usize,
  p2: usize,
  p3: usize,
  nb: i32,
  zero: i32,
  split: bool,
  pq: usize,
  pd: usize,
  ps: usize,
): void {
  const z = i32x4.splat(-zero);
  for (let b = 0; b < nb; b++, pd += 16, ps += 16) {
    let d = v128.load16_splat(p0);
    d = v128.load16_lane(p1, d, 2);
    d = v128.load16_lane(p2, d, 4);
    v128.store(pd, f16x4ToF32(v128.load16_lane(p3, d, 6)));
    v128.store(ps, i32x4.mul(sums4(partialSums(p0), partialSums(p1), partialSums(p2), partialSums(p3)), z));
    for (let i = 0; i < VECTORS; i++, pq += 64) {
      const a = bytes(p0 + 2, i);
      const c = bytes(p1 + 2, i);
      if (split) storeTransposed(pq, 16, lo(a), hi(a), lo(c), hi(c));
      else storeTransposed(pq, 16, a, c, bytes(p2 + 2, i), bytes(p3 + 2, i));
    }
    p0 += Q8_BYTES;
    p1 += Q8_BYTES;
    p2 += Q8_BYTES;
    p3 += Q8_BYTES;
  }
}
