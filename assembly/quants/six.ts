// The six-bit scales and minima of Q4_K and Q5_K: eight of each in 12 bytes.
//
//   scale k < 4: byte k, low six bits        scale k >= 4: low nibble of byte k + 4, top two bits of byte k - 4
//   min k < 4: byte k + 4, low six bits      min k >= 4: high nibble of byte k + 4, top two bits of byte k

import { BLOCK_MINIMA, BLOCK_SCALES } from "./search";

/** Eight scales as bytes, in the low half. */
@inline
export function sixBitScales(p: usize): v128 {
  return joined(load<u32>(p), load<u32>(p, 8));
}

/** Eight minima as bytes, each twice. */
@inline
export function sixBitMins(p: usize): v128 {
  const m = joined(load<u32>(p, 4), load<u32>(p, 8) >> 4);
  return i8x16.shuffle(m, m, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
}


@inline
function joined(a: u32, b: u32): v128 {
  const low = a & 0x3f3f3f3f;
  const high = (b & 0x0f0f0f0f) | ((a >> 2) & 0x30303030);
  return i64x2.splat((<u64>low) | ((<u64>high) << 32));
}

/** Factors d, and what search.ts left of scales and minima at ps, to the first 16 bytes of a block. */
export function packSixes(d: v128, ps: usize, py: usize): void {
  store<u16>(py, <u16>i32x4.extract_lane(d, 0));
  store<u16>(py, <u16>i32x4.extract_lane(d, 1), 2);
  for (let k: usize = 0; k < 4; k++) {
    const s = load<u8>(ps + BLOCK_SCALES + k, 4);
    const m = load<u8>(ps + BLOCK_MINIMA + k, 4);
    store<u8>(py + k, load<u8>(ps + BLOCK_SCALES + k) | ((s >> 4) << 6), 4);
    store<u8>(py + k, load<u8>(ps + BLOCK_MINIMA + k) | ((m >> 4) << 6), 8);
    store<u8>(py + k, (s & 15) | ((m & 15) << 4), 12);
  }
}
