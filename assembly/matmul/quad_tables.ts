// Pairs of quads whose codes stand for levels of a table, which are IQ4_NL, MXFP4 and IQ4_XS, times one column: one loop for
// blocks (matmul/quads.ts) and super-blocks (matmul/super_quads.ts).
//
// Engines pack no look-ups into 256 bits (docs/decisions/0026-quads-in-pairs.md), so what counts is the number of operations:
// sums start at what is to be taken off for the zero point, and run through one chain of dots each.

import { Type } from "../abi";
import { WIDE_NONE, lookup, wideDot } from "../math/dot";
import { EVEN, LIFT, LIFTED, X0F, X20, X30, bitsFrom, lowered, powersOf, quadMask } from "../quants/quad";
import { bytesOf, codesAt, hasLevels, isSuper, levelZero, tableOf } from "../quants/quad_types";
import { topsIQ4_XS } from "../quants/quads_256";
import { BLOCK_SCALES } from "./columns";
import { BLOCK, RUN, SUPER, X16, dotFour, oddOf, term } from "./quad_runs";
import { SUPER_SCALES } from "./super";

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
  acc = dotFour(e, o, lookup(table, q), acc, even);
  return parts ? dotFour(e, o, lookup(rest, q), acc, even) : acc;
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

/** Results to f32 from y to `end`. `parts`: the table of levels holds at most 127, the rest another. */
@inline
export function levelsRuns(type: i32, parts: bool, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const supers = isSuper(type);
  const m = quadMask(X0F);
  const m30 = quadMask(X30);
  const m20 = quadMask(X20);
  const even = quadMask(EVEN);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const all = levelsOf(type);
  const table = parts ? i8x16.min_u(all, i8x16.splat(127)) : all;
  const rest = parts ? i8x16.sub(all, table) : m;
  const zero = i32x4.splat(0);
  const last = px + <usize>nb * (supers ? SUPER : BLOCK);
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last;) {
      let s = x + (supers ? 8 * RUN : RUN) + 4;
      let accA = zero;
      let accB = zero;
      let i = zero;
      let j = zero;
      let p = w + 2 * codesAt(type);
      const next = w + 2 * bytesOf(type);
      let lowA = zero;
      let lowB = zero;
      let topA = zero;
      let topB = zero;
      if (supers) {
        lowA = v128.load(w, 32);
        lowB = v128.load(w, 48);
        topA = topsIQ4_XS(w, 0);
        topB = topsIQ4_XS(w, 1);
      }
      do {
        let scalesA = zero;
        let scalesB = zero;
        if (supers) {
          scalesA = i8x16.sub(v128.or(v128.and(lowA, m), v128.and(topA, m30)), m20);
          scalesB = i8x16.sub(v128.or(v128.and(lowB, m), v128.and(topB, m30)), m20);
          lowA = i16x8.shr_u(lowA, 4);
          lowB = i16x8.shr_u(lowB, 4);
          topA = i32x4.shl(topA, 4);
          topB = i32x4.shl(topB, 4);
        }
        const stop = supers ? p + 8 * 64 : 0;
        // one run after the other; the scale of the current one is the highest byte of each lane
        do {
          let a: v128;
          let b: v128;
          let e: v128;
          let o: v128;
          i = v128.load32_splat(s);
          j = i;
          a = v128.load(p);
          b = v128.load(p, 16);
          e = v128.load32_splat(x);
          o = oddOf(x);
          i = dotLevels(parts, e, o, v128.and(a, m), i, even, table, rest);
          j = dotLevels(parts, e, o, v128.and(b, m), j, even, table, rest);
          e = v128.load32_splat(x + X16);
          o = oddOf(x + X16);
          i = dotLevels(parts, e, o, bitsFrom(a, 4, m), i, even, table, rest);
          j = dotLevels(parts, e, o, bitsFrom(b, 4, m), j, even, table, rest);
          a = v128.load(p, 32);
          b = v128.load(p, 48);
          e = v128.load32_splat(x + 4);
          o = oddOf(x + 4);
          i = dotLevels(parts, e, o, v128.and(a, m), i, even, table, rest);
          j = dotLevels(parts, e, o, v128.and(b, m), j, even, table, rest);
          e = v128.load32_splat(x + X16 + 4);
          o = oddOf(x + X16 + 4);
          i = dotLevels(parts, e, o, bitsFrom(a, 4, m), i, even, table, rest);
          j = dotLevels(parts, e, o, bitsFrom(b, 4, m), j, even, table, rest);
          a = v128.load(p, 64);
          b = v128.load(p, 80);
          e = v128.load32_splat(x + 8);
          o = oddOf(x + 8);
          i = dotLevels(parts, e, o, v128.and(a, m), i, even, table, rest);
          j = dotLevels(parts, e, o, v128.and(b, m), j, even, table, rest);
          e = v128.load32_splat(x + X16 + 8);
          o = oddOf(x + X16 + 8);
          i = dotLevels(parts, e, o, bitsFrom(a, 4, m), i, even, table, rest);
          j = dotLevels(parts, e, o, bitsFrom(b, 4, m), j, even, table, rest);
          a = v128.load(p, 96);
          b = v128.load(p, 112);
          e = v128.load32_splat(x + 12);
          o = oddOf(x + 12);
          i = dotLevels(parts, e, o, v128.and(a, m), i, even, table, rest);
          j = dotLevels(parts, e, o, v128.and(b, m), j, even, table, rest);
          e = v128.load32_splat(x + X16 + 12);
          o = oddOf(x + X16 + 12);
          i = dotLevels(parts, e, o, bitsFrom(a, 4, m), i, even, table, rest);
          j = dotLevels(parts, e, o, bitsFrom(b, 4, m), j, even, table, rest);
          x += RUN;
          if (supers) {
            s += 4;
            accA = i32x4.add(accA, i32x4.mul(i, i32x4.shr_s(scalesA, 24)));
            accB = i32x4.add(accB, i32x4.mul(j, i32x4.shr_s(scalesB, 24)));
            scalesA = i32x4.shl(scalesA, 8);
            scalesB = i32x4.shl(scalesB, 8);
            p += 128;
          }
        } while (supers && p < stop);
      } while (supers && p < next);
      const dx = v128.load32_splat(x);
      if (supers) {
        i = accA;
        j = accB;
      }
      x += supers ? SUPER_SCALES : BLOCK_SCALES;
      if (type == Type.MXFP4) {
        const both = v128.load8x8_u(w);
        sumA = f32x4.add(sumA, term(i, powersOf(i32x4.extend_low_i16x8_u(both)), dx));
        sumB = f32x4.add(sumB, term(j, powersOf(i32x4.extend_high_i16x8_u(both)), dx));
      } else {
        sumA = f32x4.add(sumA, term(i, lowered(v128.load16x4_s(w), lifted, lift), dx));
        sumB = f32x4.add(sumB, term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
      }
      w = next;
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}
