// The fifth bits of Q5_0 and Q5_1: bit j of a u32 belongs to element j.

import { nibbleBytes } from "../math/dot";

// prettier-ignore
const BITS = memory.data<u8>([
  1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
  16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
], 16);

/** 16 codes 0..31 as bytes: the low (half 0) or high nibbles of v with the bits of the u32 that h holds four times. */
@inline
export function fiveBits(v: v128, h: v128, half: i32, m: v128): v128 {
  const spread =
    half == 0
      ? i8x16.shuffle(h, h, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
      : i8x16.shuffle(h, h, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const bits = v128.load(BITS);
  const set = i8x16.eq(v128.and(spread, bits), bits);
  return v128.or(nibbleBytes(v, half, m), v128.and(set, v128.load(BITS, 16)));
}

/** Bit 4 of code j, of the u32 h. */
@inline
export function fifth(h: u32, j: u32): i32 {
  return <i32>(((h >> j) & 1) << 4);
}
