// Pairs of quads whose codes stand for levels of a table, which are IQ4_NL, MXFP4 and IQ4_XS, times one column, for blocks
// (matmul/quads.ts) and super-blocks (matmul/super_quads.ts).
//
// Engines pack no look-ups into 256 bits (docs/decisions/0026-quads-in-pairs.md), nor what depends on one. So integer sums of
// some runs are stored first, and what follows, which starts at loads, is packed. What counts is the number of operations:
// sums start at what is to be taken off for the zero point, and run through one chain of dots each.

import { Type } from "../abi";
import { dotPairs, dotSigns, joinPairs, lookup, onesPairs, productPairs } from "../math/dot";
import { EVEN, LIFT, LIFTED, X0F, X20, X30, bitsFrom, lowered, powersOf, quadMask } from "../quants/quad";
import { bytesOf, codesAt, hasLevels, levelZero, tableOf } from "../quants/quad_types";
import { topsIQ4_XS } from "../quants/quads_256";
import { BLOCK_SCALES } from "./columns";
import { BLOCK, RUN, X16, dotFour, oddOf, term } from "./quad_runs";
import { SUPER_SCALES } from "./super";

// Runs of 32 whose sums wait for their scales together: as many as a super-block has.
const RUNS: usize = 8;

/** Bytes of their sums, which are kept behind the column. */
export const LEVEL_SUMS: usize = 32 * RUNS;

// acc + levels q of four rows times four activations: e and o as dotFour() has them or, `signs`, magnitudes e and masks o. Then
// `even` is onesPairs(): one pair of products is all that i16 holds.
@inline
function dotLevels(signs: bool, e: v128, o: v128, q: v128, acc: v128, even: v128): v128 {
  return signs ? dotSigns(q, o, e, acc, even) : dotFour(e, o, q, acc, even);
}

// The low nibbles of v with e and o, the high ones with f and q.
@inline
function dotNibbles(
  signs: bool,
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
  acc = dotLevels(signs, e, o, lookup(table, v128.and(v, m)), acc, even);
  return dotLevels(signs, f, q, lookup(table, bitsFrom(v, 4, m)), acc, even);
}

// What goes with the four activations at x: their masks, or odd ones that stand apart.
@inline
function otherOf(signs: bool, x: usize): v128 {
  return signs ? v128.load32_splat(x, RUN) : oddOf(x);
}

// Bytes of 32 activations of a column.
@inline
function runOf(signs: bool): usize {
  return signs ? 2 * RUN : RUN;
}

// The levels of a type as the dots of a column want them.
@inline
function levelsOf(type: i32, signs: bool): v128 {
  const table = v128.load(tableOf(type));
  return hasLevels(type) && !signs ? i8x16.add(table, i8x16.splat(<i8>levelZero())) : table;
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
// the weights. They start at seeds, of super-blocks one after the other at s. `signs`: the column is SIGNS.
@inline
function sumRuns(
  supers: bool,
  signs: bool,
  p: usize,
  stride: usize,
  x: usize,
  end: usize,
  s: usize,
  t: usize,
  table: v128,
): void {
  const m = quadMask(X0F);
  const even = signs ? onesPairs() : quadMask(EVEN);
  const run = runOf(signs);
  for (; x < end; x += supers ? run : run + BLOCK_SCALES) {
    let i = v128.load32_splat(supers ? s : x + run + 4);
    let j = i;
    let e: v128;
    let o: v128;
    let f: v128;
    let q: v128;
    e = v128.load32_splat(x);
    o = otherOf(signs, x);
    f = v128.load32_splat(x + X16);
    q = otherOf(signs, x + X16);
    i = dotNibbles(signs, e, o, f, q, v128.load(p), i, m, even, table);
    j = dotNibbles(signs, e, o, f, q, v128.load(p, 16), j, m, even, table);
    e = v128.load32_splat(x + 4);
    o = otherOf(signs, x + 4);
    f = v128.load32_splat(x + X16 + 4);
    q = otherOf(signs, x + X16 + 4);
    i = dotNibbles(signs, e, o, f, q, v128.load(p, 32), i, m, even, table);
    j = dotNibbles(signs, e, o, f, q, v128.load(p, 48), j, m, even, table);
    e = v128.load32_splat(x + 8);
    o = otherOf(signs, x + 8);
    f = v128.load32_splat(x + X16 + 8);
    q = otherOf(signs, x + X16 + 8);
    i = dotNibbles(signs, e, o, f, q, v128.load(p, 64), i, m, even, table);
    j = dotNibbles(signs, e, o, f, q, v128.load(p, 80), j, m, even, table);
    e = v128.load32_splat(x + 12);
    o = otherOf(signs, x + 12);
    f = v128.load32_splat(x + X16 + 12);
    q = otherOf(signs, x + X16 + 12);
    i = dotNibbles(signs, e, o, f, q, v128.load(p, 96), i, m, even, table);
    j = dotNibbles(signs, e, o, f, q, v128.load(p, 112), j, m, even, table);
    v128.store(t, i);
    v128.store(t, j, 16);
    p += stride;
    s += 4;
    t += 32;
  }
}

// The same of blocks with levels 0..24 where sumsPairs() (math/dot.ts): four pairs of products fit into i16.
@inline
function sumPairs(p: usize, stride: usize, x: usize, end: usize, t: usize, table: v128): void {
  const m = quadMask(X0F);
  const ones = onesPairs();
  for (; x < end; x += BLOCK) {
    let a = v128.load(p);
    let b = v128.load(p, 16);
    let e = v128.load32_splat(x);
    let i = productPairs(e, lookup(table, v128.and(a, m)));
    let j = productPairs(e, lookup(table, v128.and(b, m)));
    e = v128.load32_splat(x + X16);
    let k = productPairs(e, lookup(table, bitsFrom(a, 4, m)));
    let l = productPairs(e, lookup(table, bitsFrom(b, 4, m)));
    a = v128.load(p, 32);
    b = v128.load(p, 48);
    e = v128.load32_splat(x + 4);
    i = dotPairs(e, lookup(table, v128.and(a, m)), i);
    j = dotPairs(e, lookup(table, v128.and(b, m)), j);
    e = v128.load32_splat(x + X16 + 4);
    k = dotPairs(e, lookup(table, bitsFrom(a, 4, m)), k);
    l = dotPairs(e, lookup(table, bitsFrom(b, 4, m)), l);
    a = v128.load(p, 64);
    b = v128.load(p, 80);
    e = v128.load32_splat(x + 8);
    i = dotPairs(e, lookup(table, v128.and(a, m)), i);
    j = dotPairs(e, lookup(table, v128.and(b, m)), j);
    e = v128.load32_splat(x + X16 + 8);
    k = dotPairs(e, lookup(table, bitsFrom(a, 4, m)), k);
    l = dotPairs(e, lookup(table, bitsFrom(b, 4, m)), l);
    a = v128.load(p, 96);
    b = v128.load(p, 112);
    e = v128.load32_splat(x + 12);
    i = dotPairs(e, lookup(table, v128.and(a, m)), i);
    j = dotPairs(e, lookup(table, v128.and(b, m)), j);
    e = v128.load32_splat(x + X16 + 12);
    k = dotPairs(e, lookup(table, bitsFrom(a, 4, m)), k);
    l = dotPairs(e, lookup(table, bitsFrom(b, 4, m)), l);
    const seed = v128.load32_splat(x + RUN + 4);
    i = joinPairs(k, joinPairs(i, seed, ones), ones);
    j = joinPairs(l, joinPairs(j, seed, ones), ones);
    v128.store(t, i);
    v128.store(t, j, 16);
    p += stride;
    t += 32;
  }
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
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const signs = pairs && hasLevels(type);
  const table = levelsOf(type, signs);
  const run = runOf(signs);
  const stride: usize = 2 * bytesOf(type);
  const block = run + BLOCK_SCALES;
  const last = px + <usize>nb * block;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last;) {
      const stop = min(x + RUNS * block, last);
      const p = w + 2 * codesAt(type);
      if (pairs && !signs) sumPairs(p, stride, x, stop, last, table);
      else sumRuns(false, signs, p, stride, x, stop, 0, last, table);
      for (let t = last; x < stop; x += block, t += 32, w += stride) {
        const dx = v128.load32_splat(x + run);
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
export function levelsSupers(pairs: bool, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const type = Type.IQ4_XS;
  const m = quadMask(X0F);
  const m30 = quadMask(X30);
  const m20 = quadMask(X20);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const table = levelsOf(type, pairs);
  const run = runOf(pairs);
  const last = px + <usize>nb * (8 * run + SUPER_SCALES);
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last; x += SUPER_SCALES, w += 2 * bytesOf(type)) {
      const stop = x + RUNS * run;
      const p = w + 2 * codesAt(type);
      sumRuns(true, pairs, p, 128, x, stop, stop + 4, last, table);
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
