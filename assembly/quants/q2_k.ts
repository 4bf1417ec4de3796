// Q2_K: 256 weights in 84 bytes, x = d * sc * q - dmin * m, sc and m per 16 weights. Partner: Q8_K.
//
//   0 scales[16]     low nibble sc, high nibble m
//   16 qs[64]        32 bytes per half; bits 2j of byte l = element l of run j
//   80 d f16 | 82 dmin f16

import { f16ToF32 } from "../math/f16";
import { dequantizeSuper, nibble, twoBits } from "./super";

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
