// Q8_0: 32 values in 34 bytes, x = d * q. Weights, and the activations that the 32-blocks are multiplied with.
//
//   0 d f16 | 2 qs[32] i8

import { halfOf, signedCodes, truncated } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";

const BYTES: usize = 34;

// prettier-ignore
const MASKS = memory.data<u32>([
  0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff,
  0x80000000, 0x80000000, 0x80000000, 0x80000000,
  0x3effffff, 0x3effffff, 0x3effffff, 0x3effffff,
  0x42fe0000, 0x42fe0000, 0x42fe0000, 0x42fe0000, // 127
  0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000, // 1
  0x7f7fffff, 0x7f7fffff, 0x7f7fffff, 0x7f7fffff, // the largest f32
], 16);

/** The block as the integer dot products see it. */
@unmanaged
export class Q8_0 {

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
    return i32x4.splat(0);
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p, 2);
  }


  @inline
  second(p: usize): v128 {
    return v128.load(p, 18);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return signedCodes(halfOf(i) == 0 ? a : b, i);
  }


  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 34);
    h = v128.load16_lane(p, h, 4, 68);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 102));
  }
}

/** `n` values at px to f32 at py. */
export function dequantizeQ8_0(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f32x4.splat(f16ToF32(load<u16>(px)));
    for (let j: usize = 0; j < 32; j += 4) {
      const q = i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(v128.load32_zero(px + j, 2)));
      v128.store(py + (j << 2), f32x4.mul(f32x4.convert_i32x4_s(q), d));
    }
  }
}

/** `n` f32 at px to blocks at py; byte for byte what ggml makes. A value that is not finite makes its block NaN. */
export function quantizeQ8_0(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    store<u16>(py, <u16>f32ToF16(quantize32(px, py + 2)));
  }
}

/**
 * 32 f32 at px to codes at pq, rounded half away from zero; returns their scale. It stays in all lanes of a vector: to
 * take it out and back costs as much as all the rest. Codes are 0 where the scale is 0, infinite or NaN.
 */
@inline
export function quantize32(px: usize, pq: usize): f32 {
  const d = f32x4.div(largest32(px), v128.load(MASKS, 48));
  const id = f32x4.div(v128.load(MASKS, 64), d);
  const zero = i32x4.splat(0);
  const counts = v128.and(f32x4.gt(d, zero), f32x4.gt(id, zero));
  const s = f32x4.pmin(id, v128.load(MASKS, 80));
  v128.store(pq, v128.and(codes16(px, s), counts));
  v128.store(pq, v128.and(codes16(px + 64, s), counts), 16);
  return f32x4.extract_lane(d, 0);
}

// In all lanes the largest magnitude of 32 f32. They compare as their bits do, NaN above all.
@inline
function largest32(p: usize): v128 {
  const m = v128.load(MASKS);
  const a = larger(
    larger(magnitude(p, m), magnitude(p + 16, m)),
    larger(magnitude(p + 32, m), magnitude(p + 48, m)),
  );
  p += 64;
  const b = larger(
    larger(magnitude(p, m), magnitude(p + 16, m)),
    larger(magnitude(p + 32, m), magnitude(p + 48, m)),
  );
  const c = larger(a, b);
  const t = larger(c, i8x16.shuffle(c, c, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return larger(t, i8x16.shuffle(t, t, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
}


@inline
function larger(a: v128, b: v128): v128 {
  return i32x4.max_s(a, b);
}


@inline
function magnitude(p: usize, m: v128): v128 {
  return v128.and(v128.load(p), m);
}

// 16 f32 times `s` as bytes.
@inline
function codes16(p: usize, s: v128): v128 {
  const sign = v128.load(MASKS, 16);
  const half = v128.load(MASKS, 32);
  const lo = i16x8.narrow_i32x4_s(code(p, s, sign, half), code(p + 16, s, sign, half));
  const hi = i16x8.narrow_i32x4_s(code(p + 32, s, sign, half), code(p + 48, s, sign, half));
  return i8x16.narrow_i16x8_s(lo, hi);
}

/** The largest of four magnitudes. They compare as their bits do, NaN above all. */
@inline
export function largestOf4(m: v128): f32 {
  m = i32x4.max_s(m, i8x16.shuffle(m, m, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return reinterpret<f32>(max<i32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)));
}

// Four values. `half` is the float before 0.5: with 0.5 itself the one before a half would be rounded up to the next.
@inline
function code(p: usize, id: v128, sign: v128, half: v128): v128 {
  const v = f32x4.mul(v128.load(p), id);
  return truncated(f32x4.add(v, v128.or(v128.and(v, sign), half)));
}
