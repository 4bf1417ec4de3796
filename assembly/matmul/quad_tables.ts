// Pairs of quads whose codes stand for levels of a table, which are IQ4_NL, MXFP4 and IQ4_XS, times one column, for blocks
// (matmul/quads.ts) and super-blocks (matmul/super_quads.ts).
//
// Engines pack no look-ups into 256 bits (docs/decisions/0026-quads-in-pairs.md), nor what depends on one. So integer sums of
// some runs are stored first, and what follows, which starts at loads, is packed. What counts is the number of operations:
// sums start at what is to be taken off for the zero point, and run through one chain of dots each.

import { Type } from "../abi";
import { dotPairs, joinPairs, lookup, onesPairs, productPairs, sumsPairs } from "../math/dot";
import {
  EVEN,
  EVEN_NIBBLES,
  LIFT,
  LIFTED,
  X0F,
  X20,
  X30,
  bitsFrom,
  lowered,
  powersOf,
  quadMask,
} from "../quants/quad";
import { bytesOf, codesAt, hasLevels, levelZero, tableOf } from "../quants/quad_types";
import { topsIQ4_XS } from "../quants/quads_256";
import { BLOCK_SCALES, startOf } from "./columns";
import { BLOCK, RUN, SUPER, X16, dotFour, oddOf, term } from "./quad_runs";
import { SUPER_SCALES } from "./super";

/** Bytes of the sums that wait for their scales together, behind the column: of a super-block at least. */
export const LEVEL_SUMS: usize = 512;

/**
 * What both parts of a level count from where pairs are summed, which is 15 times the code and what is left, 1 to 19, of the
 * level with 128 added. So sums of 32 products of either stay within i16.
 */
export const LEVEL_ZERO: i32 = 8;

// Bytes of the sums of a run.
@inline
function sumBytes(levels: bool): usize {
  return levels ? 64 : 32;
}

// The low nibbles of v with e and o, the high ones with f and q.
@inline
function dotNibbles(
  e: v128,
  o: v128,
  f: v128,
  q: v128,
  v: v128,
  acc: v128,
  m: v128,
  even: v128,
  table: v128,
): v128 {
  acc = dotFour(e, o, lookup(table, v128.and(v, m)), acc, even);
  return dotFour(f, q, lookup(table, bitsFrom(v, 4, m)), acc, even);
}

// The levels of a type as the dots of a column want them.
@inline
function levelsOf(type: i32, pairs: bool): v128 {
  const table = v128.load(tableOf(type));
  if (!hasLevels(type)) return table;
  // 128 less 15 times the code
  const rest = i8x16(-128, 113, 98, 83, 68, 53, 38, 23, 8, -7, -22, -37, -52, -67, -82, -97);
  return i8x16.add(table, pairs ? rest : i8x16.splat(<i8>levelZero()));
}

/** Rewrites the sums behind a super-block of a column at x (matmul/super.ts): where each run of 32 starts. */
@inline
export function levelStarts(x: usize): void {
  const p = x + 8 * RUN + 4;
  if (sumsPairs()) {
    for (let i: usize = 0; i < 8; i++) store<i32>(p + (i << 2), startOf(x + i * RUN, LEVEL_ZERO));
    return;
  }
  const zero = i32x4.splat(-levelZero());
  const a = i32x4.extadd_pairwise_i16x8_s(v128.load(p));
  const b = i32x4.extadd_pairwise_i16x8_s(v128.load(p, 16));
  v128.store(p, i32x4.mul(a, zero));
  v128.store(p, i32x4.mul(b, zero), 16);
}

// acc + products of codes, where they count.
@inline
function nextCodes(levels: bool, e: v128, c: v128, acc: v128): v128 {
  return levels ? dotPairs(e, c, acc) : acc;
}

// The sums of two quads over runs of 32 to t: from x to `end` on the column, a step apart, and from p a stride apart in
// the weights. They start at seeds, of super-blocks one after the other at s.
@inline
function sumRuns(
  supers: bool,
  p: usize,
  stride: usize,
  x: usize,
  end: usize,
  s: usize,
  t: usize,
  table: v128,
): void {
  const m = quadMask(X0F);
  const even = quadMask(EVEN);
  for (; x < end; x += supers ? RUN : BLOCK) {
    let i = v128.load32_splat(supers ? s : x + RUN + 4);
    let j = i;
    let e: v128;
    let o: v128;
    let f: v128;
    let q: v128;
    e = v128.load32_splat(x);
    o = oddOf(x);
    f = v128.load32_splat(x + X16);
    q = oddOf(x + X16);
    i = dotNibbles(e, o, f, q, v128.load(p), i, m, even, table);
    j = dotNibbles(e, o, f, q, v128.load(p, 16), j, m, even, table);
    e = v128.load32_splat(x + 4);
    o = oddOf(x + 4);
    f = v128.load32_splat(x + X16 + 4);
    q = oddOf(x + X16 + 4);
    i = dotNibbles(e, o, f, q, v128.load(p, 32), i, m, even, table);
    j = dotNibbles(e, o, f, q, v128.load(p, 48), j, m, even, table);
    e = v128.load32_splat(x + 8);
    o = oddOf(x + 8);
    f = v128.load32_splat(x + X16 + 8);
    q = oddOf(x + X16 + 8);
    i = dotNibbles(e, o, f, q, v128.load(p, 64), i, m, even, table);
    j = dotNibbles(e, o, f, q, v128.load(p, 80), j, m, even, table);
    e = v128.load32_splat(x + 12);
    o = oddOf(x + 12);
    f = v128.load32_splat(x + X16 + 12);
    q = oddOf(x + X16 + 12);
    i = dotNibbles(e, o, f, q, v128.load(p, 96), i, m, even, table);
    j = dotNibbles(e, o, f, q, v128.load(p, 112), j, m, even, table);
    v128.store(t, i);
    v128.store(t, j, 16);
    p += stride;
    s += 4;
    t += 32;
  }
}

// The same where sumsPairs() (math/dot.ts), in pairs and without their starts: of what the table has and, `levels`, of the
// codes, which engines pack with all that look-ups need. `step`: bytes from run to run of the column.
@inline
function sumPairs(
  levels: bool,
  p: usize,
  stride: usize,
  x: usize,
  end: usize,
  step: usize,
  t: usize,
  table: v128,
): void {
  const m = quadMask(X0F);
  let a: v128;
  let b: v128;
  let c: v128;
  let d: v128;
  let e: v128;
  for (; x < end; x += step) {
    // the same offsets from x and z: V8 computes each of them once
    const z = x + X16;
    a = v128.load(p);
    b = v128.load(p, 16);
    c = v128.and(a, m);
    d = v128.and(b, m);
    e = v128.load32_splat(x);
    let i = productPairs(e, lookup(table, c));
    let j = productPairs(e, lookup(table, d));
    let k = levels ? productPairs(e, c) : i;
    let l = levels ? productPairs(e, d) : j;
    c = bitsFrom(a, 4, m);
    d = bitsFrom(b, 4, m);
    e = v128.load32_splat(z);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    a = v128.load(p, 32);
    b = v128.load(p, 48);
    c = v128.and(a, m);
    d = v128.and(b, m);
    e = v128.load32_splat(x, 4);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    c = bitsFrom(a, 4, m);
    d = bitsFrom(b, 4, m);
    e = v128.load32_splat(z, 4);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    a = v128.load(p, 64);
    b = v128.load(p, 80);
    c = v128.and(a, m);
    d = v128.and(b, m);
    e = v128.load32_splat(x, 8);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    c = bitsFrom(a, 4, m);
    d = bitsFrom(b, 4, m);
    e = v128.load32_splat(z, 8);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    a = v128.load(p, 96);
    b = v128.load(p, 112);
    c = v128.and(a, m);
    d = v128.and(b, m);
    e = v128.load32_splat(x, 12);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    c = bitsFrom(a, 4, m);
    d = bitsFrom(b, 4, m);
    e = v128.load32_splat(z, 12);
    i = dotPairs(e, lookup(table, c), i);
    j = dotPairs(e, lookup(table, d), j);
    k = nextCodes(levels, e, c, k);
    l = nextCodes(levels, e, d, l);
    v128.store(t, i);
    v128.store(t, j, 16);
    if (levels) {
      v128.store(t, l, 48);
      v128.store(t, k, 32);
      t += 32;
    }
    p += stride;
    t += 32;
  }
}

// The sum of a run of the first or the second quad, out of what is kept at t; of pairs with where they start, `levels` from 15
// times the codes too.
@inline
function runSum(
  pairs: bool,
  levels: bool,
  t: usize,
  second: bool,
  start: v128,
  ones: v128,
  rise: v128,
): v128 {
  const v = second ? v128.load(t, 16) : v128.load(t);
  if (!pairs) return v;
  const rest = i32x4.dot_i16x8_s(i16x8.add(v, start), ones);
  if (!levels) return rest;
  return joinPairs(i16x8.add(second ? v128.load(t, 48) : v128.load(t, 32), start), rest, rise);
}

/** Of a type with blocks: results to f32 from y to `end`. `pairs`: where sumsPairs(). */
@inline
export function levelsBlocks(
  type: i32,
  pairs: bool,
  w: usize,
  nb: i32,
  px: usize,
  y: usize,
  end: usize,
): void {
  const levels = hasLevels(type);
  const size = sumBytes(pairs && levels);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const ones = onesPairs();
  const rise = quadMask(EVEN_NIBBLES); // 15
  const table = levelsOf(type, pairs);
  const stride: usize = 2 * bytesOf(type);
  const last = px + <usize>nb * BLOCK;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last;) {
      const stop = min(x + (LEVEL_SUMS / size) * BLOCK, last);
      const p = w + 2 * codesAt(type);
      if (pairs) sumPairs(levels, p, stride, x, stop, BLOCK, last, table);
      else sumRuns(false, p, stride, x, stop, 0, last, table);
      for (let t = last; x < stop; x += BLOCK, t += size, w += stride) {
        const dx = v128.load32_splat(x + RUN);
        const start = pairs ? v128.load32_splat(x + RUN, 4) : ones;
        const i = runSum(pairs, levels, t, false, start, ones, rise);
        const j = runSum(pairs, levels, t, true, start, ones, rise);
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
export function levelsSupers(pairs: bool, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const type = Type.IQ4_XS;
  const m = quadMask(X0F);
  const m30 = quadMask(X30);
  const m20 = quadMask(X20);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const ones = onesPairs();
  const rise = quadMask(EVEN_NIBBLES); // 15
  const table = levelsOf(type, pairs);
  const last = px + <usize>nb * SUPER;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last; x += SUPER_SCALES, w += 2 * bytesOf(type)) {
      const stop = x + 8 * RUN;
      const p = w + 2 * codesAt(type);
      if (pairs) sumPairs(true, p, 128, x, stop, RUN, last, table);
      else sumRuns(true, p, 128, x, stop, stop + 4, last, table);
      x = stop;
      let s = x + 4;
      let accA = i32x4.splat(0);
      let accB = accA;
      let lowA = v128.load(w, 32);
      let lowB = v128.load(w, 48);
      let topA = topsIQ4_XS(w, 0);
      let topB = topsIQ4_XS(w, 1);
      for (let t = last; t < last + 8 * sumBytes(pairs);) {
        let scalesA = i8x16.sub(v128.or(v128.and(lowA, m), v128.and(topA, m30)), m20);
        let scalesB = i8x16.sub(v128.or(v128.and(lowB, m), v128.and(topB, m30)), m20);
        // the scale of the current run is the highest byte of each lane
        for (const four = t + 4 * sumBytes(pairs); t < four; t += sumBytes(pairs)) {
          const start = pairs ? v128.load32_splat(s) : ones;
          const i = runSum(pairs, true, t, false, start, ones, rise);
          const j = runSum(pairs, true, t, true, start, ones, rise);
          s += 4;
          accA = i32x4.add(accA, i32x4.mul(i, i32x4.shr_s(scalesA, 24)));
          accB = i32x4.add(accB, i32x4.mul(j, i32x4.shr_s(scalesB, 24)));
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
