// Blocks of 32 in the old types by search, the errors weighed by the importance of their columns. The row is whole: its
// mean square is part of the weights. Layouts: q4_0.ts, q4_1.ts, q5_0.ts, q5_1.ts.

import { f32ToF16 } from "../math/f16";
import { at, hasBad, MINIMA, OTHER, searchRange, searchSymmetric, squares, WEIGHTS } from "./search";
import { BAD } from "./super_search";

/** Codes of `bits` bits around zero, x = d (l - 2^(bits - 1)), or above a minimum; pq importance, ps scratch. */
export function quantizeWeighted(
  bits: i32,
  hasMin: bool,
  px: usize,
  pq: usize,
  py: usize,
  n: i32,
  ps: usize,
): void {
  const sigma = squares(px, n) / <f32>n;
  const bytes: usize = (hasMin ? 4 : 2) + (bits == 5 ? 20 : 16);
  for (const end = px + ((<usize>n) << 2); px < end; px += 128, pq += 128, py += bytes) {
    for (let i = 0; i < 32; i++) {
      const x = at(px, i);
      store<f32>(ps + WEIGHTS + ((<usize>i) << 2), at(pq, i) * sqrt<f32>(sigma + x * x));
    }
    const d = hasMin
      ? ranged(px, ps, (1 << bits) - 1)
      : searchSymmetric(1 << (bits - 1), px, ps + WEIGHTS, 32, ps);
    store<u16>(py, hasBad(px, 32) ? BAD : <u16>f32ToF16(d));
    if (hasMin) store<u16>(py, <u16>f32ToF16(-load<f32>(ps + MINIMA)), 2);
    pack(bits, ps, py + (hasMin ? 4 : 2));
  }
}

function ranged(px: usize, ps: usize, N: i32): f32 {
  return searchRange(N, px, ps + WEIGHTS, 32, ps, ps + OTHER, ps + MINIMA, -0.9, 0.05, 36, false);
}

// The fifth bits of 32 codes as a word where there are any, then the low nibbles.
function pack(bits: i32, pl: usize, py: usize): void {
  if (bits == 5) {
    let h: u32 = 0;
    for (let j: u32 = 0; j < 32; j++) h |= ((<u32>load<u8>(pl + j)) >> 4) << j;
    store<u32>(py, h);
    py += 4;
  }
  for (let j: usize = 0; j < 16; j++)
    store<u8>(py + j, (load<u8>(pl + j) & 15) | (load<u8>(pl + j, 16) << 4));
}
