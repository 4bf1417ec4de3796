// Q8_0 or Q8_1 activations spread out for the integer dots: codes in dot order (math/dot.ts), scales as f32, seeds.
//
//   SEEDED   A weight code q of a type with zero point z counts as q - z: the integer sum of a block starts at its
//            seed, -z times the sum of the block's activations.
//   SIGNS    Signed codes cannot stand on the 0..127 side of a relaxed dot, so there the activation does, without its sign:
//            with s all bits where x is negative, w * x is |x| * (w ^ s), and |x| more where s is set. So a block's integer
//            sum starts at the sum of |x| over its negative activations. |x| is 0..128, unsigned bytes; where the engine's
//            dot takes signed bytes x stands for |x|, and s is 0. Relaxed build only.
//   STARTS   Of single columns, where sumsPairs(), for codes of a table in quads: the seed is a pair of i16, -z times the sums
//            of the activations that come to each.
//   MINS     Q8_1: instead of a seed the f32 value d * sum, to be multiplied with the minimum of the weights.
//
//   column   for one row at a time:     codes, per block the code vectors; SIGNS: |x|, then s
//                                       | scales, one per block | seeds or sums, one per block
//            for pairs of quads:        per block codes | scale | seed or sum, so that beside the weights one stream is read
//   group    for eight rows at a time:  codes, per four bytes of a row [lane 0][lane 1][lane 2][lane 3]; the lanes are
//                                       four columns, SIGNS: |x|, then s of four; relaxed SEEDED also six columns
//                                       | scales, one per block and lane | seeds or sums, one per block and lane
//                                       | MINS, where sumsPairs(): starts | rests, each one per block and lane
//
// Sums of pairs must stay within i16, which those of 31 times 32 activations leave. So there a code of SEEDED and MINS counts as
// q - c, with a centre c near the middle, and groups have starts for seeds: a pair of i16, -c times the sums of the activations
// that come to each. The rest of MINS, c times the sum of all, makes up for it.

import {
  VECTORS,
  bytes,
  interleaveHigh,
  interleaveLow,
  pairs4,
  storeTransposed,
  sums4,
  sumI32,
  sumsPairs,
  takesSigned,
} from "../math/dot";
import { f16ToF32, f16x4ToF32 } from "../math/f16";

export const SEEDED: i32 = 0;
export const SIGNS: i32 = 1;
export const MINS: i32 = 2;
export const STARTS: i32 = 3;

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

/** Bytes of the codes of a column. */
@inline
export function codeBytes(kind: i32, nb: i32): usize {
  return (<usize>nb * VECTORS) << (ASC_FEATURE_RELAXED_SIMD && kind == SIGNS ? 5 : 4);
}

/** Bytes of a column of `nb` blocks, for rows and for quads alike. */
export function columnBytes(kind: i32, nb: i32): usize {
  return codeBytes(kind, nb) + <usize>nb * BLOCK_SCALES;
}

/** Bytes of a group of `nb` blocks. */
export function groupBytes(kind: i32, nb: i32): usize {
  return 4 * codeBytes(kind, nb) + ((<usize>nb) << (sumsPairs() && kind == MINS ? 6 : 5));
}

// All bits where activations are negative.
@inline
function signs(v: v128): v128 {
  return i8x16.shr_s(v, 7);
}

// Sums of pairs of the 32 codes at p that come to one lane.
@inline
function pairSums(p: usize): v128 {
  const a = i16x8.extadd_pairwise_i8x16_s(v128.load(p));
  return i16x8.add(a, i16x8.extadd_pairwise_i8x16_s(v128.load(p, 16)));
}

// Four lanes that add up to the sum of the 32 codes at p.
@inline
function partialSums(p: usize): v128 {
  return i32x4.extadd_pairwise_i16x8_s(pairSums(p));
}

/** One column of `nb` blocks at p to px, for weights with zero point `zero` in rows or in quads. */
export function expandColumn(p: usize, nb: i32, zero: i32, kind: i32, quads: bool, px: usize): void {
  const codes = codeBytes(kind, 1);
  const step = quads ? codes + BLOCK_SCALES : codes;
  const next = quads ? step : 4;
  let pd = px + (quads ? codes : codeBytes(kind, nb));
  let ps = pd + (quads ? 4 : (<usize>nb) << 2);
  const signed = ASC_FEATURE_RELAXED_SIMD && kind == SIGNS && takesSigned();
  for (let b = 0; b < nb; b++, p += blockBytes(kind), px += step, pd += next, ps += next) {
    const q = p + codesAt(kind);
    store<f32>(pd, f16ToF32(load<u16>(p)));
    if (ASC_FEATURE_RELAXED_SIMD && kind == SIGNS) {
      store<i32>(ps, expandSigns(q, signed, px));
      continue;
    }
    if (kind == MINS) store<f32>(ps, f16ToF32(load<u16>(p, 2)));
    else store<i32>(ps, kind == STARTS ? startOf(q, zero) : -zero * sumI32(partialSums(q)));
    for (let i = 0; i < VECTORS; i++) v128.store(px + ((<usize>i) << 4), bytes(q, i));
  }
}

/** A pair of i16, -zero times the sums of those of 32 activations at p that come to each. */
export function startOf(p: usize, zero: i32): i32 {
  let s = i16x8.mul(pairSums(p), i16x8.splat(<i16>-zero));
  s = i16x8.add(s, i8x16.shuffle(s, s, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  s = i16x8.add(s, i8x16.shuffle(s, s, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  return i32x4.extract_lane(s, 0);
}

/**
 * SIGNS of the 32 activations at p: magnitudes, then masks to px; returns the sum of magnitudes under the masks. `signed` is
 * takesSigned().
 */
export function expandSigns(p: usize, signed: bool, px: usize): i32 {
  const a = v128.load(p);
  const b = v128.load(p, 16);
  if (signed) {
    v128.store(px, a);
    v128.store(px, b, 16);
    v128.store(px, i32x4.splat(0), 32);
    v128.store(px, i32x4.splat(0), 48);
    return 0;
  }
  const s = signs(a);
  const t = signs(b);
  const u = i8x16.abs(a);
  const v = i8x16.abs(b);
  v128.store(px, u);
  v128.store(px, v, 16);
  v128.store(px, s, 32);
  v128.store(px, t, 48);
  const low = i16x8.extadd_pairwise_i8x16_u(v128.and(u, s));
  const high = i16x8.extadd_pairwise_i8x16_u(v128.and(v, t));
  return sumI32(i32x4.extadd_pairwise_i16x8_s(i16x8.add(low, high)));
}

/** Four columns at p0..p3 as a group to px, for weights with zero point `zero` and centre `centre`. */
export function expandGroup(
  p0: usize,
  p1: usize,
  p2: usize,
  p3: usize,
  nb: i32,
  zero: i32,
  centre: i32,
  kind: i32,
  px: usize,
): void {
  const c = codesAt(kind);
  const step = (<usize>nb) << 4;
  let pd = px + 4 * codeBytes(kind, nb);
  const signed = ASC_FEATURE_RELAXED_SIMD && kind == SIGNS && takesSigned();
  for (let b = 0; b < nb; b++, pd += 16) {
    v128.store(pd, halves(p0, p1, p2, p3));
    const ps = pd + step;
    if (kind == MINS) v128.store(ps, halves(p0 + 2, p1 + 2, p2 + 2, p3 + 2));
    if (ASC_FEATURE_RELAXED_SIMD && kind == SIGNS) {
      v128.store(ps, expandGroupSigns(p0 + c, p1 + c, p2 + c, p3 + c, signed, px));
      px += 256;
    } else {
      if (sumsPairs()) {
        const s = pairSumsOf(p0 + c, p1 + c, p2 + c, p3 + c);
        v128.store(kind == MINS ? ps + step : ps, startsOf(s, centre));
        if (kind == MINS) v128.store(ps + 2 * step, restsOf(s, centre));
      } else if (kind != MINS) {
        v128.store(ps, i32x4.mul(sumsOf(p0 + c, p1 + c, p2 + c, p3 + c), i32x4.splat(-zero)));
      }
      for (let i = 0; i < VECTORS; i++, px += 64) {
        storeTransposed(px, 16, bytes(p0 + c, i), bytes(p1 + c, i), bytes(p2 + c, i), bytes(p3 + c, i));
      }
    }
    p0 += blockBytes(kind);
    p1 += blockBytes(kind);
    p2 += blockBytes(kind);
    p3 += blockBytes(kind);
  }
}

/** SIGNS of 32 activations each of four columns to px; returns their seeds. `signed` is takesSigned(). */
export function expandGroupSigns(p0: usize, p1: usize, p2: usize, p3: usize, signed: bool, px: usize): v128 {
  const m = i8x16.splat(signed ? 0 : -1);
  let a = i32x4.splat(0);
  let b = a;
  let c = a;
  let d = a;
  for (const end = px + 256; px < end; px += 128, p0 += 16, p1 += 16, p2 += 16, p3 += 16) {
    const v0 = v128.load(p0);
    const v1 = v128.load(p1);
    const v2 = v128.load(p2);
    const v3 = v128.load(p3);
    const s0 = v128.and(signs(v0), m);
    const s1 = v128.and(signs(v1), m);
    const s2 = v128.and(signs(v2), m);
    const s3 = v128.and(signs(v3), m);
    storeTransposed(px, 32, unsigned(v0, s0), unsigned(v1, s1), unsigned(v2, s2), unsigned(v3, s3));
    storeTransposed(px + 16, 32, s0, s1, s2, s3);
    a = i16x8.sub(a, i16x8.extadd_pairwise_i8x16_s(v128.and(v0, s0)));
    b = i16x8.sub(b, i16x8.extadd_pairwise_i8x16_s(v128.and(v1, s1)));
    c = i16x8.sub(c, i16x8.extadd_pairwise_i8x16_s(v128.and(v2, s2)));
    d = i16x8.sub(d, i16x8.extadd_pairwise_i8x16_s(v128.and(v3, s3)));
  }
  return i32x4.extadd_pairwise_i16x8_s(pairs4(a, b, c, d));
}

// Without the sign where s is set.
@inline
function unsigned(v: v128, s: v128): v128 {
  return i8x16.sub(v128.xor(v, s), s);
}

// Starts and rests out of the sums of pairs of four columns.
@inline
function startsOf(s: v128, centre: i32): v128 {
  return i16x8.mul(s, i16x8.splat(<i16>-centre));
}


@inline
function restsOf(s: v128, centre: i32): v128 {
  return i32x4.mul(i32x4.extadd_pairwise_i16x8_s(s), i32x4.splat(centre));
}

/** Six columns, `step` bytes apart but none past `last`, as a group for tileSix() (matmul/tile.ts). SEEDED, relaxed. */
export function expandSix(
  p0: usize,
  step: usize,
  last: usize,
  nb: i32,
  zero: i32,
  centre: i32,
  px: usize,
): void {
  const pairs = sumsPairs();
  const z = i32x4.splat(-zero);
  let p1 = min(p0 + step, last);
  let p2 = min(p1 + step, last);
  let p3 = min(p2 + step, last);
  let p4 = min(p3 + step, last);
  let p5 = min(p4 + step, last);
  let pd = px + 6 * codeBytes(SEEDED, nb);
  let ps = pd + <usize>nb * 24;
  for (let b = 0; b < nb; b++, pd += 24, ps += 24) {
    storeSix(pd, halves(p0, p1, p2, p3), halves(p4, p5, p5, p5));
    p0 += 2;
    p1 += 2;
    p2 += 2;
    p3 += 2;
    p4 += 2;
    p5 += 2;
    if (pairs) {
      const s = startsOf(pairSumsOf(p0, p1, p2, p3), centre);
      storeSix(ps, s, startsOf(pairSumsOf(p4, p5, p5, p5), centre));
    } else storeSix(ps, i32x4.mul(sumsOf(p0, p1, p2, p3), z), i32x4.mul(sumsOf(p4, p5, p5, p5), z));
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


@inline
function storeSix(p: usize, v: v128, w: v128): void {
  v128.store(p, v);
  v128.store64_lane(p, w, 0, 16);
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


@inline
function pairSumsOf(p0: usize, p1: usize, p2: usize, p3: usize): v128 {
  return pairs4(pairSums(p0), pairSums(p1), pairSums(p2), pairSums(p3));
}
