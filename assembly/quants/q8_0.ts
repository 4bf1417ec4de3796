// Q8_0: 32 values in 34 bytes, x = d * q. Weights, and the activations that the 32-blocks are multiplied with.
//
//   0 d f16 | 2 qs[32] i8

import { halfOf, signedCodes, sumI32, truncated } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";

const BYTES: usize = 34;

// prettier-ignore
const MASKS = memory.data<u32>([
  0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff,
  0x80000000, 0x80000000, 0x80000000, 0x80000000,
  0x3effffff, 0x3effffff, 0x3effffff, 0x3effffff,
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
    const d = largestOf32(px) / 127;
    store<u16>(py, <u16>f32ToF16(d));
    roundCodes(px, d != 0 ? 1 / d : 0, py + 2);
  }
}

/** Largest magnitude of 32 f32; NaN if there is one. */
export function largestOf32(px: usize): f32 {
  const magnitude = v128.load(MASKS);
  let m = v128.and(v128.load(px), magnitude);
  for (let j: usize = 16; j < 128; j += 16) m = i32x4.max_s(m, v128.and(v128.load(px + j), magnitude));
  return largestOf4(m);
}

/** The largest of four magnitudes. They compare as their bits do, NaN above all. */
@inline
export function largestOf4(m: v128): f32 {
  m = i32x4.max_s(m, i8x16.shuffle(m, m, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return reinterpret<f32>(max<i32>(i32x4.extract_lane(m, 0), i32x4.extract_lane(m, 1)));
}

/**
 * 32 f32 at px times `id`, rounded half away from zero, to signed bytes at pq; returns their sum. All are 0 unless
 * `id` is positive; then the products are in the range of a byte.
 */
export function roundCodes(px: usize, id: f32, pq: usize): i32 {
  if (!(id > 0)) {
    memory.fill(pq, 0, 32);
    return 0;
  }
  const s = f32x4.splat(min<f32>(id, f32.MAX_VALUE));
  const sign = v128.load(MASKS, 16);
  const half = v128.load(MASKS, 32);
  let sum = i16x8.splat(0);
  for (const end = pq + 32; pq < end; pq += 16, px += 64) {
    const lo = i16x8.narrow_i32x4_s(code(px, s, sign, half), code(px + 16, s, sign, half));
    const hi = i16x8.narrow_i32x4_s(code(px + 32, s, sign, half), code(px + 48, s, sign, half));
    const q = i8x16.narrow_i16x8_s(lo, hi);
    v128.store(pq, q);
    sum = i16x8.add(sum, i16x8.extadd_pairwise_i8x16_s(q));
  }
  return sumI32(i32x4.extadd_pairwise_i16x8_s(sum));
}

// Four values. `half` is the float before 0.5: with 0.5 itself the one before a half would be rounded up to the next.
@inline
function code(p: usize, id: v128, sign: v128, half: v128): v128 {
  const v = f32x4.mul(v128.load(p), id);
  return truncated(f32x4.add(v, v128.or(v128.and(v, sign), half)));
}
