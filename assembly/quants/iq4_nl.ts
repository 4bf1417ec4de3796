// IQ4_NL: 32 weights in 18 bytes, x = d * T[q], T a table of 16 unevenly spaced levels. Partner: Q8_0.
//
//   0 d f16 | 2 qs[16] nibbles as in Q4_0

import { byteMask, halfOf, nibbleBytes, signedCodes } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";
import { extreme } from "./range";

const BYTES: usize = 18;

/** The levels, ascending. */
// prettier-ignore
export const LEVELS: usize = memory.data<i8>([
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
], 16);

/** The block as the integer dot products see it; methods as in Q4_0. */
@unmanaged
export class IQ4_NL {

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
    return true;
  }


  @inline
  mask(): v128 {
    return byteMask();
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p, 2);
  }


  @inline
  second(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return signedCodes(i8x16.swizzle(v128.load(LEVELS), nibbleBytes(a, halfOf(i), m)), i);
  }


  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 18);
    h = v128.load16_lane(p, h, 4, 36);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 54));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeIQ4_NL(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    for (let j: usize = 0; j < 16; j++) {
      const q = <usize>load<u8>(px + j, 2);
      store<f32>(py + (j << 2), d * level(q & 15));
      store<f32>(py + (j << 2), d * level(q >> 4), 64);
    }
  }
}

/** Level q as f32. */
@inline
export function level(q: usize): f32 {
  return <f32>load<i8>(LEVELS + q);
}

/** Code of the nearest level; halfway goes up. */
export function nearestLevel(x: f32): i32 {
  if (!(x > -127)) return 0;
  if (x >= 113) return 15;
  let i: usize = 1;
  while (x >= level(i)) i++;
  return <i32>(x - level(i - 1) < level(i) - x ? i - 1 : i);
}

/** `n` f32 at px to blocks at py; byte for byte what ggml's reference quantizer makes. */
export function quantizeIQ4_NL(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const top = extreme(px);
    const id: f32 = abs(top) < 1e-15 ? 0 : 1 / (top / -127);
    let a: f32 = 0;
    let b: f32 = 0;
    for (let j: usize = 0; j < 32; j++) {
      const x = load<f32>(px + (j << 2));
      const q = id == 0 ? 0 : nearestLevel(x * id);
      const w = x * x;
      a += w * level(q) * x;
      b += w * level(q) * level(q);
      const pq = py + (j & 15);
      store<u8>(pq, j < 16 ? <u8>q : <u8>(load<u8>(pq, 2) | (q << 4)), 2);
    }
    store<u16>(py, <u16>f32ToF16(id == 0 ? 0 : b > 0 ? a / b : top * 0));
  }
}
