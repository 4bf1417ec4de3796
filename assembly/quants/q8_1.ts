// Q8_1: 32 activations in 36 bytes, x = d * q. Partner of the types whose blocks have a minimum.
//
//   0 d f16 | 2 s f16 = d * sum of q | 4 qs[32] i8

import { sumI32 } from "../math/dot";
import { f16ToF32, f32ToF16 } from "../math/f16";
import { quantize32 } from "./q8_0";

const BYTES: usize = 36;

/** `n` f32 at px to blocks at py; byte for byte what ggml makes. */
export function quantizeQ8_1(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const d = quantize32(px, py + 4);
    store<u16>(py, <u16>f32ToF16(d));
    store<u16>(py, <u16>f32ToF16(<f32>sum32(py + 4) * d), 2);
  }
}

// Sum of 32 codes.
@inline
function sum32(p: usize): i32 {
  const a = i16x8.extadd_pairwise_i8x16_s(v128.load(p));
  return sumI32(i32x4.extadd_pairwise_i16x8_s(i16x8.add(a, i16x8.extadd_pairwise_i8x16_s(v128.load(p, 16)))));
}

/** `n` values at px to f32 at py. */
export function dequantizeQ8_1(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    for (let q = px + 4, last = px + BYTES; q < last; q++, py += 4) store<f32>(py, <f32>load<i8>(q) * d);
  }
}
