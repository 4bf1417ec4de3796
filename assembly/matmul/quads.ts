// Rows in quads (quants/quads.ts) times one column of Q8_0 or Q8_K activations: each dot feeds four rows.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/blocks.ts
// and matmul/super.ts, and so are the columns, but for the sums of Q8_K (quadSums).
//
// Masks stand in locals, loops are rolled and one stream is read: see quants/quad.ts and math/dot.ts.

import { Type } from "../abi";
import { WIDE_NONE, dotq, wideBias, wideDot } from "../math/dot";
import {
  EVEN,
  LIFT,
  LIFTED,
  LOW,
  X03,
  X07,
  X08,
  X0C,
  X0F,
  X10,
  X18,
  X1F,
  X30,
  X3F,
  bitsFrom,
  liftedScales,
  quadMask,
} from "../quants/quad";
import { lane0, lane1, lane2, lane3 } from "./tile";

// Bytes of 16 activations of a column, and of half a super-block.
const X16: usize = ASC_FEATURE_RELAXED_SIMD ? 16 : 32;

/** `quads` quads of rows at pw times the column of `nb` blocks at px; results to f32 at py. */
export function dotQuads(type: i32, pw: usize, quads: i32, nb: i32, px: usize, py: usize): void {
  const end = py + ((<usize>quads) << 4);
  switch (type) {
    case Type.Q4_0:
      return quadsQ4_0(pw, nb, px, py, end);
    case Type.Q5_0:
      return quadsQ5_0(pw, nb, px, py, end);
    case Type.Q8_0:
      return wideDot() == WIDE_NONE ? quadsQ8_0(pw, nb, px, py, end) : quadsWide(pw, nb, px, py, end);
    case Type.Q4_K:
      return quadsQ4_K(pw, nb, px, py, end);
    case Type.Q6_K:
      return quadsQ6_K(pw, nb, px, py, end);
    default:
      unreachable();
  }
}

/**
 * Rewrites the sums of a column (matmul/super.ts) of `nb` super-blocks at ps for quads: 16 i16 in the order 0 2 1 3 of
 * each four, where each scale or minimum serves 32 weights eight sums of 32 in that order.
 */
export function quadSums(wide: bool, nb: i32, ps: usize): void {
  for (const end = ps + ((<usize>nb) << 5); ps < end; ps += 32) {
    let a = v128.load(ps);
    let b = v128.load(ps, 16);
    if (wide) {
      a = i16x8.narrow_i32x4_s(i32x4.extadd_pairwise_i16x8_s(a), i32x4.extadd_pairwise_i16x8_s(b));
      b = a;
    }
    v128.store(ps, i8x16.shuffle(a, a, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    v128.store(ps, i8x16.shuffle(b, b, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15), 16);
  }
}

// acc += codes of four rows (0..127) times four activations at x.
@inline
function dotFour(x: usize, q: v128, acc: v128, even: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(v128.load32_splat(x), q, acc);
  else {
    acc = dotq(v128.load32_splat(x), v128.and(q, even), acc);
    return dotq(v128.load32_splat(x, 16), i16x8.shr_u(q, 8), acc);
  }
}

// Four rows of 32 weights in nibbles at w.
@inline
function nibbles32(w: usize, x: usize, seed: v128, m: v128, even: v128): v128 {
  let i = seed;
  let j = i32x4.splat(0);
  let v = v128.load(w);
  i = dotFour(x, v128.and(v, m), i, even);
  j = dotFour(x + X16, bitsFrom(v, 4, m), j, even);
  v = v128.load(w, 16);
  i = dotFour(x + 4, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 4, bitsFrom(v, 4, m), j, even);
  v = v128.load(w, 32);
  i = dotFour(x + 8, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 8, bitsFrom(v, 4, m), j, even);
  v = v128.load(w, 48);
  i = dotFour(x + 12, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 12, bitsFrom(v, 4, m), j, even);
  return i32x4.add(i, j);
}

// One term of four rows: integer sums times the scales, times that of the activations.
@inline
function term(i: v128, scales: v128, d: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(scales, d));
}

function quadsQ4_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m = quadMask(X0F);
  const even = quadMask(EVEN);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb * X16) << 1);
  const seeds = (<usize>nb) << 2;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + seeds; d += 4, x += 2 * X16, w += 72) {
      const i = nibbles32(w + 8, x, v128.load32_splat(d + seeds), m, even);
      sum = f32x4.add(sum, term(i, liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}

// Four rows of 32 five-bit weights at w.
@inline
function five32(
  w: usize,
  x: usize,
  seed: v128,
  m: v128,
  m07: v128,
  m18: v128,
  m08: v128,
  m10: v128,
  even: v128,
): v128 {
  const a = v128.load(w);
  const b = v128.load(w, 16);
  let i = dotFour(x, v128.and(a, m), seed, even);
  let j = dotFour(x + 4, v128.and(b, m), i32x4.splat(0), even);
  i = dotFour(x + X16 + 4, v128.or(bitsFrom(a, 5, m07), bitsFrom(b, 3, m18)), i, even);
  const c = v128.load(w, 32);
  const d = v128.load(w, 48);
  j = dotFour(x + 8, v128.and(c, m), j, even);
  i = dotFour(x + 12, v128.and(d, m), i, even);
  j = dotFour(x + X16 + 8, v128.or(bitsFrom(c, 5, m07), bitsFrom(d, 3, m18)), j, even);
  const e = v128.load(w, 64);
  i = dotFour(x + X16, v128.and(e, m), i, even);
  const top = v128.or(bitsFrom(b, 2, m08), bitsFrom(d, 1, m10));
  return i32x4.add(i, dotFour(x + X16 + 12, v128.or(bitsFrom(e, 5, m07), top), j, even));
}

function quadsQ5_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m = quadMask(X1F);
  const m07 = quadMask(X07);
  const m18 = quadMask(X18);
  const m08 = quadMask(X08);
  const m10 = quadMask(X10);
  const even = quadMask(EVEN);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb * X16) << 1);
  const seeds = (<usize>nb) << 2;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + seeds; d += 4, x += 2 * X16, w += 88) {
      const i = five32(w + 8, x, v128.load32_splat(d + seeds), m, m07, m18, m08, m10, even);
      sum = f32x4.add(sum, term(i, liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}

// 16 signed weights of four rows times lo and hi of the activations (relaxed), or their even and odd ones (baseline).
@inline
function signed16(w: usize, a: v128, b: v128, acc: v128): v128 {
  const w0 = v128.load(w);
  const w1 = v128.load(w, 16);
  const w2 = v128.load(w, 32);
  const w3 = v128.load(w, 48);
  if (ASC_FEATURE_RELAXED_SIMD) {
    const zero = i32x4.splat(0);
    const lo = dotq(w2, lane2(a), dotq(w1, lane1(a), dotq(w0, lane0(a), acc)));
    const hi = dotq(w2, lane2(b), dotq(w1, lane1(b), dotq(w0, lane0(b), zero)));
    return i32x4.sub(dotq(w3, lane3(a), lo), i32x4.shl(dotq(w3, lane3(b), hi), 7));
  } else {
    acc = signedFour(w0, lane0(a), lane0(b), acc);
    acc = signedFour(w1, lane1(a), lane1(b), acc);
    acc = signedFour(w2, lane2(a), lane2(b), acc);
    return signedFour(w3, lane3(a), lane3(b), acc);
  }
}


@inline
function signedFour(w: v128, even: v128, odd: v128, acc: v128): v128 {
  return dotq(i16x8.shr_s(w, 8), odd, dotq(i16x8.shr_s(i16x8.shl(w, 8), 8), even, acc));
}

function quadsQ8_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb) << 6);
  // relaxed: lo of both halves, then hi; baseline: even and odd of the first half, then of the second
  const second: usize = ASC_FEATURE_RELAXED_SIMD ? 32 : 16;
  const half: usize = 48 - second;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + ((<usize>nb) << 2); d += 4, x += 64, w += 136) {
      const i = signed16(w + 8, v128.load(x), v128.load(x + second), i32x4.splat(0));
      const j = signed16(w + 72, v128.load(x + half), v128.load(x + half + second), i);
      sum = f32x4.add(sum, term(j, liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}

// 16 signed weights of four rows, as codes, times as many activations: one dot each where the engine takes any byte.
@inline
function wide16(w: usize, x: v128, acc: v128, bias: v128): v128 {
  acc = dotq(lane0(x), v128.xor(v128.load(w), bias), acc);
  acc = dotq(lane1(x), v128.xor(v128.load(w, 16), bias), acc);
  acc = dotq(lane2(x), v128.xor(v128.load(w, 32), bias), acc);
  return dotq(lane3(x), v128.xor(v128.load(w, 48), bias), acc);
}

// Q8_0 with a SEEDED column (relaxed build only).
function quadsWide(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const bias = wideBias();
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb) << 5);
  const seeds = (<usize>nb) << 2;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + seeds; d += 4, x += 32, w += 136) {
      const i = wide16(w + 8, v128.load(x), v128.load32_splat(d + seeds), bias);
      const j = wide16(w + 72, v128.load(x, 16), i32x4.splat(0), bias);
      sum = f32x4.add(sum, term(i32x4.add(i, j), liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}

// Bytes of four rows (of one sign, below 128) times four sums at s, in the order 0 2 1 3.
@inline
function weigh(v: v128, s: usize, acc: v128, even: v128): v128 {
  acc = i32x4.add(acc, i32x4.dot_i16x8_s(v128.and(v, even), v128.load32_splat(s)));
  return i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_u(v, 8), v128.load32_splat(s, 4)));
}


@inline
function weighSigned(v: v128, s: usize, acc: v128): v128 {
  acc = i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_s(i16x8.shl(v, 8), 8), v128.load32_splat(s)));
  return i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_s(v, 8), v128.load32_splat(s, 4)));
}

// Half a super-block of Q4_K at w: four runs of 32; the scale of the current one is the lowest byte of each lane.
@inline
function runs4(w: usize, x: usize, scales: v128, acc: v128, m: v128, even: v128, low: v128): v128 {
  const end = w + 256;
  do {
    acc = i32x4.add(acc, i32x4.mul(nibbles32(w, x, i32x4.splat(0), m, even), v128.and(scales, low)));
    scales = i32x4.shr_u(scales, 8);
    w += 64;
    x += 2 * X16;
  } while (w < end);
  return acc;
}

function quadsQ4_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m = quadMask(X0F);
  const even = quadMask(EVEN);
  const low = quadMask(LOW);
  const m3f = quadMask(X3F);
  const m03 = quadMask(X03);
  const m0c = quadMask(X0C);
  const m30 = quadMask(X30);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb * X16) << 4);
  const last = pd + ((<usize>nb) << 2);
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    let s = last;
    for (let d = pd; d < last; d += 4, s += 32, x += 16 * X16, w += 576) {
      const s0 = v128.load(w, 16);
      const s1 = v128.load(w, 32);
      const s2 = v128.load(w, 48);
      const tops = v128.or(v128.or(bitsFrom(s0, 6, m03), bitsFrom(s1, 4, m0c)), bitsFrom(s2, 2, m30));
      const mins = weigh(tops, s + 8, weigh(v128.and(s2, m3f), s, i32x4.splat(0), even), even);
      let i = runs4(w + 64, x, v128.and(s0, m3f), i32x4.splat(0), m, even, low);
      i = runs4(w + 320, x + 8 * X16, v128.and(s1, m3f), i, m, even, low);
      const dx = v128.load32_splat(d);
      const v = term(i, liftedScales(w, lifted, lift), dx);
      sum = f32x4.add(sum, f32x4.sub(v, term(mins, liftedScales(w + 8, lifted, lift), dx)));
    }
    v128.store(y, sum);
  }
}

// 16 six-bit weights of four rows at w.
@inline
function six16(w: usize, x: usize, m: v128, m03: v128, m0c: v128, m30: v128, even: v128): v128 {
  const a = v128.load(w);
  const b = v128.load(w, 16);
  const c = v128.load(w, 32);
  let i = dotFour(x, v128.and(a, m), i32x4.splat(0), even);
  i = dotFour(x + 4, v128.and(b, m), i, even);
  i = dotFour(x + 8, v128.and(c, m), i, even);
  const tops = v128.or(v128.or(bitsFrom(a, 6, m03), bitsFrom(b, 4, m0c)), bitsFrom(c, 2, m30));
  return dotFour(x + 12, tops, i, even);
}

function quadsQ6_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m = quadMask(X3F);
  const even = quadMask(EVEN);
  const m03 = quadMask(X03);
  const m0c = quadMask(X0C);
  const m30 = quadMask(X30);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb * X16) << 4);
  const last = pd + ((<usize>nb) << 2);
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    let s = last;
    for (let d = pd; d < last; d += 4, w += 840) {
      let acc = i32x4.splat(0);
      let zeros = acc;
      let g = w + 72;
      for (let ps = w + 8; ps < w + 72; ps += 16, s += 8) {
        let scales = v128.load(ps);
        zeros = weighSigned(scales, s, zeros);
        // groups of 16; the scale of the current one is the lowest byte of each lane
        for (const next = g + 192; g < next; g += 48, x += X16) {
          const scale = i32x4.shr_s(i32x4.shl(scales, 24), 24);
          acc = i32x4.add(acc, i32x4.mul(six16(g, x, m, m03, m0c, m30, even), scale));
          scales = i32x4.shr_u(scales, 8);
        }
      }
      acc = i32x4.sub(acc, i32x4.shl(zeros, 5));
      sum = f32x4.add(sum, term(acc, liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}
