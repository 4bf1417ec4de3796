// Q8_1: 32 activations in 36 bytes, x = d * q. Partner of the types whose blocks have a minimum.
//
//   0 d f16 | 2 s f16 = d * sum of q | 4 qs[32] i8

import { f16ToF32, f32ToF16 } from "../math/f16";
import { largestOf32, roundCodes } from "./q8_0";

const BYTES: usize = 36;

/** `n` f32 at px to blocks at py; byte for byte what ggml makes. */
export function quantizeQ8_1(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const d = largestOf32(px) / 127;
    store<u16>(py, <u16>f32ToF16(d));
    const sum = roundCodes(px, d != 0 ? 1 / d : 0, py + 4);
    store<u16>(py, <u16>f32ToF16(<f32>sum * d), 2);
  }
}

/** `n` values at px to f32 at py. */
export function dequantizeQ8_1(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    for (let q = px + 4, last = px + BYTES; q < last; q++, py += 4) store<f32>(py, <f32>load<i8>(q) * d);
  }
}
