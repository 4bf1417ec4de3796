// Quads of the types with blocks of 32 (quants/quads.ts).
//
//   Q4_0   72 = d[4] | V0..V3     Vt: low nibble k = 4t.., high nibble k = 16 + 4t..
//   Q5_0   88 = d[4] | V0..V4     Vt, low five bits: k = 4t.. In the upper bits, least significant part first:
//                                 k = 20..: V0[7:5] V1[7:6]   k = 24..: V2[7:5] V3[7:6]   k = 28..: V4[7:5] V1[5] V3[5]
//   Q8_0  136 = d[4] | V0..V7     Vt: k = 4t..

import {
  X07,
  X08,
  X0F,
  X10,
  X18,
  X1F,
  bitsFrom,
  bitsTo,
  interleave,
  liftScales,
  quadMask,
  separate,
  unliftScales,
} from "./quad";
import { storeTransposed } from "../math/dot";
import { fiveBits } from "./five";

/** Four blocks of Q4_0 as one. */
@unmanaged
export class QuadQ4_0 {
  /** bytes of a block of the quad, and of a row */
  @inline
  bytes(): usize {
    return 72;
  }

  /** the code that means 0 */
  @inline
  zero(): i32 {
    return 8;
  }

  /** codes are signed bytes */
  @inline
  signed(): bool {
    return false;
  }

  /** codes of k = 4t.., four rows */
  @inline
  four(p: usize, t: i32): v128 {
    const v = v128.load(p + 8 + ((<usize>(t & 3)) << 4));
    return v128.and(t < 4 ? v : i16x8.shr_u(v, 4), quadMask(X0F));
  }

  /** the blocks at p of four rows, `step` apart, to pq; pt is scratch of 128 bytes */
  @inline
  gather(p: usize, step: usize, pq: usize, pt: usize): void {
    liftScales(p, step, pq);
    interleave(p + 2, step, pq + 8);
  }

  /** and back */
  @inline
  scatter(pq: usize, p: usize, step: usize, pt: usize): void {
    unliftScales(pq, p, step);
    separate(pq + 8, p + 2, step);
  }
}

/** Four blocks of Q8_0 as one; methods as in QuadQ4_0. */
@unmanaged
export class QuadQ8_0 {

  @inline
  bytes(): usize {
    return 136;
  }


  @inline
  zero(): i32 {
    return 0;
  }


  @inline
  signed(): bool {
    return true;
  }


  @inline
  four(p: usize, t: i32): v128 {
    return v128.load(p + 8 + ((<usize>t) << 4));
  }


  @inline
  gather(p: usize, step: usize, pq: usize, pt: usize): void {
    liftScales(p, step, pq);
    interleave(p + 2, step, pq + 8);
    interleave(p + 18, step, pq + 72);
  }


  @inline
  scatter(pq: usize, p: usize, step: usize, pt: usize): void {
    unliftScales(pq, p, step);
    separate(pq + 8, p + 2, step);
    separate(pq + 72, p + 18, step);
  }
}

/** Four blocks of Q5_0 as one; methods as in QuadQ4_0. */
@unmanaged
export class QuadQ5_0 {

  @inline
  bytes(): usize {
    return 88;
  }


  @inline
  zero(): i32 {
    return 16;
  }


  @inline
  signed(): bool {
    return false;
  }


  @inline
  four(p: usize, t: i32): v128 {
    return t < 5 ? v128.and(v128.load(p + 8 + ((<usize>t) << 4)), quadMask(X1F)) : fiveFromTops(p + 8, t);
  }


  @inline
  gather(p: usize, step: usize, pq: usize, pt: usize): void {
    liftScales(p, step, pq);
    spread(p, step, 0, pt);
    spread(p, step, 1, pt + 64);
    packFive(pt, pq + 8);
  }


  @inline
  scatter(pq: usize, p: usize, step: usize, pt: usize): void {
    unliftScales(pq, p, step);
    for (let t = 0; t < 8; t++)
      v128.store(pt + ((<usize>t) << 4), changetype<QuadQ5_0>(<usize>0).four(pq, t));
    for (let r: usize = 0; r < 4; r++) joinFive(pt + (r << 2), p + r * step);
  }
}

// Codes of k = 20.., 24.. or 28.., out of the upper bits of five vectors.
function fiveFromTops(w: usize, t: i32): v128 {
  const seven = quadMask(X07);
  const a = v128.load(w, 16);
  const b = v128.load(w, 48);
  if (t == 5) return v128.or(bitsFrom(v128.load(w), 5, seven), bitsFrom(a, 3, quadMask(X18)));
  if (t == 6) return v128.or(bitsFrom(v128.load(w, 32), 5, seven), bitsFrom(b, 3, quadMask(X18)));
  const top = v128.or(bitsFrom(a, 2, quadMask(X08)), bitsFrom(b, 1, quadMask(X10)));
  return v128.or(bitsFrom(v128.load(w, 64), 5, seven), top);
}

// The low (half 0) or high 16 codes of four blocks of Q5_0, interleaved to pt.
function spread(p: usize, step: usize, half: i32, pt: usize): void {
  const a = fileCodes(p, half);
  const b = fileCodes(p + step, half);
  storeTransposed(pt, 16, a, b, fileCodes(p + 2 * step, half), fileCodes(p + 3 * step, half));
}


@inline
function fileCodes(p: usize, half: i32): v128 {
  const low = quadMask(X0F);
  const h = v128.load32_splat(p, 2);
  return half == 0 ? fiveBits(v128.load(p, 6), h, 0, low) : fiveBits(v128.load(p, 6), h, 1, low);
}

// Eight vectors of codes at pt to five at w.
function packFive(pt: usize, w: usize): void {
  const e = v128.load(pt, 80);
  const f = v128.load(pt, 96);
  const g = v128.load(pt, 112);
  v128.store(w, v128.or(v128.load(pt), bitsTo(e, 5, 0xe0)));
  v128.store(w, v128.or(v128.or(v128.load(pt, 16), bitsTo(e, 3, 0xc0)), bitsTo(g, 2, 0x20)), 16);
  v128.store(w, v128.or(v128.load(pt, 32), bitsTo(f, 5, 0xe0)), 32);
  v128.store(w, v128.or(v128.or(v128.load(pt, 48), bitsTo(f, 3, 0xc0)), bitsTo(g, 1, 0x20)), 48);
  v128.store(w, v128.or(v128.load(pt, 64), bitsTo(g, 5, 0xe0)), 64);
}

// The codes of one row, four bytes in each of eight vectors at pt, to the nibbles and upper bits of a block of Q5_0.
function joinFive(pt: usize, p: usize): void {
  let bits: u32 = 0;
  for (let j: usize = 0; j < 16; j++) {
    const at = pt + ((j >> 2) << 4) + (j & 3);
    const lo = <u32>load<u8>(at);
    const hi = <u32>load<u8>(at, 64);
    store<u8>(p + j, <u8>((lo & 15) | ((hi & 15) << 4)), 6);
    bits |= ((lo >> 4) << (<u32>j)) | ((hi >> 4) << (<u32>j + 16));
  }
  store<u32>(p, bits, 2);
}
