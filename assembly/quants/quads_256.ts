// Quads of the types with super-blocks of 256 (quants/quads.ts).
//
//   Q4_K  576 = d[4] | dmin[4] | S0 S1 S2 | 8 x (V0..V3 as in Q4_0, 32 weights each)
//               byte j of row r in Si, low six bits: S0 scale j, S1 scale 4 + j, S2 min j; min 4 + j, least significant
//               part first: S0[7:6] S1[7:6] S2[7:6]
//   Q6_K  840 = d[4] | S0..S3 | 16 x (A B C)
//               byte j of row r in Si: scale of group 4i + j. Per group of 16, low six bits of A, B, C: k = 0.., 4.., 8..;
//               k = 12..: A[7:6] B[7:6] C[7:6]

import { storeTransposed } from "../math/dot";
import { Q6_K } from "./q6_k";
import {
  X03,
  X0C,
  X0F,
  X30,
  X3F,
  bitsFrom,
  bitsTo,
  interleave,
  liftScales,
  quadMask,
  separate,
  unliftScales,
} from "./quad";

const CODES_4: usize = 64;
const CODES_6: usize = 72;

/** Four super-blocks of Q4_K as one. */
@unmanaged
export class QuadQ4_K {
  /** bytes of a block of the quad */
  @inline
  bytes(): usize {
    return 576;
  }

  /** a scale serves 32 weights, not 16 */
  @inline
  wide(): bool {
    return true;
  }


  @inline
  hasMin(): bool {
    return true;
  }


  @inline
  zero(): i32 {
    return 0;
  }

  /** codes of group g of 16, k = 4t.. in it, four rows */
  @inline
  four(p: usize, g: i32, t: i32): v128 {
    const v = v128.load(p + CODES_4 + ((<usize>(g >> 1)) << 6) + ((<usize>t) << 4));
    return v128.and((g & 1) == 0 ? v : i16x8.shr_u(v, 4), quadMask(X0F));
  }

  /** scales 4i .. 4i + 3 of four rows, as bytes */
  @inline
  scales(p: usize, i: i32): v128 {
    return v128.and(v128.load(p + 16 + ((<usize>i) << 4)), quadMask(X3F));
  }

  /** minima 4i .. 4i + 3 */
  @inline
  mins(p: usize, i: i32): v128 {
    const c = v128.load(p, 48);
    if (i == 0) return v128.and(c, quadMask(X3F));
    return sixFromTops(v128.load(p, 16), v128.load(p, 32), c);
  }

  /** where the four factors of the minima stand */
  @inline
  dminAt(): usize {
    return 8;
  }


  @inline
  gather(p: usize, step: usize, pq: usize, pt: usize): void {
    liftScales(p, step, pq);
    liftScales(p + 2, step, pq + 8);
    for (let r: usize = 0; r < 4; r++) gatherScales(p + r * step + 4, pq + 16 + (r << 2));
    for (let i: usize = 0; i < 4; i++) {
      for (let r: usize = 0; r < 4; r++) regroup(p + r * step + 16 + (i << 5), pt + (r << 5));
      interleave(pt, 32, pq + CODES_4 + (i << 7));
      interleave(pt + 16, 32, pq + CODES_4 + 64 + (i << 7));
    }
  }


  @inline
  scatter(pq: usize, p: usize, step: usize, pt: usize): void {
    unliftScales(pq, p, step);
    unliftScales(pq + 8, p + 2, step);
    for (let r: usize = 0; r < 4; r++) scatterScales(pq + 16 + (r << 2), p + r * step + 4);
    for (let i: usize = 0; i < 4; i++) {
      separate(pq + CODES_4 + (i << 7), pt, 32);
      separate(pq + CODES_4 + 64 + (i << 7), pt + 16, 32);
      for (let r: usize = 0; r < 4; r++) regroup(pt + (r << 5), p + r * step + 16 + (i << 5));
    }
  }
}

// 32 bytes a, b of low and high nibbles: low ones of a and b together, then the high ones. Its own inverse.
function regroup(p: usize, pt: usize): void {
  const m = quadMask(X0F);
  const a = v128.load(p);
  const b = v128.load(p, 16);
  v128.store(pt, v128.or(v128.and(a, m), i16x8.shl(v128.and(b, m), 4)));
  v128.store(pt, v128.or(bitsFrom(a, 4, m), v128.andnot(b, m)), 16);
}

// Six-bit scales and minima of a row (quants/six.ts) to its lanes of S0, S1, S2.
function gatherScales(p: usize, pq: usize): void {
  const a = load<u32>(p);
  const b = load<u32>(p, 4);
  const c = load<u32>(p, 8);
  const high = ((c >> 4) & 0x0f0f0f0f) | ((b >> 2) & 0x30303030);
  const scales = (c & 0x0f0f0f0f) | ((a >> 2) & 0x30303030);
  store<u32>(pq, (a & 0x3f3f3f3f) | ((high & 0x03030303) << 6));
  store<u32>(pq, scales | (((high >> 2) & 0x03030303) << 6), 16);
  store<u32>(pq, (b & 0x3f3f3f3f) | (((high >> 4) & 0x03030303) << 6), 32);
}

function scatterScales(pq: usize, p: usize): void {
  const a = load<u32>(pq);
  const b = load<u32>(pq, 16);
  const c = load<u32>(pq, 32);
  const high = ((a >> 6) & 0x03030303) | ((b >> 4) & 0x0c0c0c0c) | ((c >> 2) & 0x30303030);
  store<u32>(p, (a & 0x3f3f3f3f) | ((b & 0x30303030) << 2));
  store<u32>(p, (c & 0x3f3f3f3f) | ((high & 0x30303030) << 2), 4);
  store<u32>(p, (b & 0x0f0f0f0f) | ((high & 0x0f0f0f0f) << 4), 8);
}

/** The six-bit values whose bits stand in pairs on top of three vectors. */
@inline
function sixFromTops(a: v128, b: v128, c: v128): v128 {
  return v128.or(
    v128.or(bitsFrom(a, 6, quadMask(X03)), bitsFrom(b, 4, quadMask(X0C))),
    bitsFrom(c, 2, quadMask(X30)),
  );
}

/** Four super-blocks of Q6_K as one; methods as in QuadQ4_K. */
@unmanaged
export class QuadQ6_K {

  @inline
  bytes(): usize {
    return 840;
  }


  @inline
  wide(): bool {
    return false;
  }


  @inline
  hasMin(): bool {
    return false;
  }


  @inline
  zero(): i32 {
    return 32;
  }


  @inline
  four(p: usize, g: i32, t: i32): v128 {
    const w = p + CODES_6 + <usize>g * 48;
    if (t < 3) return v128.and(v128.load(w + ((<usize>t) << 4)), quadMask(X3F));
    return sixFromTops(v128.load(w), v128.load(w, 16), v128.load(w, 32));
  }


  @inline
  scales(p: usize, i: i32): v128 {
    return v128.load(p + 8 + ((<usize>i) << 4));
  }


  @inline
  mins(p: usize, i: i32): v128 {
    return i32x4.splat(0);
  }


  @inline
  dminAt(): usize {
    return 0;
  }


  @inline
  gather(p: usize, step: usize, pq: usize, pt: usize): void {
    liftScales(p + 208, step, pq);
    interleave(p + 192, step, pq + 8);
    for (let g = 0; g < 16; g++) {
      const a = fileCodes(p, g);
      const b = fileCodes(p + step, g);
      storeTransposed(pt, 16, a, b, fileCodes(p + 2 * step, g), fileCodes(p + 3 * step, g));
      packSix(pt, pq + CODES_6 + <usize>g * 48);
    }
  }


  @inline
  scatter(pq: usize, p: usize, step: usize, pt: usize): void {
    unliftScales(pq, p + 208, step);
    separate(pq + 8, p + 192, step);
    for (let i = 0; i < 4; i++) scatterRuns(pq, i >> 1, i & 1, p, step, pt);
  }
}

// 16 codes of group g of a super-block in file order.
function fileCodes(p: usize, g: i32): v128 {
  return changetype<Q6_K>(<usize>0).codes(p, g >> 3, (g >> 1) & 3, g & 1);
}

// Four vectors of codes at pt to three at w.
function packSix(pt: usize, w: usize): void {
  const d = v128.load(pt, 48);
  v128.store(w, v128.or(v128.load(pt), bitsTo(d, 6, 0xc0)));
  v128.store(w, v128.or(v128.load(pt, 16), bitsTo(d, 4, 0xc0)), 16);
  v128.store(w, v128.or(v128.load(pt, 32), bitsTo(d, 2, 0xc0)), 32);
}

// Group h of the four runs of a half, back to the nibbles and bit pairs of four rows (quants/q6_k.ts).
function scatterRuns(pq: usize, half: i32, h: i32, p: usize, step: usize, pt: usize): void {
  const t = changetype<QuadQ6_K>(<usize>0);
  for (let j = 0; j < 4; j++) {
    const g = half * 8 + j * 2 + h;
    const a = t.four(pq, g, 0);
    const b = t.four(pq, g, 1);
    storeTransposed(pt + ((<usize>j) << 4), 64, a, b, t.four(pq, g, 2), t.four(pq, g, 3));
  }
  const low = ((<usize>half) << 6) + ((<usize>h) << 4);
  const high: usize = 128 + ((<usize>half) << 5) + ((<usize>h) << 4);
  for (let r: usize = 0; r < 4; r++, p += step, pt += 64) joinSix(pt, p + low, p + high);
}

function joinSix(pt: usize, pl: usize, ph: usize): void {
  const m = quadMask(X0F);
  const a = v128.load(pt);
  const b = v128.load(pt, 16);
  const c = v128.load(pt, 32);
  const d = v128.load(pt, 48);
  v128.store(pl, v128.or(v128.and(a, m), i16x8.shl(v128.and(c, m), 4)));
  v128.store(pl, v128.or(v128.and(b, m), i16x8.shl(v128.and(d, m), 4)), 32);
  const two = quadMask(X03);
  const ab = v128.or(bitsFrom(a, 4, two), i16x8.shl(bitsFrom(b, 4, two), 2));
  v128.store(ph, v128.or(ab, i16x8.shl(v128.or(bitsFrom(c, 4, two), i16x8.shl(bitsFrom(d, 4, two), 2)), 4)));
}
