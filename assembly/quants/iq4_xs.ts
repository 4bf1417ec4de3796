// IQ4_XS: 256 weights in 136 bytes, x = d * (ls - 32) * T[q], ls per 32 weights, T as in IQ4_NL. Partner: Q8_K.
//
//   0 d f16
//   2 scales_h u16   bits 2k: upper two bits of ls k
//   4 scales_l[4]    nibble k: lower four bits of ls k
//   8 qs[128]        16 bytes per run, nibbles as in Q4_0

import { f16ToF32 } from "../math/f16";
import { LEVELS } from "./iq4_nl";
import { dequantizeSuper, nibble } from "./super";

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
