// Q8_K: 256 activations in 292 bytes, x = d * q. Partner of the types with super-blocks.
//
//   0 d f32 | 4 qs[256] i8 | 260 sums[16] i16 of 16 codes each

import { truncated } from "../math/dot";
import { largestOf4 } from "./q8_0";

const BYTES: usize = 292;

/** `n` f32 at px to blocks at py; byte for byte what ggml makes. A value that is not finite makes its block NaN. */
export function quantizeQ8_K(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 1024, py += BYTES) {
    const top = extreme256(px);
    const id: f32 = top != 0 ? -127 / top : 0;
    store<f32>(py, id != 0 ? 1 / id : top);
    if (!(abs(id) > 0)) {
      memory.fill(py + 4, 0, 288);
      continue;
    }
    const s = f32x4.splat(min<f32>(max<f32>(id, -f32.MAX_VALUE), f32.MAX_VALUE));
    for (let j: usize = 0; j < 256; j += 16) {
      const p = px + (j << 2);
      const lo = i16x8.narrow_i32x4_s(code(p, s), code(p + 16, s));
      const hi = i16x8.narrow_i32x4_s(code(p + 32, s), code(p + 48, s));
      const q = i8x16.narrow_i16x8_s(lo, hi);
      v128.store(py + j, q, 4);
      store<i16>(py + (j >> 3), <i16>sumOf(q), 260);
    }
  }
}

/** `n` values at px to f32 at py. */
export function dequantizeQ8_K(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; px += BYTES) {
    const d = load<f32>(px);
    for (let j: usize = 0; j < 256; j++, py += 4) store<f32>(py, d * <f32>load<i8>(px + j, 4));
  }
}

// Element with the largest magnitude, the first of equals; NaN if there is one that is not finite.
function extreme256(px: usize): f32 {
  const magnitude = i32x4.splat(0x7fffffff);
  let m = v128.and(v128.load(px), magnitude);
  for (let p = px + 16; p < px + 1024; p += 16) m = i32x4.max_s(m, v128.and(v128.load(p), magnitude));
  const top = largestOf4(m);
  if (!(top < Infinity)) return NaN;
  const t = f32x4.splat(top);
  while (!v128.any_true(f32x4.eq(v128.and(v128.load(px), magnitude), t))) px += 16;
  while (abs(load<f32>(px)) != top) px += 4;
  return load<f32>(px);
}

// Four values; finite.
@inline
function code(p: usize, s: v128): v128 {
  return truncated(f32x4.nearest(f32x4.mul(v128.load(p), s)));
}


@inline
function sumOf(q: v128): i32 {
  const s = i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(q));
  const t = i32x4.add(s, i8x16.shuffle(s, s, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return i32x4.extract_lane(t, 0) + i32x4.extract_lane(t, 1);
}
