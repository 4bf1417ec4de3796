// Types with a scale for each 16 weights in pairs of quads times one column, where sumsPairs() (math/dot.ts): what narrowOf()
// does (matmul/super_quads.ts), line by line for both quads too, with pairs of products summed in i16.
//
// Of two groups whose codes share bytes the upper one stays in its place: its sums are 4 or 8 times too large, and those of
// the other one are made so when their pairs are joined. Codes beyond 31 leave i16 room for two of four dots: two sums.

import { Type } from "../abi";
import { dotPairs, joinPairs, onesPairs, productPairs } from "../math/dot";
import {
  EVEN_NIBBLES,
  LIFT,
  LIFTED,
  LOW_NIBBLE,
  X03,
  X07,
  X0C,
  X0F,
  X20,
  X30,
  X38,
  X3F,
  quadMask,
} from "../quants/quad";
import { bytesOf, codesAt, hasMin, zeroOf } from "../quants/quad_types";
import { RUN, SUPER, X16, lowByte, superTerm, topsOf, weighNibbles, weighSigned } from "./quad_runs";
import { SUPER_SCALES } from "./super";

// Scales of Q3_K as signed bytes: the low nibbles of `low`, and above them the lowest bits of `high`.
@inline
function sixes(low: v128, high: v128, m0f: v128, m30: v128, m20: v128): v128 {
  return i8x16.sub(v128.or(v128.and(low, m0f), v128.and(i16x8.shl(high, 4), m30)), m20);
}

/** Q2_K, Q3_K or Q6_K; results to f32 from y to `end`. Relaxed build only. */
@inline
export function narrowPairs(type: i32, w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const m3f = quadMask(X3F);
  const m = type == Type.Q6_K ? m3f : quadMask(type == Type.Q3_K ? X07 : X03);
  const upper = quadMask(type == Type.Q3_K ? X38 : X0C);
  const ones = onesPairs();
  const factor = i16x8.shl(ones, type == Type.Q3_K ? 3 : 2);
  const low = quadMask(LOW_NIBBLE);
  const nibbles = quadMask(EVEN_NIBBLES);
  const m30 = quadMask(X30);
  const m0f = quadMask(X0F);
  const m20 = quadMask(X20);
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const zero = i32x4.splat(0);
  const zeroBits = ctz(zeroOf(type)); // of the code of 0, a power of two
  const last = px + <usize>nb * SUPER;
  for (; y < end; y += 32) {
    let sumA = f32x4.splat(0);
    let sumB = sumA;
    for (let x = px; x < last; x += SUPER_SCALES, w += 2 * bytesOf(type)) {
      let s = x + 8 * RUN + 4;
      let accA = zero;
      let accB = zero;
      let sumsA = zero;
      let sumsB = zero;
      let g = w + 2 * codesAt(type);
      let ps = w;
      let lowA = zero;
      let lowB = zero;
      let nextA = zero;
      let nextB = zero;
      let highA = zero;
      let highB = zero;
      if (type == Type.Q3_K) {
        lowA = v128.load(w, 16);
        lowB = v128.load(w, 32);
        nextA = v128.load(w, 48);
        nextB = v128.load(w, 64);
        highA = v128.load(w, 80);
        highB = v128.load(w, 96);
      }
      const stop = w + 128;
      do {
        let scalesA: v128;
        let scalesB: v128;
        if (type == Type.Q3_K) {
          scalesA = sixes(lowA, highA, m0f, m30, m20);
          scalesB = sixes(lowB, highB, m0f, m30, m20);
          const restA = i16x8.shr_u(lowA, 4);
          const restB = i16x8.shr_u(lowB, 4);
          lowA = nextA;
          lowB = nextB;
          nextA = restA;
          nextB = restB;
          highA = i16x8.shr_u(highA, 2);
          highB = i16x8.shr_u(highB, 2);
        } else if (hasMin(type)) {
          scalesA = v128.load(ps, 32);
          scalesB = v128.load(ps, 48);
        } else {
          scalesA = v128.load(ps, 16);
          scalesB = v128.load(ps, 32);
        }
        const s0 = v128.load32_splat(s);
        const s1 = v128.load32_splat(s, 4);
        if (hasMin(type)) {
          sumsA = weighNibbles(scalesA, s0, s1, sumsA, nibbles);
          sumsB = weighNibbles(scalesB, s0, s1, sumsB, nibbles);
        } else {
          sumsA = weighSigned(scalesA, s0, s1, sumsA);
          sumsB = weighSigned(scalesB, s0, s1, sumsB);
        }
        // the scale of the current group is the lowest byte of each lane
        const next = x + 4 * X16;
        do {
          let e: v128;
          let i: v128;
          let j: v128;
          let k: v128;
          let l: v128;
          // the same offsets from x and z: V8 computes each of them once
          const z = x + X16;
          let a = v128.load(g);
          let b = v128.load(g, 16);
          if (type == Type.Q2_K) {
            e = v128.load32_splat(x);
            i = productPairs(e, v128.and(a, m));
            j = productPairs(e, v128.and(b, m));
            e = v128.load32_splat(z);
            k = productPairs(e, v128.and(a, upper));
            l = productPairs(e, v128.and(b, upper));
            a = i16x8.shr_u(a, 4);
            b = i16x8.shr_u(b, 4);
            e = v128.load32_splat(x, 4);
            i = dotPairs(e, v128.and(a, m), i);
            j = dotPairs(e, v128.and(b, m), j);
            e = v128.load32_splat(z, 4);
            k = dotPairs(e, v128.and(a, upper), k);
            l = dotPairs(e, v128.and(b, upper), l);
            a = v128.load(g, 32);
            b = v128.load(g, 48);
            e = v128.load32_splat(x, 8);
            i = dotPairs(e, v128.and(a, m), i);
            j = dotPairs(e, v128.and(b, m), j);
            e = v128.load32_splat(z, 8);
            k = dotPairs(e, v128.and(a, upper), k);
            l = dotPairs(e, v128.and(b, upper), l);
            a = i16x8.shr_u(a, 4);
            b = i16x8.shr_u(b, 4);
            e = v128.load32_splat(x, 12);
            i = dotPairs(e, v128.and(a, m), i);
            j = dotPairs(e, v128.and(b, m), j);
            e = v128.load32_splat(z, 12);
            k = dotPairs(e, v128.and(a, upper), k);
            l = dotPairs(e, v128.and(b, upper), l);
            i = i32x4.mul(i32x4.dot_i16x8_s(i, factor), v128.and(scalesA, low));
            j = i32x4.mul(i32x4.dot_i16x8_s(j, factor), v128.and(scalesB, low));
            k = i32x4.mul(i32x4.dot_i16x8_s(k, ones), v128.and(i32x4.shr_u(scalesA, 8), low));
            l = i32x4.mul(i32x4.dot_i16x8_s(l, ones), v128.and(i32x4.shr_u(scalesB, 8), low));
            accA = i32x4.add(accA, i32x4.add(i, k));
            accB = i32x4.add(accB, i32x4.add(j, l));
            scalesA = i32x4.shr_u(scalesA, 16);
            scalesB = i32x4.shr_u(scalesB, 16);
            x += 2 * X16;
            g += 64;
          } else {
            const c = v128.load(g, 32);
            const d = v128.load(g, 48);
            const f = v128.load(g, 64);
            const h = v128.load(g, 80);
            const topA = topsOf(a, c, f, m3f);
            const topB = topsOf(b, d, h, m3f);
            e = v128.load32_splat(x);
            i = productPairs(e, v128.and(a, m));
            j = productPairs(e, v128.and(b, m));
            e = v128.load32_splat(x, 4);
            i = dotPairs(e, v128.and(c, m), i);
            j = dotPairs(e, v128.and(d, m), j);
            if (type == Type.Q6_K) {
              e = v128.load32_splat(x, 8);
              k = productPairs(e, v128.and(f, m));
              l = productPairs(e, v128.and(h, m));
              e = v128.load32_splat(x, 12);
              k = dotPairs(e, topA, k);
              l = dotPairs(e, topB, l);
              i = joinPairs(k, i32x4.dot_i16x8_s(i, ones), ones);
              j = joinPairs(l, i32x4.dot_i16x8_s(j, ones), ones);
              accA = i32x4.add(accA, i32x4.mul(i, lowByte(scalesA)));
              accB = i32x4.add(accB, i32x4.mul(j, lowByte(scalesB)));
              scalesA = i32x4.shr_u(scalesA, 8);
              scalesB = i32x4.shr_u(scalesB, 8);
              x += X16;
            } else {
              e = v128.load32_splat(x, 8);
              i = dotPairs(e, v128.and(f, m), i);
              j = dotPairs(e, v128.and(h, m), j);
              e = v128.load32_splat(x, 12);
              i = dotPairs(e, v128.and(topA, m), i);
              j = dotPairs(e, v128.and(topB, m), j);
              i = i32x4.mul(i32x4.dot_i16x8_s(i, factor), lowByte(scalesA));
              j = i32x4.mul(i32x4.dot_i16x8_s(j, factor), lowByte(scalesB));
              accA = i32x4.add(accA, i);
              accB = i32x4.add(accB, j);
              e = v128.load32_splat(z);
              i = productPairs(e, v128.and(a, upper));
              j = productPairs(e, v128.and(b, upper));
              e = v128.load32_splat(z, 4);
              i = dotPairs(e, v128.and(c, upper), i);
              j = dotPairs(e, v128.and(d, upper), j);
              e = v128.load32_splat(z, 8);
              k = productPairs(e, v128.and(f, upper));
              l = productPairs(e, v128.and(h, upper));
              e = v128.load32_splat(z, 12);
              k = dotPairs(e, v128.and(topA, upper), k);
              l = dotPairs(e, v128.and(topB, upper), l);
              i = joinPairs(k, i32x4.dot_i16x8_s(i, ones), ones);
              j = joinPairs(l, i32x4.dot_i16x8_s(j, ones), ones);
              accA = i32x4.add(accA, i32x4.mul(i, i32x4.shr_s(i32x4.shl(scalesA, 16), 24)));
              accB = i32x4.add(accB, i32x4.mul(j, i32x4.shr_s(i32x4.shl(scalesB, 16), 24)));
              scalesA = i32x4.shr_u(scalesA, 16);
              scalesB = i32x4.shr_u(scalesB, 16);
              x += 2 * X16;
            }
            g += 96;
          }
        } while (x < next);
        s += 8;
        ps += 32;
      } while (ps < stop);
      if (type != Type.Q6_K) {
        accA = i32x4.shr_s(accA, type == Type.Q3_K ? 3 : 2);
        accB = i32x4.shr_s(accB, type == Type.Q3_K ? 3 : 2);
      }
      const dx = v128.load32_splat(x);
      sumA = f32x4.add(sumA, superTerm(type, false, accA, sumsA, zeroBits, w, dx, lifted, lift));
      sumB = f32x4.add(sumB, superTerm(type, true, accB, sumsB, zeroBits, w, dx, lifted, lift));
    }
    v128.store(y, sumA);
    v128.store(y, sumB, 16);
  }
}
