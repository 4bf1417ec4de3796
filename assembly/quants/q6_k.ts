// Q6_K: 256 weights in 210 bytes, x = d * sc * (q - 32), sc per 16 weights. Partner: Q8_K.
//
//   0 ql[128]        low four bits. 64 bytes per half: low nibbles runs 0 and 1, high nibbles runs 2 and 3
//   128 qh[64]       upper two bits. 32 bytes per half: bits 2j of byte l = element l of run j
//   192 scales[16] i8 | 208 d f16

import { f16ToF32 } from "../math/f16";
import { BLOCK_SCALES } from "./search";
import { dequantizeSuper, nibble, twoBits } from "./super";
import { searchSixes } from "./super_search";

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class Q6_K {

  @inline
  bytes(): usize {
    return 210;
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
    return false;
  }


  @inline
  zero(): i32 {
    return 32;
  }


  @inline
  codes(p: usize, half: i32, j: i32, h: i32): v128 {
    const o = (<usize>h) << 4;
    const low = nibble(v128.load(p + ((<usize>half) << 6) + ((<usize>(j & 1)) << 5) + o), j >> 1);
    return v128.or(low, i16x8.shl(twoBits(v128.load(p + 128 + ((<usize>half) << 5) + o), 2 * j), 4));
  }


  @inline
  scales(p: usize): v128 {
    return v128.load(p, 192);
  }


  @inline
  mins(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  d(p: usize): f32 {
    return f16ToF32(load<u16>(p, 208));
  }


  @inline
  dmin(p: usize): f32 {
    return 0;
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ6_K(px: usize, py: usize, n: i32): void {
  dequantizeSuper<Q6_K>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeQ6_K(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 210) {
    store<u16>(py, <u16>searchSixes(px, pq, ps), 208);
    packHalf(ps, py, py + 128);
    packHalf(ps + 128, py + 64, py + 160);
    memory.copy(py + 192, ps + BLOCK_SCALES, 16);
    if (pq != 0) pq += 1024;
  }
}

/** 128 codes of six bits: low nibbles at py, upper bits at ph. */
export function packHalf(pl: usize, py: usize, ph: usize): void {
  for (let l: usize = 0; l < 32; l++) {
    const a = load<u8>(pl + l);
    const b = load<u8>(pl + l, 32);
    const c = load<u8>(pl + l, 64);
    const d = load<u8>(pl + l, 96);
    store<u8>(py + l, (a & 15) | (c << 4));
    store<u8>(py + l, (b & 15) | (d << 4), 32);
    store<u8>(ph + l, (a >> 4) | ((b >> 4) << 2) | ((c >> 4) << 4) | ((d >> 4) << 6));
  }
}
