// MXFP4: 32 weights in 17 bytes, x = 2^(e - 128) * T[q], T = twice the 16 values of a 4-bit float. Partner: Q8_0.
//
//   0 e u8 | 1 qs[16] nibbles as in Q4_0

import { byteMask, halfOf, nibbleBytes, unsignedCodes } from "../math/dot";

const BYTES: usize = 17;

/** T + 12, so that codes are unsigned. */
export const TABLE: usize = memory.data<u8>([12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0], 16);

/** The block as the integer dot products see it; methods as in Q4_0. */
@unmanaged
export class MXFP4 {

  @inline
  bytes(): usize {
    return BYTES;
  }


  @inline
  zero(): i32 {
    return 12;
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
    return v128.load(p, 1);
  }


  @inline
  second(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return unsignedCodes(i8x16.swizzle(v128.load(TABLE), nibbleBytes(a, halfOf(i), m)), i);
  }


  @inline
  scale(p: usize): f32 {
    return power(load<u8>(p));
  }


  @inline
  scales(p: usize): v128 {
    let s = f32x4.splat(power(load<u8>(p)));
    s = f32x4.replace_lane(s, 1, power(load<u8>(p, 17)));
    s = f32x4.replace_lane(s, 2, power(load<u8>(p, 34)));
    return f32x4.replace_lane(s, 3, power(load<u8>(p, 51)));
  }
}

/** 2^(e - 128); the first two are subnormal. */
@inline
export function power(e: u32): f32 {
  return reinterpret<f32>(e < 2 ? 0x200000 << e : (e - 1) << 23);
}


@inline
function value(q: usize): f32 {
  return <f32>(<i32>load<u8>(TABLE + q) - 12);
}

/** `n` weights at px to f32 at py. */
export function dequantizeMXFP4(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = power(load<u8>(px));
    for (let j: usize = 0; j < 16; j++) {
      const q = <usize>load<u8>(px + j, 1);
      store<f32>(py + (j << 2), value(q & 15) * d);
      store<f32>(py + (j << 2), value(q >> 4) * d, 64);
    }
  }
}

/** `n` f32 at px to blocks at py. The exponent is that of the largest magnitude, less 2; each value goes to the nearest. */
export function quantizeMXFP4(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const e = exponent(px);
    const d = power(e);
    store<u8>(py, <u8>e);
    for (let j: usize = 0; j < 16; j++) {
      const lo = nearest(load<f32>(px + (j << 2)), d);
      const hi = nearest(load<f32>(px + (j << 2), 64), d);
      store<u8>(py + j, <u8>(lo | (hi << 4)), 1);
    }
  }
}

function exponent(px: usize): u32 {
  let top: u32 = 0;
  for (const end = px + 128; px < end; px += 4) top = max(top, load<u32>(px) & 0x7fffffff);
  const e = <i32>(top >> 23) - 2;
  return <u32>max(0, min(254, e));
}

// First code with the smallest distance.
function nearest(x: f32, d: f32): u32 {
  let best: u32 = 0;
  let error: f32 = abs(x);
  for (let q: u32 = 1; q < 16; q++) {
    const e = abs(value(q) * d - x);
    if (e < error) {
      error = e;
      best = q;
    }
  }
  return best;
}
