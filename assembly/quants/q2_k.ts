// Q2_K: 256 weights in 84 bytes, x = d * sc * q - dmin * m, sc and m per 16 weights. Partner: Q8_K.
//
//   0 scales[16]     low nibble sc, high nibble m
//   16 qs[64]        32 bytes per half; bits 2j of byte l = element l of run j
//   80 d f16 | 82 dmin f16

import { f16ToF32 } from "../math/f16";
import { BLOCK_MINIMA, BLOCK_SCALES, codeAt } from "./search";
import { dequantizeSuper, nibble, twoBits } from "./super";
import { searchRanges } from "./super_search";

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class Q2_K {

  @inline
  bytes(): usize {
    return 84;
  }


  @inline
  wide(): bool {
    return false;
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
    return twoBits(v128.load(p + 16 + ((<usize>half) << 5) + ((<usize>h) << 4)), 2 * j);
  }


  @inline
  scales(p: usize): v128 {
    return nibble(v128.load(p), 0);
  }


  @inline
  mins(p: usize): v128 {
    return nibble(v128.load(p), 1);
  }


  @inline
  d(p: usize): f32 {
    return f16ToF32(load<u16>(p, 80));
  }


  @inline
  dmin(p: usize): f32 {
    return f16ToF32(load<u16>(p, 82));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ2_K(px: usize, py: usize, n: i32): void {
  dequantizeSuper<Q2_K>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeQ2_K(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 84) {
    const d = searchRanges(px, pq, ps, 3, 15, 16);
    for (let g = 0; g < 16; g++)
      store<u8>(py + g, <u8>(codeAt(ps + BLOCK_SCALES, g) | (codeAt(ps + BLOCK_MINIMA, g) << 4)));
    packPairs(ps, py + 16);
    store<u16>(py, <u16>i32x4.extract_lane(d, 0), 80);
    store<u16>(py, <u16>i32x4.extract_lane(d, 1), 82);
    if (pq != 0) pq += 1024;
  }
}

/** The low two bits of 256 codes: 32 bytes per half, bits 2j of byte l = element l of run j. */
export function packPairs(pl: usize, py: usize): void {
  for (let half: usize = 0; half < 2; half++, pl += 128, py += 32) {
    for (let l: usize = 0; l < 32; l++) {
      const p = pl + l;
      const low = (load<u8>(p) & 3) | ((load<u8>(p, 32) & 3) << 2);
      store<u8>(py + l, low | ((load<u8>(p, 64) & 3) << 4) | ((load<u8>(p, 96) & 3) << 6));
    }
  }
}
