// Pairs of quads whose scales serve 32 weights, which is a block or an eighth of a super-block, times one column: one loop
// for blocks (matmul/quads.ts) and super-blocks (matmul/super_quads.ts).
//
// Every pair of lines is the same thing for the one quad and for the other, and both take the same broadcasts: so it is
// that V8 packs them (docs/decisions/0026-quads-in-pairs.md). Functions give one vector, hence the length of the loop.

import { WIDE_UNSIGNED, dotPairs, dotq, onesPairs, productPairs, wideDot } from "../math/dot";
import {
  EVEN,
  EVEN_NIBBLES,
  LIFT,
  LIFTED,
  LOW,
  X07,
  X08,
  X0F,
  X10,
  X18,
  X1F,
  X3F,
  bitsFrom,
  lowered,
  quadMask,
} from "../quants/quad";
import { FIVES } from "../quants/quad_codes";
import { bytesOf, codesAt, formOf, hasMin, isSuper } from "../quants/quad_types";
import { BLOCK_SCALES } from "./columns";
import { SUPER_SCALES } from "./super";

/** Bytes of 16 activations of a column. */
export const X16: usize = ASC_FEATURE_RELAXED_SIMD ? 16 : 32;

/** Bytes of the 32 that one scale serves. */
export const RUN: usize = 2 * X16;

/** Bytes of a block of a column, and of a super-block. */
export const BLOCK: usize = RUN + BLOCK_SCALES;
export const SUPER: usize = 8 * RUN + SUPER_SCALES;

/** True when the engine's dot takes any byte as unsigned, as high nibbles in their places are. */
@inline
export function highInPlace(): bool {
  return wideDot() == WIDE_UNSIGNED;
}

/** Of four activations at x the odd ones, where they stand apart: in the baseline build. */
@inline
export function oddOf(x: usize): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.splat(0);
  else return v128.load32_splat(x, 16);
}

/** acc += codes of four rows (0..127) times four activations; of the baseline build `e` holds the even ones, `o` the odd. */
@inline
export function dotFour(e: v128, o: v128, q: v128, acc: v128, even: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(e, q, acc);
  else return dotq(o, i16x8.shr_u(q, 8), dotq(e, v128.and(q, even), acc));
}

// High nibbles of four rows, or 16 times them in their places, times four activations; `nibbles`: those of even bytes.
@inline
function dotHigh(e: v128, o: v128, v: v128, acc: v128, m: v128, nibbles: v128, inPlace: bool): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(e, inPlace ? v128.andnot(v, m) : bitsFrom(v, 4, m), acc);
  else return dotq(o, i16x8.shr_u(v, 12), dotq(e, bitsFrom(v, 4, nibbles), acc));
}

// The same two in pairs or not, and the first ones of a sum, which in pairs needs no acc.
@inline
function nextFour(pairs: bool, e: v128, o: v128, q: v128, acc: v128, even: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD && pairs) return dotPairs(e, q, acc);
  else return dotFour(e, o, q, acc, even);
}


@inline
function firstFour(pairs: bool, e: v128, o: v128, q: v128, acc: v128, even: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD && pairs) return productPairs(e, q);
  else return dotFour(e, o, q, acc, even);
}


@inline
function nextHigh(
  pairs: bool,
  e: v128,
  o: v128,
  v: v128,
  acc: v128,
  m: v128,
  nibbles: v128,
  inPlace: bool,
): v128 {
  if (ASC_FEATURE_RELAXED_SIMD && pairs) return dotPairs(e, bitsFrom(v, 4, m), acc);
  else return dotHigh(e, o, v, acc, m, nibbles, inPlace);
}


@inline
function firstHigh(
  pairs: bool,
  e: v128,
  o: v128,
  v: v128,
  acc: v128,
  m: v128,
  nibbles: v128,
  inPlace: bool,
): v128 {
  if (ASC_FEATURE_RELAXED_SIMD && pairs) return productPairs(e, bitsFrom(v, 4, m));
  else return dotHigh(e, o, v, acc, m, nibbles, inPlace);
}

/** One term of four rows: integer sums times the scales, times that of the activations. */
@inline
export function term(i: v128, scales: v128, d: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(scales, d));
}

/**
 * Term of a super-block for the first or the second quad of a pair at w: the sum of its codes, less the zero point times the
 * sum of activations (a shift by `zeroBits`), or less the term of its minima.
 */
@inline
export function superTerm(
  type: i32,
  second: bool,
  acc: v128,
  sums: v128,
  zeroBits: i32,
  w: usize,
  dx: v128,
  lifted: v128,
  lift: v128,
): v128 {
  const d = second ? v128.load16x4_s(w, 8) : v128.load16x4_s(w);
  if (!hasMin(type)) return term(i32x4.sub(acc, i32x4.shl(sums, zeroBits)), lowered(d, lifted, lift), dx);
  const min = second ? v128.load16x4_s(w, 24) : v128.load16x4_s(w, 16);
  return f32x4.sub(term(acc, lowered(d, lifted, lift), dx), term(sums, lowered(min, lifted, lift), dx));
}

/** Bytes of four rows (of one sign, below 128) times four sums: 0 and 2 in each lane of s, 1 and 3 in each of t. */
@inline
export function weigh(v: v128, s: v128, t: v128, acc: v128, even: v128): v128 {
  acc = i32x4.add(acc, i32x4.dot_i16x8_s(v128.and(v, even), s));
  return i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_u(v, 8), t));
}

/** The same with signed bytes. */
@inline
export function weighSigned(v: v128, s: v128, t: v128, acc: v128): v128 {
  acc = i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_s(i16x8.shl(v, 8), 8), s));
  return i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_s(v, 8), t));
}

/** The same with four bits in the high nibbles; `nibbles`: those of even bytes. */
@inline
export function weighNibbles(v: v128, s: v128, t: v128, acc: v128, nibbles: v128): v128 {
  acc = i32x4.add(acc, i32x4.dot_i16x8_s(bitsFrom(v, 4, nibbles), s));
  return i32x4.add(acc, i32x4.dot_i16x8_s(i16x8.shr_u(v, 12), t));
}

/** The lowest byte of each lane, sign-extended. */
@inline
export function lowByte(v: v128): v128 {
  return i32x4.shr_s(i32x4.shl(v, 24), 24);
}

/** Six-bit values of four rows from pairs of bits on top of three vectors, above the bits of `m3f`. */
@inline
export function topsOf(a: v128, b: v128, c: v128, m3f: v128): v128 {
  let v = v128.or(i16x8.shr_u(v128.andnot(a, m3f), 2), v128.andnot(b, m3f));
  v = v128.or(i16x8.shr_u(v, 2), v128.andnot(c, m3f));
  return i16x8.shr_u(v, 2);
}

/**
 * Any type but Q8_0, those with a table (matmul/quad_tables.ts) and those with scales for each 16; results to f32 from y to
 * `end`. `inPlace`, where highInPlace(): high nibbles are not moved but their sum is. `pairs`, where sumsPairs() (math/dot.ts):
 * pairs of products are summed in i16, which has room for eight dots with nibbles and for four with five bits.
 */
@inline
export function runsOf(
  type: i32,
  inPlace: bool,
  pairs: bool,
  w: usize,
  nb: i32,
  px: usize,
  y: usize,
  end: usize,
): void {
  const five = formOf(type) == FIVES;
  const supers = isSuper(type);
  const m = quadMask(five ? X1F : X0F);
  const m07 = five ? quadMask(X07) : m;
  const m18 = five ? quadMask(X18) : m;
  const m08 = five ? quadMask(X08) : m;
  const m10 = five ? quadMask(X10) : m;
  const even = quadMask(EVEN);
  const nibbles = ASC_FEATURE_RELAXED_SIMD ? m : quadMask(EVEN_NIBBLES);
  const low = quadMask(LOW);
  const m3f = quadMask(X3F);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const zero = i32x4.splat(0);
  const ones = ASC_FEATURE_RELAXED_SIMD && pairs ? onesPairs() : zero;
  const last = px + <usize>nb * (supers ? SUPER : BLOCK);
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last;) {
      let accA = zero;
      let accB = zero;
      let i = zero;
      let j = zero;
      let p = w + 2 * codesAt(type);
      const next = w + 2 * bytesOf(type);
      let ps = w;
      do {
        let scalesA = zero;
        let scalesB = zero;
        if (supers) {
          scalesA = v128.and(v128.load(ps, 32), m3f);
          scalesB = v128.and(v128.load(ps, 48), m3f);
        }
        const stop = supers ? p + 8 * (five ? 80 : 64) : 0;
        // one run after the other; the scale of the current one is the lowest byte of each lane
        do {
          i = pairs || supers || hasMin(type) ? zero : v128.load32_splat(x + RUN + 4);
          j = i;
          let k = zero;
          let l = zero;
          let a: v128;
          let b: v128;
          let e: v128;
          let o: v128;
          if (five) {
            let c: v128;
            let d: v128;
            a = v128.load(p);
            b = v128.load(p, 16);
            e = v128.load32_splat(x);
            o = oddOf(x);
            i = firstFour(pairs, e, o, v128.and(a, m), i, even);
            j = firstFour(pairs, e, o, v128.and(b, m), j, even);
            c = v128.load(p, 32);
            d = v128.load(p, 48);
            e = v128.load32_splat(x + 4);
            o = oddOf(x + 4);
            k = firstFour(pairs, e, o, v128.and(c, m), k, even);
            l = firstFour(pairs, e, o, v128.and(d, m), l, even);
            e = v128.load32_splat(x + X16 + 4);
            o = oddOf(x + X16 + 4);
            i = nextFour(pairs, e, o, v128.or(bitsFrom(a, 5, m07), bitsFrom(c, 3, m18)), i, even);
            j = nextFour(pairs, e, o, v128.or(bitsFrom(b, 5, m07), bitsFrom(d, 3, m18)), j, even);
            let topA = bitsFrom(c, 2, m08);
            let topB = bitsFrom(d, 2, m08);
            a = v128.load(p, 64);
            b = v128.load(p, 80);
            e = v128.load32_splat(x + 8);
            o = oddOf(x + 8);
            k = nextFour(pairs, e, o, v128.and(a, m), k, even);
            l = nextFour(pairs, e, o, v128.and(b, m), l, even);
            c = v128.load(p, 96);
            d = v128.load(p, 112);
            e = v128.load32_splat(x + 12);
            o = oddOf(x + 12);
            i = nextFour(pairs, e, o, v128.and(c, m), i, even);
            j = nextFour(pairs, e, o, v128.and(d, m), j, even);
            e = v128.load32_splat(x + X16 + 8);
            o = oddOf(x + X16 + 8);
            k = nextFour(pairs, e, o, v128.or(bitsFrom(a, 5, m07), bitsFrom(c, 3, m18)), k, even);
            l = nextFour(pairs, e, o, v128.or(bitsFrom(b, 5, m07), bitsFrom(d, 3, m18)), l, even);
            topA = v128.or(topA, bitsFrom(c, 1, m10));
            topB = v128.or(topB, bitsFrom(d, 1, m10));
            a = v128.load(p, 128);
            b = v128.load(p, 144);
            e = v128.load32_splat(x + X16);
            o = oddOf(x + X16);
            i = nextFour(pairs, e, o, v128.and(a, m), i, even);
            j = nextFour(pairs, e, o, v128.and(b, m), j, even);
            e = v128.load32_splat(x + X16 + 12);
            o = oddOf(x + X16 + 12);
            k = nextFour(pairs, e, o, v128.or(bitsFrom(a, 5, m07), topA), k, even);
            l = nextFour(pairs, e, o, v128.or(bitsFrom(b, 5, m07), topB), l, even);
          } else {
            a = v128.load(p);
            b = v128.load(p, 16);
            e = v128.load32_splat(x);
            o = oddOf(x);
            i = firstFour(pairs, e, o, v128.and(a, m), i, even);
            j = firstFour(pairs, e, o, v128.and(b, m), j, even);
            e = v128.load32_splat(x + X16);
            o = oddOf(x + X16);
            k = firstHigh(pairs, e, o, a, k, m, nibbles, inPlace);
            l = firstHigh(pairs, e, o, b, l, m, nibbles, inPlace);
            a = v128.load(p, 32);
            b = v128.load(p, 48);
            e = v128.load32_splat(x + 4);
            o = oddOf(x + 4);
            i = nextFour(pairs, e, o, v128.and(a, m), i, even);
            j = nextFour(pairs, e, o, v128.and(b, m), j, even);
            e = v128.load32_splat(x + X16 + 4);
            o = oddOf(x + X16 + 4);
            k = nextHigh(pairs, e, o, a, k, m, nibbles, inPlace);
            l = nextHigh(pairs, e, o, b, l, m, nibbles, inPlace);
            a = v128.load(p, 64);
            b = v128.load(p, 80);
            e = v128.load32_splat(x + 8);
            o = oddOf(x + 8);
            i = nextFour(pairs, e, o, v128.and(a, m), i, even);
            j = nextFour(pairs, e, o, v128.and(b, m), j, even);
            e = v128.load32_splat(x + X16 + 8);
            o = oddOf(x + X16 + 8);
            k = nextHigh(pairs, e, o, a, k, m, nibbles, inPlace);
            l = nextHigh(pairs, e, o, b, l, m, nibbles, inPlace);
            a = v128.load(p, 96);
            b = v128.load(p, 112);
            e = v128.load32_splat(x + 12);
            o = oddOf(x + 12);
            i = nextFour(pairs, e, o, v128.and(a, m), i, even);
            j = nextFour(pairs, e, o, v128.and(b, m), j, even);
            e = v128.load32_splat(x + X16 + 12);
            o = oddOf(x + X16 + 12);
            k = nextHigh(pairs, e, o, a, k, m, nibbles, inPlace);
            l = nextHigh(pairs, e, o, b, l, m, nibbles, inPlace);
          }
          if (ASC_FEATURE_RELAXED_SIMD && pairs) {
            i = five
              ? i32x4.add(i32x4.dot_i16x8_s(i, ones), i32x4.dot_i16x8_s(k, ones))
              : i32x4.dot_i16x8_s(i16x8.add(i, k), ones);
            j = five
              ? i32x4.add(i32x4.dot_i16x8_s(j, ones), i32x4.dot_i16x8_s(l, ones))
              : i32x4.dot_i16x8_s(i16x8.add(j, l), ones);
            if (!supers && !hasMin(type)) {
              const seed = v128.load32_splat(x + RUN + 4);
              i = i32x4.add(i, seed);
              j = i32x4.add(j, seed);
            }
          } else {
            i = i32x4.add(i, inPlace ? i32x4.shr_s(k, 4) : k);
            j = i32x4.add(j, inPlace ? i32x4.shr_s(l, 4) : l);
          }
          x += RUN;
          if (supers) {
            accA = i32x4.add(accA, i32x4.mul(i, v128.and(scalesA, low)));
            accB = i32x4.add(accB, i32x4.mul(j, v128.and(scalesB, low)));
            scalesA = i32x4.shr_u(scalesA, 8);
            scalesB = i32x4.shr_u(scalesB, 8);
            p += 2 * (five ? 80 : 64);
          }
        } while (supers && p < stop);
        ps += 32;
      } while (supers && p < next);
      if (supers) {
        i = accA;
        j = accB;
      }
      const dx = v128.load32_splat(x);
      let vA = term(i, lowered(v128.load16x4_s(w), lifted, lift), dx);
      let vB = term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx);
      if (hasMin(type)) {
        if (supers) {
          let s0 = v128.load32_splat(x + 4);
          let s1 = v128.load32_splat(x + 8);
          const cA = v128.load(w, 96);
          const cB = v128.load(w, 112);
          i = weigh(v128.and(cA, m3f), s0, s1, zero, even);
          j = weigh(v128.and(cB, m3f), s0, s1, zero, even);
          s0 = v128.load32_splat(x + 12);
          s1 = v128.load32_splat(x + 16);
          i = weigh(topsOf(v128.load(w, 32), v128.load(w, 64), cA, m3f), s0, s1, i, even);
          j = weigh(topsOf(v128.load(w, 48), v128.load(w, 80), cB, m3f), s0, s1, j, even);
          vA = f32x4.sub(vA, term(i, lowered(v128.load16x4_s(w, 16), lifted, lift), dx));
          vB = f32x4.sub(vB, term(j, lowered(v128.load16x4_s(w, 24), lifted, lift), dx));
        } else {
          const sums = v128.load32_splat(x + 4);
          vA = f32x4.add(vA, f32x4.mul(lowered(v128.load16x4_s(w, 16), lifted, lift), sums));
          vB = f32x4.add(vB, f32x4.mul(lowered(v128.load16x4_s(w, 24), lifted, lift), sums));
        }
      }
      sumA = f32x4.add(sumA, vA);
      sumB = f32x4.add(sumB, vB);
      x += supers ? SUPER_SCALES : BLOCK_SCALES;
      w = next;
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}
