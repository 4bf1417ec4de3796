// Q4_K: 256 weights in 144 bytes, x = d * sc * q - dmin * m, sc and m per 32 weights. Partner: Q8_K.
//
//   0 d f16 | 2 dmin f16 | 4 scales[12] (six.ts)
//   16 qs[128]       32 bytes per two runs: low nibbles the first, high nibbles the second

import { f16ToF32 } from "../math/f16";
import { packSixes, sixBitMins, sixBitScales } from "./six";
import { dequantizeSuper, nibble } from "./super";
import { searchRanges } from "./super_search";

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class Q4_K {

  @inline
  bytes(): usize {
    return 144;
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
    return nibble(
      v128.load(p + 16 + ((<usize>half) << 6) + ((<usize>(j >> 1)) << 5) + ((<usize>h) << 4)),
      j & 1,
    );
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
export function dequantizeQ4_K(px: usize, py: usize, n: i32): void {
  dequantizeSuper<Q4_K>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeQ4_K(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 144) {
    packSixes(searchRanges(px, pq, ps, 15, 63, 32), ps, py);
    packRuns(ps, py + 16);
    if (pq != 0) pq += 1024;
  }
}

/** The low nibbles of 256 codes: 32 bytes per two runs, the first the low half. */
export function packRuns(pl: usize, py: usize): void {
  for (let pair: usize = 0; pair < 4; pair++, pl += 64, py += 32) {
    for (let l: usize = 0; l < 32; l++)
      store<u8>(py + l, (load<u8>(pl + l) & 15) | (load<u8>(pl + l, 32) << 4));
  }
}
