// Q8_0 or Q8_1 activations spread out for the integer dots: codes in dot order (math/dot.ts), scales as f32, seeds.
//
//   SEEDED   A weight code q of a type with zero point z counts as q - z: the integer sum of a block starts at its
//            seed, -z times the sum of the block's activations.
//   SPLIT    Signed codes cannot stand on the 0..127 side of a relaxed dot, so there the activation does, in two parts:
//            x = lo - 128 * hi, lo = x & 127, hi = its sign bit. Relaxed build only, groups.
//   SIGNS    The same for single columns: with s all bits where x is negative, w * x is |x| * (w ^ s), and |x| more where s is
//            set. So a block's integer sum starts at the sum of |x| over its negative activations. |x| is 0..128, unsigned
//            bytes; where the engine's dot takes signed bytes x stands for |x|, and s is 0.
//   MINS     Q8_1: instead of a seed the f32 value d * sum, to be multiplied with the minimum of the weights.
//
//   column   for one row at a time:     codes, per block the code vectors; SIGNS: |x|, then s
//                                       | scales, one per block | seeds or sums, one per block
//            for pairs of quads:        per block codes | scale | seed or sum, so that beside the weights one stream is read
//   group    for eight rows at a time:  codes, per four bytes of a row [lane 0][lane 1][lane 2][lane 3]; the lanes are
//                                       four columns, SPLIT: lo and hi of two columns; relaxed SEEDED also six columns
//                                       | scales, one per block and lane | seeds or sums, one per block and lane

import {
  VECTORS,
  WIDE_SIGNED,
  bytes,
  interleaveHigh,
  interleaveLow,
  storeTransposed,
  sums4,
  sumI32,
  wideDot,
} from "../math/dot";
import { f16ToF32, f16x4ToF32 } from "../math/f16";

export const SEEDED: i32 = 0;
export const SPLIT: i32 = 1;
export const MINS: i32 = 2;
export const SIGNS: i32 = 3;

/** Bytes of the scale and the seed or sum of a block. */
export const BLOCK_SCALES: usize = 8;

// Bytes of a block, and where its codes start.
@inline
function blockBytes(kind: i32): usize {
  return kind == MINS ? 36 : 34;
}


@inline
function codesAt(kind: i32): usize {
  return kind == MINS ? 4 : 2;
}

// prettier-ignore
const PARTS = memory.data<u32>([
  0x7f7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f, 0x7f7f7f7f,
  0x01010101, 0x01010101, 0x01010101, 0x01010101,
], 16);

/** Bytes of the codes of a column. */
@inline
export function codeBytes(kind: i32, nb: i32): usize {
  const twice = ASC_FEATURE_RELAXED_SIMD && (kind == SPLIT || kind == SIGNS);
  return (<usize>nb * VECTORS) << (twice ? 5 : 4);
}

/** Bytes of a column of `nb` blocks, for rows and for quads alike. */
export function columnBytes(kind: i32, nb: i32): usize {
  return codeBytes(kind, nb) + <usize>nb * BLOCK_SCALES;
}

/** Bytes of a group of `nb` blocks. */
export function groupBytes(nb: i32): usize {
  return 4 * codeBytes(SEEDED, nb) + ((<usize>nb) << 5);
}

/** The part of an activation in 0..127. */
@inline
export function lo(v: v128): v128 {
  return v128.and(v, v128.load(PARTS));
}

/** The sign bits of activations. */
@inline
export function hi(v: v128): v128 {
  return v128.and(i16x8.shr_u(v, 7), v128.load(PARTS, 16));
}

/** What activations are without their sign, 0..128 as unsigned bytes. */
@inline
export function magnitudes(v: v128): v128 {
  return i8x16.abs(v);
}

/** All bits where activations are negative. */
@inline
export function signs(v: v128): v128 {
  return i8x16.shr_s(v, 7);
}

// Four lanes that add up to the sum of the 32 codes at p.
@inline
function partialSums(p: usize): v128 {
  const a = i16x8.extadd_pairwise_i8x16_s(v128.load(p));
  const b = i16x8.extadd_pairwise_i8x16_s(v128.load(p, 16));
  return i32x4.extadd_pairwise_i16x8_s(i16x8.add(a, b));
}

/** One column of `nb` blocks at p to px, for weights with zero point `zero` in rows or in quads. */
export function expandColumn(p: usize, nb: i32, zero: i32, kind: i32, quads: bool, px: usize): void {
  const codes = codeBytes(kind, 1);
  const step = quads ? codes + BLOCK_SCALES : codes;
  const next = quads ? step : 4;
  let pd = px + (quads ? codes : codeBytes(kind, nb));
  let ps = pd + (quads ? 4 : (<usize>nb) << 2);
  for (let b = 0; b < nb; b++, p += blockBytes(kind), px += step, pd += next, ps += next) {
    const q = p + codesAt(kind);
    store<f32>(pd, f16ToF32(load<u16>(p)));
    if (ASC_FEATURE_RELAXED_SIMD && kind == SIGNS) {
      store<i32>(ps, expandSigns(q, px));
      continue;
    }
    if (kind == MINS) store<f32>(ps, f16ToF32(load<u16>(p, 2)));
    else store<i32>(ps, -zero * sumI32(partialSums(q)));
    for (let i = 0; i < VECTORS; i++) v128.store(px + ((<usize>i) << 4), bytes(q, i));
  }
}

/** SIGNS of the 32 activations at p: magnitudes, then masks to px; returns the sum of magnitudes under the masks. */
export function expandSigns(p: usize, px: usize): i32 {
  const a = v128.load(p);
  const b = v128.load(p, 16);
  if (wideDot() == WIDE_SIGNED) {
    v128.store(px, a);
    v128.store(px, b, 16);
    v128.store(px, i32x4.splat(0), 32);
    v128.store(px, i32x4.splat(0), 48);
    return 0;
  }
  const s = signs(a);
  const t = signs(b);
  const u = magnitudes(a);
  const v = magnitudes(b);
  v128.store(px, u);
  v128.store(px, v, 16);
  v128.store(px, s, 32);
  v128.store(px, t, 48);
  const low = i16x8.extadd_pairwise_i8x16_u(v128.and(u, s));
  const high = i16x8.extadd_pairwise_i8x16_u(v128.and(v, t));
  return sumI32(i32x4.extadd_pairwise_i16x8_s(i16x8.add(low, high)));
}

/** Columns of a group. */
export function groupColumns(kind: i32): i32 {
  return kind == SPLIT ? 2 : 4;
}

/** A group of columns at p0..p3 (SPLIT: p0 and p1, and p1 again for the others) to px. */
export function expandGroup(
  p0: usize,
  p1: usize,
  p2: usize,
  p3: usize,
  nb: i32,
  zero: i32,
  kind: i32,
  px: usize,
): void {
  const z = i32x4.splat(-zero);
  const c = codesAt(kind);
  let pd = px + 4 * codeBytes(SEEDED, nb);
  let ps = pd + ((<usize>nb) << 4);
  for (let b = 0; b < nb; b++, pd += 16, ps += 16) {
    v128.store(pd, halves(p0, p1, p2, p3));
    if (kind == MINS) v128.store(ps, halves(p0 + 2, p1 + 2, p2 + 2, p3 + 2));
    else v128.store(ps, i32x4.mul(sumsOf(p0 + c, p1 + c, p2 + c, p3 + c), z));
    for (let i = 0; i < VECTORS; i++, px += 64) {
      const u = bytes(p0 + c, i);
      const v = bytes(p1 + c, i);
      if (kind == SPLIT) storeTransposed(px, 16, lo(u), hi(u), lo(v), hi(v));
      else storeTransposed(px, 16, u, v, bytes(p2 + c, i), bytes(p3 + c, i));
    }
    p0 += blockBytes(kind);
    p1 += blockBytes(kind);
    p2 += blockBytes(kind);
    p3 += blockBytes(kind);
  }
}

/** Six columns, `step` bytes apart but none past `last`, as a group for tileSix() (matmul/tile.ts). SEEDED, relaxed. */
export function expandSix(p0: usize, step: usize, last: usize, nb: i32, zero: i32, px: usize): void {
  const z = i32x4.splat(-zero);
  let p1 = min(p0 + step, last);
  let p2 = min(p1 + step, last);
  let p3 = min(p2 + step, last);
  let p4 = min(p3 + step, last);
  let p5 = min(p4 + step, last);
  let pd = px + 6 * codeBytes(SEEDED, nb);
  let ps = pd + <usize>nb * 24;
  for (let b = 0; b < nb; b++, pd += 24, ps += 24) {
    v128.store(pd, halves(p0, p1, p2, p3));
    v128.store64_lane(pd, halves(p4, p5, p5, p5), 0, 16);
    p0 += 2;
    p1 += 2;
    p2 += 2;
    p3 += 2;
    p4 += 2;
    p5 += 2;
    v128.store(ps, i32x4.mul(sumsOf(p0, p1, p2, p3), z));
    v128.store64_lane(ps, i32x4.mul(sumsOf(p4, p5, p5, p5), z), 0, 16);
    for (const end = p0 + 32; p0 < end; px += 96) {
      storeTransposed(px, 24, v128.load(p0), v128.load(p1), v128.load(p2), v128.load(p3));
      storePairs(px + 16, 24, v128.load(p4), v128.load(p5));
      p0 += 16;
      p1 += 16;
      p2 += 16;
      p3 += 16;
      p4 += 16;
      p5 += 16;
    }
  }
}

// Lane i of both goes to p + i * step.
@inline
function storePairs(p: usize, step: usize, a: v128, b: v128): void {
  const low = interleaveLow(a, b);
  const high = interleaveHigh(a, b);
  v128.store64_lane(p, low, 0);
  v128.store64_lane(p + step, low, 1);
  v128.store64_lane(p + 2 * step, high, 0);
  v128.store64_lane(p + 3 * step, high, 1);
}

// Four f16 as f32.
@inline
function halves(p0: usize, p1: usize, p2: usize, p3: usize): v128 {
  let h = v128.load16_splat(p0);
  h = v128.load16_lane(p1, h, 2);
  h = v128.load16_lane(p2, h, 4);
  return f16x4ToF32(v128.load16_lane(p3, h, 6));
}


@inline
function sumsOf(p0: usize, p1: usize, p2: usize, p3: usize): v128 {
  return sums4(partialSums(p0), partialSums(p1), partialSums(p2), partialSums(p3));
}
