// Rows of super-blocks in pairs of quads (quants/quads_256.ts) times one column of Q8_K activations.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/super.ts,
// and so are the columns, never split, but for their sums (quadSums).

import { Type } from "../abi";
import { sumsPairs } from "../math/dot";
import {
  EVEN,
  EVEN_NIBBLES,
  LIFT,
  LIFTED,
  LOW_NIBBLE,
  X03,
  X07,
  X0C,
  X38,
  X3F,
  quadMask,
} from "../quants/quad";
import { bytesOf, codesAt, hasMin, zeroOf } from "../quants/quad_types";
import { scalesQ3_K } from "../quants/quads_256";
import { isWide } from "../quants/super";
import {
  RUN,
  SUPER,
  X16,
  dotFour,
  highInPlace,
  lowByte,
  oddOf,
  runsOf,
  superTerm,
  topsOf,
  weighNibbles,
  weighSigned,
} from "./quad_runs";
import { levelStarts, levelsSupers } from "./quad_tables";
import { SUPER_SCALES } from "./super";
import { narrowPairs } from "./super_pairs";

/** `pairs` pairs of quads at pw times the column of `nb` super-blocks at px; results to f32 at py. */
export function dotSuperQuads(type: i32, pw: usize, pairs: i32, nb: i32, px: usize, py: usize): void {
  const end = py + ((<usize>pairs) << 5);
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
      return quadsIQ4_XS(pw, nb, px, py, end);
    default:
      unreachable();
  }
}

/**
 * Rewrites the sums of a column (matmul/super.ts) of `nb` super-blocks at px for quads: 16 i16 in the order 0 2 1 3 of
 * each four, where each scale or minimum serves 32 weights eight sums of 32 in that order; of IQ4_XS where its runs start.
 */
export function quadSums(type: i32, nb: i32, px: usize): void {
  const wide = isWide(type);
  for (let b = 0; b < nb; b++, px += SUPER) {
    if (type == Type.IQ4_XS) levelStarts(px);
    else reorder(px + 8 * RUN + 4, wide);
  }
}


@inline
function reorder(p: usize, wide: bool): void {
  let a = v128.load(p);
  let b = v128.load(p, 16);
  if (wide) {
    a = i16x8.narrow_i32x4_s(i32x4.extadd_pairwise_i16x8_s(a), i32x4.extadd_pairwise_i16x8_s(b));
    b = a;
  }
  v128.store(p, i8x16.shuffle(a, a, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  v128.store(p, i8x16.shuffle(b, b, 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15), 16);
}

function quadsQ4_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q4_K, false, true, w, nb, px, y, end);
    if (highInPlace()) return runsOf(Type.Q4_K, true, false, w, nb, px, y, end);
  }
  runsOf(Type.Q4_K, false, false, w, nb, px, y, end);
}

function quadsQ5_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q5_K, false, true, w, nb, px, y, end);
  }
  runsOf(Type.Q5_K, false, false, w, nb, px, y, end);
}

function quadsIQ4_XS(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return levelsSupers(true, w, nb, px, y, end);
  }
  levelsSupers(false, w, nb, px, y, end);
}

// Types with a scale for each 16 weights.
@inline
function narrowOf(type: i32, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m3f = quadMask(X3F);
  const m = type == Type.Q6_K ? m3f : quadMask(X07);
  const m38 = quadMask(X38);
  const low = quadMask(LOW_NIBBLE);
  const even = quadMask(EVEN);
  const nibbles = quadMask(EVEN_NIBBLES);
  const m03 = quadMask(X03);
  const m0c = quadMask(X0C);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const zero = i32x4.splat(0);
  const zeroBits = ctz(zeroOf(type)); // of the code of 0, a power of two
  const twoGroups = type != Type.Q6_K;
  const step: usize = type == Type.Q2_K ? 64 : 96;
  const last = px + <usize>nb * SUPER;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last; x += SUPER_SCALES, w += 2 * bytesOf(type)) {
      let s = x + 8 * RUN + 4;
      let accA = zero;
      let accB = zero;
      let upA = zero;
      let upB = zero;
      let sumsA = zero;
      let sumsB = zero;
      let g = w + 2 * codesAt(type);
      let ps = w;
      for (let n = 0; n < 4; n++, s += 8, ps += 32) {
        let scalesA: v128;
        let scalesB: v128;
        if (type == Type.Q3_K) {
          scalesA = scalesQ3_K(w, 0, n);
          scalesB = scalesQ3_K(w, 1, n);
        } else if (hasMin(type)) {
          scalesA = v128.load(ps, 32);
          scalesB = v128.load(ps, 48);
        } else {
          scalesA = v128.load(ps, 16);
          scalesB = v128.load(ps, 32);
        }
        const s0 = v128.load32_splat(s);
        const s1 = v128.load32_splat(s + 4);
        if (hasMin(type)) {
          sumsA = weighNibbles(scalesA, s0, s1, sumsA, nibbles);
          sumsB = weighNibbles(scalesB, s0, s1, sumsB, nibbles);
        } else {
          sumsA = weighSigned(scalesA, s0, s1, sumsA);
          sumsB = weighSigned(scalesB, s0, s1, sumsB);
        }
        // the scale of the current group is the lowest byte of each lane
        for (const next = x + 4 * X16; x < next; g += step) {
          const a = v128.load(g);
          const b = v128.load(g, 16);
          let e: v128;
          let o: v128;
          let i: v128;
          let j: v128;
          if (type == Type.Q2_K) {
            const c = v128.load(g, 32);
            const d = v128.load(g, 48);
            e = v128.load32_splat(x);
            o = oddOf(x);
            i = dotFour(e, o, v128.and(a, m03), zero, even);
            j = dotFour(e, o, v128.and(b, m03), zero, even);
            e = v128.load32_splat(x + 8);
            o = oddOf(x + 8);
            i = dotFour(e, o, v128.and(c, m03), i, even);
            j = dotFour(e, o, v128.and(d, m03), j, even);
            const f = i16x8.shr_u(a, 4);
            const h = i16x8.shr_u(b, 4);
            e = v128.load32_splat(x + 4);
            o = oddOf(x + 4);
            i = dotFour(e, o, v128.and(f, m03), i, even);
            j = dotFour(e, o, v128.and(h, m03), j, even);
            const q = i16x8.shr_u(c, 4);
            const r = i16x8.shr_u(d, 4);
            e = v128.load32_splat(x + 12);
            o = oddOf(x + 12);
            i = dotFour(e, o, v128.and(q, m03), i, even);
            j = dotFour(e, o, v128.and(r, m03), j, even);
            accA = i32x4.add(accA, i32x4.mul(i, v128.and(scalesA, low)));
            accB = i32x4.add(accB, i32x4.mul(j, v128.and(scalesB, low)));
            // four times the sums of the next group: its codes stay where they are
            x += X16;
            e = v128.load32_splat(x);
            o = oddOf(x);
            i = dotFour(e, o, v128.and(a, m0c), zero, even);
            j = dotFour(e, o, v128.and(b, m0c), zero, even);
            e = v128.load32_splat(x + 8);
            o = oddOf(x + 8);
            i = dotFour(e, o, v128.and(c, m0c), i, even);
            j = dotFour(e, o, v128.and(d, m0c), j, even);
            e = v128.load32_splat(x + 4);
            o = oddOf(x + 4);
            i = dotFour(e, o, v128.and(f, m0c), i, even);
            j = dotFour(e, o, v128.and(h, m0c), j, even);
            e = v128.load32_splat(x + 12);
            o = oddOf(x + 12);
            i = dotFour(e, o, v128.and(q, m0c), i, even);
            j = dotFour(e, o, v128.and(r, m0c), j, even);
            upA = i32x4.add(upA, i32x4.mul(i, v128.and(i32x4.shr_u(scalesA, 8), low)));
            upB = i32x4.add(upB, i32x4.mul(j, v128.and(i32x4.shr_u(scalesB, 8), low)));
          } else {
            const c = v128.load(g, 32);
            const d = v128.load(g, 48);
            const f = v128.load(g, 64);
            const h = v128.load(g, 80);
            const topA = topsOf(a, c, f, m3f);
            const topB = topsOf(b, d, h, m3f);
            e = v128.load32_splat(x);
            o = oddOf(x);
            i = dotFour(e, o, v128.and(a, m), zero, even);
            j = dotFour(e, o, v128.and(b, m), zero, even);
            e = v128.load32_splat(x + 4);
            o = oddOf(x + 4);
            i = dotFour(e, o, v128.and(c, m), i, even);
            j = dotFour(e, o, v128.and(d, m), j, even);
            e = v128.load32_splat(x + 8);
            o = oddOf(x + 8);
            i = dotFour(e, o, v128.and(f, m), i, even);
            j = dotFour(e, o, v128.and(h, m), j, even);
            const lowA = type == Type.Q3_K ? v128.and(topA, m) : topA;
            const lowB = type == Type.Q3_K ? v128.and(topB, m) : topB;
            e = v128.load32_splat(x + 12);
            o = oddOf(x + 12);
            i = dotFour(e, o, lowA, i, even);
            j = dotFour(e, o, lowB, j, even);
            accA = i32x4.add(accA, i32x4.mul(i, lowByte(scalesA)));
            accB = i32x4.add(accB, i32x4.mul(j, lowByte(scalesB)));
            if (type == Type.Q3_K) {
              // eight times the sums of the next group: its codes stay where they are
              x += X16;
              e = v128.load32_splat(x);
              o = oddOf(x);
              i = dotFour(e, o, v128.and(a, m38), zero, even);
              j = dotFour(e, o, v128.and(b, m38), zero, even);
              e = v128.load32_splat(x + 4);
              o = oddOf(x + 4);
              i = dotFour(e, o, v128.and(c, m38), i, even);
              j = dotFour(e, o, v128.and(d, m38), j, even);
              e = v128.load32_splat(x + 8);
              o = oddOf(x + 8);
              i = dotFour(e, o, v128.and(f, m38), i, even);
              j = dotFour(e, o, v128.and(h, m38), j, even);
              e = v128.load32_splat(x + 12);
              o = oddOf(x + 12);
              i = dotFour(e, o, v128.and(topA, m38), i, even);
              j = dotFour(e, o, v128.and(topB, m38), j, even);
              upA = i32x4.add(upA, i32x4.mul(i, i32x4.shr_s(i32x4.shl(scalesA, 16), 24)));
              upB = i32x4.add(upB, i32x4.mul(j, i32x4.shr_s(i32x4.shl(scalesB, 16), 24)));
            }
          }
          scalesA = i32x4.shr_u(scalesA, twoGroups ? 16 : 8);
          scalesB = i32x4.shr_u(scalesB, twoGroups ? 16 : 8);
          x += X16;
        }
      }
      if (twoGroups) {
        accA = i32x4.add(accA, i32x4.shr_s(upA, type == Type.Q3_K ? 3 : 2));
        accB = i32x4.add(accB, i32x4.shr_s(upB, type == Type.Q3_K ? 3 : 2));
      }
      const dx = v128.load32_splat(x);
      sumA = f32x4.add(sumA, superTerm(type, false, accA, sumsA, zeroBits, w, dx, lifted, lift));
      sumB = f32x4.add(sumB, superTerm(type, true, accB, sumsB, zeroBits, w, dx, lifted, lift));
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}

function quadsQ2_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return narrowPairs(Type.Q2_K, w, nb, px, y, end);
  }
  narrowOf(Type.Q2_K, w, nb, px, y, end);
}

function quadsQ3_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return narrowPairs(Type.Q3_K, w, nb, px, y, end);
  }
  narrowOf(Type.Q3_K, w, nb, px, y, end);
}

function quadsQ6_K(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return narrowPairs(Type.Q6_K, w, nb, px, y, end);
  }
  narrowOf(Type.Q6_K, w, nb, px, y, end);
}
