// Q5_0: 32 weights in 22 bytes, x = d * (q - 16). Partner: Q8_0.
//
//   0 d f16 | 2 qh u32 | 6 qs[16]      nibbles as in Q4_0; bit j of qh is bit 4 of element j

import { byteMask, halfOf, unsignedCodes } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";
import { fifth, fiveBits } from "./five";
import { extreme } from "./range";

const BYTES: usize = 22;

/** The block as the integer dot products see it; methods as in Q4_0. */
@unmanaged
export class Q5_0 {

  @inline
  bytes(): usize {
    return BYTES;
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
  mask(): v128 {
    return byteMask();
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p, 6);
  }


  @inline
  second(p: usize): v128 {
    return v128.load32_splat(p, 2);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return unsignedCodes(fiveBits(a, b, halfOf(i), m), i);
  }


  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 22);
    h = v128.load16_lane(p, h, 4, 44);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 66));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ5_0(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    const h = load<u32>(px, 2);
    for (let j: u32 = 0; j < 16; j++) {
      const q = <i32>load<u8>(px + j, 6);
      store<f32>(py + (j << 2), <f32>(((q & 15) | fifth(h, j)) - 16) * d);
      store<f32>(py + (j << 2), <f32>(((q >> 4) | fifth(h, j + 16)) - 16) * d, 64);
    }
  }
}

/** `n` f32 at px to blocks at py; byte for byte what ggml's reference quantizer makes. */
export function quantizeQ5_0(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const d = extreme(px) / -16;
    const id: f32 = d != 0 ? 1 / d : 0;
    store<u16>(py, <u16>f32ToF16(d));
    let h: u32 = 0;
    for (let j: u32 = 0; j < 16; j++) {
      const lo = code(load<f32>(px + (j << 2)), id);
      const hi = code(load<f32>(px + (j << 2), 64), id);
      store<u8>(py + j, <u8>((lo & 15) | (hi << 4)), 6);
      h |= ((<u32>(lo >> 4)) << j) | ((<u32>(hi >> 4)) << (j + 16));
    }
    store<u32>(py, h, 2);
  }
}


@inline
function code(x: f32, id: f32): i32 {
  return min(31, <i32>(x * id + 16.5));
}
