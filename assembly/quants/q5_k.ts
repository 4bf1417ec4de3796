// Q5_K: 256 weights in 176 bytes, x = d * sc * q - dmin * m, sc and m per 32 weights. Partner: Q8_K.
//
//   0 d f16 | 2 dmin f16 | 4 scales[12] (six.ts)
//   16 qh[32]        bit 4 * half + j of byte l = bit 4 of element l of run j
//   48 qs[128]       as in Q4_K

import { f16ToF32 } from "../math/f16";
import { packRuns } from "./q4_k";
import { packSixes, sixBitMins, sixBitScales } from "./six";
import { dequantizeSuper, nibble, oneBit, packTops } from "./super";
import { searchRanges } from "./super_search";

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class Q5_K {

  @inline
  bytes(): usize {
    return 176;
  }


  @inline
  wide(): bool {
    return true;
  }


  @inline
  signed(): bool {
    return false;
  }


  @inline
  hasMin(): bool {
    return true;
  }


  @inline
  zero(): i32 {
    return 0;
  }


  @inline
  codes(p: usize, half: i32, j: i32, h: i32): v128 {
    const o = (<usize>h) << 4;
    const low = nibble(v128.load(p + 48 + ((<usize>half) << 6) + ((<usize>(j >> 1)) << 5) + o), j & 1);
    return v128.or(low, i16x8.shl(oneBit(v128.load(p + 16 + o), 4 * half + j), 4));
  }


  @inline
  scales(p: usize): v128 {
    return sixBitScales(p + 4);
  }


  @inline
  mins(p: usize): v128 {
    return sixBitMins(p + 4);
  }


  @inline
  d(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  dmin(p: usize): f32 {
    return f16ToF32(load<u16>(p, 2));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ5_K(px: usize, py: usize, n: i32): void {
  dequantizeSuper<Q5_K>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeQ5_K(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 176) {
    packSixes(searchRanges(px, pq, ps, 31, 63, 32), ps, py);
    packTops(ps, 4, py + 16);
    packRuns(ps, py + 48);
    if (pq != 0) pq += 1024;
  }
}
