// Q4_K: 256 weights in 144 bytes, x = d * sc * q - dmin * m, sc and m per 32 weights. Partner: Q8_K.
//
//   0 d f16 | 2 dmin f16 | 4 scales[12] (six.ts)
//   16 qs[128]       32 bytes per two runs: low nibbles the first, high nibbles the second

import { f16ToF32 } from "../math/f16";
import { sixBitMins, sixBitScales } from "./six";
import { dequantizeSuper, nibble } from "./super";

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
