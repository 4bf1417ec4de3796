// Pairs of quads whose codes stand for levels of a table, which are IQ4_NL, MXFP4 and IQ4_XS, times one column, for blocks
// (matmul/quads.ts) and super-blocks (matmul/super_quads.ts).
//
// Engines pack no look-ups into 256 bits (docs/decisions/0026-quads-in-pairs.md), nor what depends on one. So integer sums of
// some runs are stored first, and what follows, which starts at loads, is packed. What counts is the number of operations:
// sums start at what is to be taken off for the zero point, and run through one chain of dots each.

import { Type } from "../abi";
import { WIDE_NONE, lookup, wideDot } from "../math/dot";
import { EVEN, LIFT, LIFTED, X0F, X20, X30, bitsFrom, lowered, powersOf, quadMask } from "../quants/quad";
import { bytesOf, codesAt, hasLevels, levelZero, tableOf } from "../quants/quad_types";
import { topsIQ4_XS } from "../quants/quads_256";
import { BLOCK_SCALES } from "./columns";
import { BLOCK, RUN, SUPER, X16, dotFour, oddOf, term } from "./quad_runs";
import { SUPER_SCALES } from "./super";

// Runs of 32 whose sums wait for their scales together: as many as a super-block has.
const RUNS: usize = 8;

/** Bytes of their sums, which are kept behind the column. */
export const LEVEL_SUMS: usize = 32 * RUNS;

/** True when levels must be dotted in two parts: the engine's dot takes 0..127 only. */
@inline
export function inParts(): bool {
  return ASC_FEATURE_RELAXED_SIMD && wideDot() == WIDE_NONE;
}

// dotFour() of the levels of codes; in parts: and of what goes beyond 127.
@inline
function dotLevels(
  parts: bool,
  e: v128,
  o: v128,
  q: v128,
  acc: v128,
  even: v128,
  table: v128,
  rest: v128,
): v128 {
  acc = dotFour(e, o, lookup(table, q), acc, even, false);
  return parts ? dotFour(e, o, lookup(rest, q), acc, even, false) : acc;
}

// The low nibbles of v with e and o, the high ones with f and q.
@inline
function dotNibbles(
  parts: bool,
  e: v128,
  o: v128,
  f: v128,
  q: v128,
  v: v128,
  acc: v128,
  m: v128,
  even: v128,
  table: v128,
  rest: v128,
): v128 {
  acc = dotLevels(parts, e, o, v128.and(v, m), acc, even, table, rest);
  return dotLevels(parts, f, q, bitsFrom(v, 4, m), acc, even, table, rest);
}

// The levels of a type as the dots of a column want them.
@inline
function levelsOf(type: i32): v128 {
  const table = v128.load(tableOf(type));
  return hasLevels(type) ? i8x16.add(table, i8x16.splat(<i8>levelZero())) : table;
}

/** Rewrites the sums at p of a super-block of a column (matmul/super.ts): where each run of 32 starts, i32. */
@inline
export function levelSeeds(p: usize): void {
  const zero = i32x4.splat(-levelZero());
  const a = i32x4.extadd_pairwise_i16x8_s(v128.load(p));
  const b = i32x4.extadd_pairwise_i16x8_s(v128.load(p, 16));
  v128.store(p, i32x4.mul(a, zero));
  v128.store(p, i32x4.mul(b, zero), 16);
}

// The sums of two quads over runs of 32 to t: from x to `end` on the column, a step apart, and from p a stride apart in
// the weights. They start at seeds, of super-blocks one after the other at s.
@inline
function sumRuns(
  supers: bool,
  parts: bool,
  p: usize,
  stride: usize,
  x: usize,
  end: usize,
  s: usize,
  t: usize,
  table: v128,
  rest: v128,
): void {
  const m = quadMask(X0F);
  const even = quadMask(EVEN);
  for (; x < end; x += supers ? RUN : BLOCK) {
    let i = v128.load32_splat(supers ? s : x + RUN + 4);
    let j = i;
    let e = v128.load32_splat(x);
    let o = oddOf(x);
    let f = v128.load32_splat(x + X16);
    let q = oddOf(x + X16);
    i = dotNibbles(parts, e, o, f, q, v128.load(p), i, m, even, table, rest);
    j = dotNibbles(parts, e, o, f, q, v128.load(p, 16), j, m, even, table, rest);
    e = v128.load32_splat(x + 4);
    o = oddOf(x + 4);
    f = v128.load32_splat(x + X16 + 4);
    q = oddOf(x + X16 + 4);
    i = dotNibbles(parts, e, o, f, q, v128.load(p, 32), i, m, even, table, rest);
    j = dotNibbles(parts, e, o, f, q, v128.load(p, 48), j, m, even, table, rest);
    e = v128.load32_splat(x + 8);
    o = oddOf(x + 8);
    f = v128.load32_splat(x + X16 + 8);
    q = oddOf(x + X16 + 8);
    i = dotNibbles(parts, e, o, f, q, v128.load(p, 64), i, m, even, table, rest);
    j = dotNibbles(parts, e, o, f, q, v128.load(p, 80), j, m, even, table, rest);
    e = v128.load32_splat(x + 12);
    o = oddOf(x + 12);
    f = v128.load32_splat(x + X16 + 12);
    q = oddOf(x + X16 + 12);
    i = dotNibbles(parts, e, o, f, q, v128.load(p, 96), i, m, even, table, rest);
    j = dotNibbles(parts, e, o, f, q, v128.load(p, 112), j, m, even, table, rest);
    v128.store(t, i);
    v128.store(t, j, 16);
    p += stride;
    s += 4;
    t += 32;
  }
}

/** Of a type with blocks: results to f32 from y to `end`. `parts`: the table of levels holds at most 127, the rest another. */
@inline
export function levelsBlocks(
  type: i32,
  parts: bool,
  w: usize,
  nb: i32,
  px: usize,
  y: usize,
  end: usize,
): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const all = levelsOf(type);
  const table = parts ? i8x16.min_u(all, i8x16.splat(127)) : all;
  const rest = parts ? i8x16.sub(all, table) : all;
  const stride: usize = 2 * bytesOf(type);
  const last = px + <usize>nb * BLOCK;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last;) {
      const stop = min(x + RUNS * BLOCK, last);
      sumRuns(false, parts, w + 2 * codesAt(type), stride, x, stop, 0, last, table, rest);
      for (let t = last; x < stop; x += BLOCK, t += 32, w += stride) {
        const dx = v128.load32_splat(x + RUN);
        const i = v128.load(t);
        const j = v128.load(t, 16);
        if (type == Type.MXFP4) {
          const both = v128.load8x8_u(w);
          sumA = f32x4.add(sumA, term(i, powersOf(i32x4.extend_low_i16x8_u(both)), dx));
          sumB = f32x4.add(sumB, term(j, powersOf(i32x4.extend_high_i16x8_u(both)), dx));
        } else {
          sumA = f32x4.add(sumA, term(i, lowered(v128.load16x4_s(w), lifted, lift), dx));
          sumB = f32x4.add(sumB, term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
        }
      }
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}

/** The same of IQ4_XS. */
@inline
export function levelsSupers(parts: bool, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const type = Type.IQ4_XS;
  const m = quadMask(X0F);
  const m30 = quadMask(X30);
  const m20 = quadMask(X20);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const all = levelsOf(type);
  const table = parts ? i8x16.min_u(all, i8x16.splat(127)) : all;
  const rest = parts ? i8x16.sub(all, table) : all;
  const last = px + <usize>nb * SUPER;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last; x += SUPER_SCALES, w += 2 * bytesOf(type)) {
      const stop = x + RUNS * RUN;
      sumRuns(true, parts, w + 2 * codesAt(type), 128, x, stop, stop + 4, last, table, rest);
      x = stop;
      let accA = i32x4.splat(0);
      let accB = accA;
      let lowA = v128.load(w, 32);
      let lowB = v128.load(w, 48);
      let topA = topsIQ4_XS(w, 0);
      let topB = topsIQ4_XS(w, 1);
      for (let t = last; t < last + LEVEL_SUMS;) {
        let scalesA = i8x16.sub(v128.or(v128.and(lowA, m), v128.and(topA, m30)), m20);
        let scalesB = i8x16.sub(v128.or(v128.and(lowB, m), v128.and(topB, m30)), m20);
        // the scale of the current run is the highest byte of each lane
        for (const four = t + 128; t < four; t += 32) {
          accA = i32x4.add(accA, i32x4.mul(v128.load(t), i32x4.shr_s(scalesA, 24)));
          accB = i32x4.add(accB, i32x4.mul(v128.load(t, 16), i32x4.shr_s(scalesB, 24)));
          scalesA = i32x4.shl(scalesA, 8);
          scalesB = i32x4.shl(scalesB, 8);
        }
        lowA = i16x8.shr_u(lowA, 4);
        lowB = i16x8.shr_u(lowB, 4);
        topA = i32x4.shl(topA, 4);
        topB = i32x4.shl(topB, 4);
      }
      const dx = v128.load32_splat(x);
      sumA = f32x4.add(sumA, term(accA, lowered(v128.load16x4_s(w), lifted, lift), dx));
      sumB = f32x4.add(sumB, term(accB, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}
