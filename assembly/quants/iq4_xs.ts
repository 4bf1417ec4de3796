// IQ4_XS: 256 weights in 136 bytes, x = d * (ls - 32) * T[q], ls per 32 weights, T as in IQ4_NL. Partner: Q8_K.
//
//   0 d f16
//   2 scales_h u16   bits 2k: upper two bits of ls k
//   4 scales_l[4]    nibble k: lower four bits of ls k
//   8 qs[128]        16 bytes per run, nibbles as in Q4_0

import { f16ToF32, f32ToF16 } from "../math/f16";
import { LEVELS, packLevels, searchLevels, weighLevels } from "./iq4_nl";
import { at, farthest, hasBad, rounded, SCALES, squares, WEIGHTS } from "./search";
import { dequantizeSuper, nibble } from "./super";
import { BAD } from "./super_search";

// Factors that bring bits 2k of lane k to the top.
const TO_TOP = memory.data<u16>([0x4000, 0x1000, 0x400, 0x100, 0x40, 0x10, 4, 1], 16);

/** Half a super-block at a time; methods as in quants/super.ts. */
@unmanaged
export class IQ4_XS {

  @inline
  bytes(): usize {
    return 136;
  }


  @inline
  wide(): bool {
    return true;
  }


  @inline
  signed(): bool {
    return true;
  }


  @inline
  hasMin(): bool {
    return false;
  }


  @inline
  zero(): i32 {
    return 0;
  }


  @inline
  codes(p: usize, half: i32, j: i32, h: i32): v128 {
    return i8x16.swizzle(
      v128.load(LEVELS),
      nibble(v128.load(p + 8 + ((<usize>half) << 6) + ((<usize>j) << 4)), h),
    );
  }


  @inline
  scales(p: usize): v128 {
    const l = v128.load32_splat(p, 4);
    const low = i8x16.shuffle(
      nibble(l, 0),
      nibble(l, 1),
      0,
      16,
      1,
      17,
      2,
      18,
      3,
      19,
      0,
      16,
      1,
      17,
      2,
      18,
      3,
      19,
    );
    const high = i16x8.shr_u(i16x8.mul(v128.load16_splat(p, 2), v128.load(TO_TOP)), 14);
    const s = v128.or(low, i16x8.shl(i8x16.narrow_i16x8_u(high, high), 4));
    return i8x16.sub(s, i8x16.splat(32));
  }


  @inline
  mins(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  d(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  dmin(p: usize): f32 {
    return 0;
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeIQ4_XS(px: usize, py: usize, n: i32): void {
  dequantizeSuper<IQ4_XS>(px, py, n);
}

/** `n` f32 at px to blocks at py; pq importance of each or 0, ps scratch of search.ts. */
export function quantizeIQ4_XS(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (const end = px + ((<usize>n) << 2); px < end; px += 1024, py += 136) {
    const sigma = squares(px, 256) * <f32>(<f32>2 / 256);
    for (let g: usize = 0; g < 8; g++) {
      const pg = px + (g << 7);
      weighLevels(pg, pq == 0 ? 0 : pq + (g << 7), ps + WEIGHTS, sigma);
      store<f32>(ps + SCALES + (g << 2), searchLevels(pg, ps + WEIGHTS));
    }
    const d = farthest(ps + SCALES, 8) / -32;
    store<u16>(py, hasBad(px, 256) ? BAD : <u16>f32ToF16(d));
    packBlock(px, ps + SCALES, d, py);
    if (pq != 0) pq += 1024;
  }
}

function packBlock(px: usize, pScales: usize, d: f32, py: usize): void {
  const id: f32 = d != 0 ? 1 / d : 0;
  let high = 0;
  let low = 0;
  for (let g = 0; g < 8; g++) {
    const l = rounded(id * at(pScales, g), -32, 31);
    const dl = d * <f32>l;
    const o = <usize>g;
    packLevels(px + (o << 7), dl != 0 ? 1 / dl : 0, py + 8 + (o << 4));
    low |= ((l + 32) & 15) << (4 * g);
    high |= ((l + 32) >> 4) << (2 * g);
  }
  store<u16>(py, <u16>high, 2);
  store<u32>(py, low, 4);
}
