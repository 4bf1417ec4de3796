// Dot products and horizontal sums. The only file that names relaxed instructions.
//
// A "code vector" holds small integers of one block in dot order, and the activations follow the same order:
//   relaxed   i8x16: 16 consecutive k; four products per i32 lane. The operand q must lie in 0..127: then every engine
//             gives the exact sum
//   baseline  i16x8: the even, then the odd k of 16 consecutive ones; two products per i32 lane
// Integer sums are exact, so both builds agree in every bit. Floats are fused by madd() only.

import { CTRL_VECTORS, CTRL_WIDE } from "../abi";

/** Code vectors per block of 32. */
export const VECTORS: i32 = ASC_FEATURE_RELAXED_SIMD ? 2 : 4;

// prettier-ignore
const MASKS = memory.data<u32>([
  0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f,
  0x000f000f, 0x000f000f, 0x000f000f, 0x000f000f,
  0x00ff00ff, 0x00ff00ff, 0x00ff00ff, 0x00ff00ff,
  0x00010001, 0x00010001, 0x00010001, 0x00010001,
  0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
], 16);

/** acc + products of x (any sign) and q (0..127 in the relaxed build). */
@inline
export function dotq(x: v128, q: v128, acc: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(x, q, acc);
  else return i32x4.add(acc, i32x4.dot_i16x8_s(x, q));
}

/**
 * acc + a * b of f32. In the relaxed build rounded once, where the engine has an instruction for that, and always in the same
 * way; in the baseline build rounded twice. A pair of factors -0 and +0 leaves every acc as it is.
 */
@inline
export function madd(a: v128, b: v128, acc: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, acc);
  else return f32x4.add(acc, f32x4.mul(a, b));
}

/** True where dotq() is a row of instructions, as on x86 without VNNI: there kernels sum pairs of products first. */
@inline
export function sumsPairs(): bool {
  return ASC_FEATURE_RELAXED_SIMD && wideDot() == WIDE_NONE;
}

/** Products of x (any sign) and q (0..127; 0..128 where selfTest() is passed), in pairs, i16; for the relaxed build. */
@inline
export function productPairs(x: v128, q: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i16x8.relaxed_dot_i8x16_i7x16_s(x, q);
  else return unreachable();
}

/** acc + products of x (any sign) and q (0..127), in pairs, i16; for the relaxed build. The caller keeps sums within i16. */
@inline
export function dotPairs(x: v128, q: v128, acc: v128): v128 {
  return i16x8.add(acc, productPairs(x, q));
}

/** acc + the sums of dotPairs(), two to an i32 lane; `ones` is onesPairs(). */
@inline
export function joinPairs(v: v128, acc: v128, ones: v128): v128 {
  return i32x4.add(acc, i32x4.dot_i16x8_s(v, ones));
}

/** Products as of productPairs(), four to an i32 lane; `ones` is onesPairs(). */
@inline
export function fours(x: v128, q: v128, ones: v128): v128 {
  return i32x4.dot_i16x8_s(productPairs(x, q), ones);
}

/** acc + signed codes w times magnitudes x under the masks s (SIGNS of matmul/columns.ts): one pair is all that fits i16. */
@inline
export function dotSigns(w: v128, s: v128, x: v128, acc: v128, ones: v128): v128 {
  return joinPairs(productPairs(v128.xor(w, s), x), acc, ones);
}

/** From memory, like all masks. */
@inline
export function onesPairs(): v128 {
  return v128.load(MASKS, 48);
}

/** The same of -1, which turns the sign round. */
@inline
export function negativePairs(): v128 {
  return v128.load(MASKS, 64);
}

/** Four f32 cut to integers. Finite and in range: then every engine gives the same. */
@inline
export function truncated(v: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_trunc_f32x4_s(v);
  else return i32x4.trunc_sat_f32x4_s(v);
}

/** What an engine's relaxed dot makes of operand q beyond 0..127, where it is exact: nothing known, u8, or i8. */
export const WIDE_NONE: i32 = 0;
export const WIDE_UNSIGNED: i32 = 1;
export const WIDE_SIGNED: i32 = 2;

/** What probeDot() found on this engine. */
@inline
export function wideDot(): i32 {
  if (ASC_FEATURE_RELAXED_SIMD) return load<i32>(CTRL_WIDE);
  else return WIDE_NONE;
}

/** True where dots take signed bytes, so that 128 as second operand counts as -128. */
export function takesSigned(): bool {
  // 15 times 255: from memory, so that no compiler works it out
  const v = productPairs(v128.load(MASKS), v128.load(MASKS, 32));
  return wideDot() == WIDE_SIGNED || i16x8.extract_lane_s(v, 0) < 0;
}

/** True where kernels may keep twice the sums, because pairs of vectors share a register. */
@inline
export function pairsVectors(): bool {
  return load<i32>(CTRL_VECTORS) != 0;
}

/** Signed bytes as the second operand of dotq() where wideDot() allows it: xor with this, the code of 0 is wideZero(). */
@inline
export function wideBias(): v128 {
  return i8x16.splat(wideDot() == WIDE_UNSIGNED ? <i8>0x80 : 0);
}

/** The code of 0 in such bytes. */
@inline
export function wideZero(): i32 {
  return wideDot() == WIDE_UNSIGNED ? 128 : 0;
}

/** Entries of a table of 16 bytes; indices below 16. */
@inline
export function lookup(table: v128, v: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i8x16.relaxed_swizzle(table, v);
  else return i8x16.swizzle(table, v);
}

/** Mask for nibbles(). From memory: a v128 constant in a loop would be made anew at every use. */
@inline
export function nibbleMask(): v128 {
  return v128.load(MASKS + (ASC_FEATURE_RELAXED_SIMD ? 0 : 16));
}

/** Code vector i of 16 bytes whose low nibbles are elements 0..15 and whose high nibbles are elements 16..31. */
@inline
export function nibbles(v: v128, i: i32, m: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) {
    return v128.and(i == 0 ? v : i16x8.shr_u(v, 4), m);
  } else {
    if (i == 3) return i16x8.shr_u(v, 12);
    return v128.and(i == 0 ? v : i16x8.shr_u(v, i == 1 ? 8 : 4), m);
  }
}

/** Code vector i of 32 signed bytes at p. */
@inline
export function bytes(p: usize, i: i32): v128 {
  return signedCodes(v128.load(p + ((<usize>halfOf(i)) << 4)), i);
}

/** Which 16 of the 32 elements code vector i holds. */
@inline
export function halfOf(i: i32): i32 {
  return ASC_FEATURE_RELAXED_SIMD ? i : i >> 1;
}

/** Code vector i out of its 16 codes as signed bytes. */
@inline
export function signedCodes(v: v128, i: i32): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return v;
  else return i16x8.shr_s((i & 1) == 1 ? v : i16x8.shl(v, 8), 8);
}

/** Code vector i out of its 16 codes as unsigned bytes. */
@inline
export function unsignedCodes(v: v128, i: i32): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return v;
  else return (i & 1) == 1 ? i16x8.shr_u(v, 8) : v128.and(v, v128.load(MASKS, 32));
}

/** The low (half 0) or high nibbles of 16 bytes, as bytes; m is byteMask(). */
@inline
export function nibbleBytes(v: v128, half: i32, m: v128): v128 {
  return v128.and(half == 0 ? v : i16x8.shr_u(v, 4), m);
}

/** Mask for nibbleBytes(). */
@inline
export function byteMask(): v128 {
  return v128.load(MASKS);
}

/** Lane i of the result is the sum of the lanes of argument i. */
@inline
export function sums4(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = i32x4.add(interleaveLow(a, b), interleaveHigh(a, b));
  const cd = i32x4.add(interleaveLow(c, d), interleaveHigh(c, d));
  return i32x4.add(
    i8x16.shuffle(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(ab, cd, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
}

/** The same of pairs of i16. */
@inline
export function pairs4(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = i16x8.add(interleaveLow(a, b), interleaveHigh(a, b));
  const cd = i16x8.add(interleaveLow(c, d), interleaveHigh(c, d));
  return i16x8.add(
    i8x16.shuffle(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(ab, cd, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
}

/** Sum of the four i32 lanes. */
@inline
export function sumI32(v: v128): i32 {
  const t = i32x4.add(v, i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return i32x4.extract_lane(t, 0) + i32x4.extract_lane(t, 1);
}

/** Sum of the four f32 lanes, (0 + 2) + (1 + 3). */
@inline
export function sumF32(v: v128): f32 {
  const t = f32x4.add(v, i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  return f32x4.extract_lane(t, 0) + f32x4.extract_lane(t, 1);
}

/** Lanes a0 b0 a1 b1, 32 bits each. */
@inline
export function interleaveLow(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
}

/** Lanes a2 b2 a3 b3, 32 bits each. */
@inline
export function interleaveHigh(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
}

/** Writes the transpose of four vectors of 32-bit lanes: lane i of a, b, c, d goes to p + i * step. */
@inline
export function storeTransposed(p: usize, step: usize, a: v128, b: v128, c: v128, d: v128): void {
  const ac0 = interleaveLow(a, c);
  const ac1 = interleaveHigh(a, c);
  const bd0 = interleaveLow(b, d);
  const bd1 = interleaveHigh(b, d);
  v128.store(p, interleaveLow(ac0, bd0));
  v128.store(p + step, interleaveHigh(ac0, bd0));
  v128.store(p + 2 * step, interleaveLow(ac1, bd1));
  v128.store(p + 3 * step, interleaveHigh(ac1, bd1));
}
