// Rows of super-blocks in quads (quants/quads_256.ts) times one column of Q8_K activations: each dot feeds four rows.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/super.ts,
// and so are the columns, never split, but for their sums (quadSums).

import { Type } from "../abi";
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
import { FIVES } from "../quants/quad_codes";
import { bytesOf, codesAt, formOf, hasMin, hasTable, levelZero, zeroOf } from "../quants/quad_types";
import { scalesIQ4_XS, scalesQ3_K } from "../quants/quads_256";
import { X16, dotFour, five32, highInPlace, inParts, levels32, levelsOf, nibbles32, term } from "./quads";

/** `quads` quads of rows at pw times the column of `nb` super-blocks at px; results to f32 at py. */
export function dotSuperQuads(type: i32, pw: usize, quads: i32, nb: i32, px: usize, py: usize): void {
  const end = py + ((<usize>quads) << 4);
  switch (type) {
    case Type.Q2_K:
      return quadsQ2_K(pw, nb, px, py, end);
    case Type.Q3_K:
      return quadsQ3_K(pw, nb, px, py, end);
    case Type.Q4_K:
      return quadsQ4_K(pw, nb, px, py, end);
    case Type.Q5_K:
      return quadsQ5_K(pw, nb, px, py, end);
    case Type.Q6_K:
      return quadsQ6_K(pw, nb, px, py, end);
    case Type.IQ4_XS:
      if (inParts()) quadsParts(pw, nb, px, py, end);
      else quadsIQ4_XS(pw, nb, px, py, end);
      break;
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

// Types whose scales serve 32 weights; `parts` as in levels32(), `inPlace` as in nibbles32().
@inline
function wideOf(
  type: i32,
  parts: bool,
  inPlace: bool,
  w: usize,
  nb: i32,
  px: usize,
  y: usize,
  end: usize,
): void {
  const five = formOf(type) == FIVES;
  const m = quadMask(five ? X1F : X0F);
  const m07 = five ? quadMask(X07) : m;
  const m18 = five ? quadMask(X18) : m;
  const m08 = five ? quadMask(X08) : m;
  const m10 = five ? quadMask(X10) : m;
  const even = quadMask(EVEN);
  const low = quadMask(LOW);
  const m3f = quadMask(X3F);
  const m03 = quadMask(X03);
  const m0c = quadMask(X0C);
  const m30 = quadMask(X30);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const all = hasTable(type) ? levelsOf(type) : m;
  const table = parts ? i8x16.min_u(all, i8x16.splat(127)) : all;
  const rest = parts ? i8x16.sub(all, table) : m;
  const zero = i32x4.splat(hasTable(type) ? levelZero() : 0);
  const pd = px + ((<usize>nb * X16) << 4);
  const last = pd + ((<usize>nb) << 2);
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    let s = last;
    for (let d = pd; d < last; d += 4, s += 32) {
      let acc = i32x4.splat(0);
      let mins = acc;
      let scales: v128;
      let next: v128;
      if (hasMin(type)) {
        const s0 = v128.load(w, 16);
        const s1 = v128.load(w, 32);
        const s2 = v128.load(w, 48);
        const tops = v128.or(v128.or(bitsFrom(s0, 6, m03), bitsFrom(s1, 4, m0c)), bitsFrom(s2, 2, m30));
        mins = weigh(tops, s + 8, weigh(v128.and(s2, m3f), s, acc, even), even);
        scales = v128.and(s0, m3f);
        next = v128.and(s1, m3f);
      } else {
        scales = scalesIQ4_XS(w, 0);
        next = scalesIQ4_XS(w, 1);
        mins = weighSigned(next, s + 8, weighSigned(scales, s, acc));
        acc = i32x4.neg(i32x4.mul(mins, zero));
      }
      let p = w + codesAt(type);
      w += bytesOf(type);
      // two halves of four runs; the scale of the current one is the lowest byte of each lane
      for (const half = p + ((w - p) >> 1); ; scales = next) {
        const stop = p < half ? half : w;
        do {
          const i = five
            ? five32(p, x, i32x4.splat(0), m, m07, m18, m08, m10, even)
            : hasTable(type)
              ? levels32(p, x, i32x4.splat(0), m, even, table, rest, parts)
              : nibbles32(p, x, i32x4.splat(0), m, even, inPlace);
          const scale = hasMin(type) ? v128.and(scales, low) : i32x4.shr_s(i32x4.shl(scales, 24), 24);
          acc = i32x4.add(acc, i32x4.mul(i, scale));
          scales = i32x4.shr_u(scales, 8);
          p += five ? 80 : 64;
          x += 2 * X16;
        } while (p < stop);
        if (p == w) break;
      }
      const dx = v128.load32_splat(d);
      let v = term(acc, liftedScales(w - bytesOf(type), lifted, lift), dx);
      if (hasMin(type)) {
        v = f32x4.sub(v, term(mins, liftedScales(w - bytesOf(type) + 8, lifted, lift), dx));
      }
      sum = f32x4.add(sum, v);
    }
    v128.store(y, sum);
  }
}

function quadsQ4_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (highInPlace()) wideOf(Type.Q4_K, false, true, w, nb, px, y, end);
  else wideOf(Type.Q4_K, false, false, w, nb, px, y, end);
}

function quadsQ5_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  wideOf(Type.Q5_K, false, false, w, nb, px, y, end);
}

function quadsIQ4_XS(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  wideOf(Type.IQ4_XS, false, false, w, nb, px, y, end);
}

// IQ4_XS inParts().
function quadsParts(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) wideOf(Type.IQ4_XS, true, false, w, nb, px, y, end);
}

// 16 two-bit weights of four rows at w.
@inline
function two16(w: usize, x: usize, m: v128, even: v128): v128 {
  const v = v128.load(w);
  let i = dotFour(x, v128.and(v, m), i32x4.splat(0), even);
  i = dotFour(x + 4, bitsFrom(v, 2, m), i, even);
  i = dotFour(x + 8, bitsFrom(v, 4, m), i, even);
  return dotFour(x + 12, bitsFrom(v, 6, m), i, even);
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

// 16 of 32 three-bit weights at w, from bit `s` on.
@inline
function three16(w: usize, x: usize, s: i32, m: v128, m03: v128, m0c: v128, m30: v128, even: v128): v128 {
  const a = v128.load(w);
  const b = v128.load(w, 16);
  const c = v128.load(w, 32);
  let i = dotFour(x, bitsFrom(a, s, m), i32x4.splat(0), even);
  i = dotFour(x + 4, bitsFrom(b, s, m), i, even);
  i = dotFour(x + 8, bitsFrom(c, s, m), i, even);
  const tops = v128.or(v128.or(bitsFrom(a, 6, m03), bitsFrom(b, 4, m0c)), bitsFrom(c, 2, m30));
  return dotFour(x + 12, bitsFrom(tops, s, m), i, even);
}

// Types with a scale for each 16 weights.
@inline
function narrowOf(type: i32, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m = quadMask(type == Type.Q6_K ? X3F : type == Type.Q3_K ? X07 : X03);
  const even = quadMask(EVEN);
  const m0f = quadMask(X0F);
  const m03 = quadMask(X03);
  const m0c = quadMask(X0C);
  const m30 = quadMask(X30);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const step: usize = type == Type.Q2_K ? 16 : 48;
  const pd = px + ((<usize>nb * X16) << 4);
  const last = pd + ((<usize>nb) << 2);
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    let s = last;
    for (let d = pd; d < last; d += 4, w += bytesOf(type)) {
      let acc = i32x4.splat(0);
      let sums = acc;
      let g = w + codesAt(type);
      for (let i = 0; i < 4; i++, s += 8) {
        let scales: v128;
        if (type == Type.Q3_K) scales = scalesQ3_K(w, i);
        else scales = v128.load(w + (hasMin(type) ? 16 : 8) + ((<usize>i) << 4));
        if (hasMin(type)) {
          sums = weigh(bitsFrom(scales, 4, m0f), s, sums, even);
          scales = v128.and(scales, m0f);
        } else sums = weighSigned(scales, s, sums);
        // the scale of the current group is the lowest byte of each lane
        for (const next = x + 4 * X16; x < next; g += step) {
          if (type == Type.Q3_K) {
            const a = three16(g, x, 0, m, m03, m0c, m30, even);
            acc = i32x4.add(acc, i32x4.mul(a, i32x4.shr_s(i32x4.shl(scales, 24), 24)));
            const b = three16(g, x + X16, 3, m, m03, m0c, m30, even);
            acc = i32x4.add(acc, i32x4.mul(b, i32x4.shr_s(i32x4.shl(scales, 16), 24)));
            scales = i32x4.shr_u(scales, 16);
            x += 2 * X16;
          } else {
            const a = type == Type.Q2_K ? two16(g, x, m, even) : six16(g, x, m, m03, m0c, m30, even);
            acc = i32x4.add(acc, i32x4.mul(a, i32x4.shr_s(i32x4.shl(scales, 24), 24)));
            scales = i32x4.shr_u(scales, 8);
            x += X16;
          }
        }
      }
      const dx = v128.load32_splat(d);
      if (!hasMin(type)) acc = i32x4.sub(acc, i32x4.mul(sums, i32x4.splat(zeroOf(type))));
      let v = term(acc, liftedScales(w, lifted, lift), dx);
      if (hasMin(type)) v = f32x4.sub(v, term(sums, liftedScales(w + 8, lifted, lift), dx));
      sum = f32x4.add(sum, v);
    }
    v128.store(y, sum);
  }
}

function quadsQ2_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  narrowOf(Type.Q2_K, w, nb, px, y, end);
}

function quadsQ3_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  narrowOf(Type.Q3_K, w, nb, px, y, end);
}

function quadsQ6_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  narrowOf(Type.Q6_K, w, nb, px, y, end);
}
