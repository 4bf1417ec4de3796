// Q4_1: 32 weights in 20 bytes, x = d * q + m. Partner: Q8_1.
//
//   0 d f16 | 2 m f16 | 4 qs[16] nibbles as in Q4_0

import { nibbleMask, nibbles } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";
import { range } from "./range";

const BYTES: usize = 20;

/** The block as the integer dot products see it; methods as in Q4_0. */
@unmanaged
export class Q4_1 {

  @inline
  bytes(): usize {
    return BYTES;
  }


  @inline
  zero(): i32 {
    return 0;
  }


  @inline
  signed(): bool {
    return false;
  }


  @inline
  mask(): v128 {
    return nibbleMask();
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p, 4);
  }


  @inline
  second(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return nibbles(a, i, m);
  }


  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 20);
    h = v128.load16_lane(p, h, 4, 40);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 60));
  }

  /** what is added to d * q */
  @inline
  min(p: usize): f32 {
    return f16ToF32(load<u16>(p, 2));
  }

  /** minima of four consecutive blocks */
  @inline
  mins(p: usize): v128 {
    let h = v128.load16_splat(p, 2);
    h = v128.load16_lane(p, h, 2, 22);
    h = v128.load16_lane(p, h, 4, 42);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 62));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeQ4_1(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    const m = f16ToF32(load<u16>(px, 2));
    for (let j: usize = 0; j < 16; j++) {
      const q = <i32>load<u8>(px + j, 4);
      store<f32>(py + (j << 2), <f32>(q & 15) * d + m);
      store<f32>(py + (j << 2), <f32>(q >> 4) * d + m, 64);
    }
  }
}

/** `n` f32 at px to blocks at py; byte for byte what ggml's reference quantizer makes. */
export function quantizeQ4_1(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const r = range(px);
    const low = f32x4.extract_lane(r, 0);
    const d = (f32x4.extract_lane(r, 1) - low) / 15;
    const id: f32 = d != 0 ? 1 / d : 0;
    store<u16>(py, <u16>f32ToF16(d));
    store<u16>(py, <u16>f32ToF16(low), 2);
    for (let j: usize = 0; j < 16; j++) {
      const lo = code(load<f32>(px + (j << 2)), low, id);
      const hi = code(load<f32>(px + (j << 2), 64), low, id);
      store<u8>(py + j, <u8>(lo | (hi << 4)), 4);
    }
  }
}


@inline
function code(x: f32, low: f32, id: f32): i32 {
  return min(15, <i32>((x - low) * id + 0.5));
}
