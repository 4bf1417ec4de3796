// Q4_0: 32 weights in 18 bytes, x = d * (q - 8). Partner: Q8_0.
//
//   0 d f16 | 2 qs[16]      low nibble of byte j = element j, high nibble = element j + 16

import { nibbleMask, nibbles } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";
import { extreme } from "./range";

const BYTES: usize = 18;

/** The block as the integer dot products see it. */
@unmanaged
export class Q4_0 {
  /** bytes of a block */
  @inline
  bytes(): usize {
    return BYTES;
  }

  /** the code that means 0; codes are unsigned and below 128 */
  @inline
  zero(): i32 {
    return 8;
  }

  /** codes are signed bytes */
  @inline
  signed(): bool {
    return false;
  }

  /** mask that codes() wants in a local */
  @inline
  mask(): v128 {
    return nibbleMask();
  }

  /** the bytes of a block that codes() needs */
  @inline
  first(p: usize): v128 {
    return v128.load(p, 2);
  }

  /** and more of them */
  @inline
  second(p: usize): v128 {
    return i32x4.splat(0);
  }

  /** code vector i of a block, in dot order */
  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return nibbles(a, i, m);
  }

  /** scale of a block */
  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }

  /** scales of four consecutive blocks */
  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 18);
    h = v128.load16_lane(p, h, 4, 36);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 54));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ4_0(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    for (let j: usize = 0; j < 16; j++) {
      const q = <i32>load<u8>(px + j, 2);
      store<f32>(py + (j << 2), <f32>((q & 15) - 8) * d);
      store<f32>(py + (j << 2), <f32>((q >> 4) - 8) * d, 64);
    }
  }
}

/** `n` f32 at px to blocks at py; byte for byte what ggml's reference quantizer makes. */
export function quantizeQ4_0(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const d = extreme(px) / -8;
    const id: f32 = d != 0 ? 1 / d : 0;
    store<u16>(py, <u16>f32ToF16(d));
    for (let j: usize = 0; j < 16; j++) {
      const lo = code(load<f32>(px + (j << 2)), id);
      const hi = code(load<f32>(px + (j << 2), 64), id);
      store<u8>(py + j, <u8>(lo | (hi << 4)), 2);
    }
  }
}


@inline
function code(x: f32, id: f32): i32 {
  return min(15, <i32>(x * id + 8.5));
}
