// Four rows of a block type interleaved in the bytes they take in the file: what the types share (quants/quads.ts).
//
// A vector of codes holds four consecutive k of each row: [row 0][row 1][row 2][row 3], four bytes each, so that one dot
// with four activations feeds four rows and lane r of every sum belongs to row r.
//
// Scales are stored lifted, as f16(d * 2^10): exact below 64, and no f32 operand is ever subnormal, which would cost
// some 50 cycles each.

import { storeTransposed } from "../math/dot";

// Two quads lie side by side, field by field: vectors of the same four activations are 32 bytes.

/** Rows of a pair of quads, which is what lies together. */
export const PAIR_ROWS: i32 = 8;

// prettier-ignore
const MASKS = memory.data<u32>([
  0x8fffe000, 0x8fffe000, 0x8fffe000, 0x8fffe000,
  0x72800000, 0x72800000, 0x72800000, 0x72800000,
  0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f,
  0x1f1f1f1f, 0x1f1f1f1f, 0x1f1f1f1f, 0x1f1f1f1f,
  0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f, 0x3f3f3f3f,
  0x07070707, 0x07070707, 0x07070707, 0x07070707,
  0x18181818, 0x18181818, 0x18181818, 0x18181818,
  0x08080808, 0x08080808, 0x08080808, 0x08080808,
  0x10101010, 0x10101010, 0x10101010, 0x10101010,
  0x03030303, 0x03030303, 0x03030303, 0x03030303,
  0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c,
  0x30303030, 0x30303030, 0x30303030, 0x30303030,
  0x00ff00ff, 0x00ff00ff, 0x00ff00ff, 0x00ff00ff,
  0x000000ff, 0x000000ff, 0x000000ff, 0x000000ff,
  0x20202020, 0x20202020, 0x20202020, 0x20202020,
  0x38383838, 0x38383838, 0x38383838, 0x38383838,
  0x0000000f, 0x0000000f, 0x0000000f, 0x0000000f,
  0x000f000f, 0x000f000f, 0x000f000f, 0x000f000f,
], 16);

/** Places of masks, for quadMask(): sign and magnitude of a lifted f16, the factor 2^102, bits of each byte. */
export const LIFTED: usize = 0;
export const LIFT: usize = 16;
export const X0F: usize = 32;
export const X1F: usize = 48;
export const X3F: usize = 64;
export const X07: usize = 80;
export const X18: usize = 96;
export const X08: usize = 112;
export const X10: usize = 128;
export const X03: usize = 144;
export const X0C: usize = 160;
export const X30: usize = 176;
/** even bytes; the lowest byte of each 32-bit lane */
export const EVEN: usize = 192;
export const LOW: usize = 208;
/** 32 in each byte */
export const X20: usize = 224;
/** the upper three of six bits */
export const X38: usize = 240;
/** the low nibble of each 32-bit lane; of each even byte */
export const LOW_NIBBLE: usize = 256;
export const EVEN_NIBBLES: usize = 272;

/** A mask. To be loaded into a local before a loop: a v128 constant would be made anew at every use. */
@inline
export function quadMask(at: usize): v128 {
  return v128.load(MASKS + at);
}

/** Bits `s` and above of each byte, cut to `m`. */
@inline
export function bitsFrom(v: v128, s: i32, m: v128): v128 {
  return v128.and(i16x8.shr_u(v, s), m);
}

/** Each byte moved up by `s` bits, cut to `m`. */
@inline
export function bitsTo(v: v128, s: i32, m: u8): v128 {
  return v128.and(i16x8.shl(v, s), i8x16.splat(<i8>m));
}

/** Four lifted scales at p to f32; the masks are LIFTED and LIFT. */
@inline
export function liftedScales(p: usize, lifted: v128, lift: v128): v128 {
  return lowered(v128.load16x4_s(p), lifted, lift);
}

/** Four lifted scales, sign-extended to 32 bits, to f32. */
@inline
export function lowered(v: v128, lifted: v128, lift: v128): v128 {
  return f32x4.mul(v128.and(i32x4.shl(v, 13), lifted), lift);
}

/** Four stored exponents of MXFP4 at p as 2^(e - 128). */
@inline
export function powers(p: usize): v128 {
  return powersOf(i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(v128.load32_zero(p))));
}

/** Four stored exponents, one a lane, likewise: they are those of an f32. */
@inline
export function powersOf(e: v128): v128 {
  return i32x4.shl(e, 23);
}

/**
 * True when the scale of the block of MXFP4 at p is a normal f32, which stored exponents must be, or counts for nothing: the
 * exponent of a block of zeros is 0.
 */
export function isNormal(p: usize): bool {
  const e = load<u8>(p);
  return e > 1 || (e == 0 && ((load<u64>(p, 1) | load<u64>(p, 9)) & 0x7777777777777777) == 0);
}

/** The exponent of a block of MXFP4 as it is stored: that of the f32; 0 stays 0. */
@inline
export function storedExponent(e: u8): u8 {
  return e == 0 ? 0 : e - 1;
}

/** The inverse. */
@inline
export function fileExponent(e: u8): u8 {
  return e == 0 ? 0 : e + 1;
}

/** True when an f16 is finite and below 64 in magnitude, so that 2^10 times it is an f16. */
@inline
export function isLiftable(h: u32): bool {
  return (h & 0x7c00) <= 0x5000;
}

// f16 times 2^10.
function lift(h: u32): u32 {
  if ((h & 0x7c00) != 0) return h + 0x2800;
  const m = h & 0x3ff;
  if (m == 0) return h;
  const top = 31 - clz<u32>(m);
  return (h & 0x8000) | ((top + 1) << 10) | ((m << (10 - top)) & 0x3ff);
}

// The inverse.
function unlift(h: u32): u32 {
  const e = (h >> 10) & 31;
  if (e == 0) return h;
  if (e > 10) return h - 0x2800;
  return (h & 0x8000) | (((h & 0x3ff) | 0x400) >> (11 - e));
}

/** Scales of four rows, `step` bytes apart, lifted to pq. */
export function liftScales(p: usize, step: usize, pq: usize): void {
  for (const end = pq + 8; pq < end; pq += 2, p += step) store<u16>(pq, <u16>lift(load<u16>(p)));
}

/** Lifted scales at pq to four rows, `step` bytes apart. */
export function unliftScales(pq: usize, p: usize, step: usize): void {
  for (const end = pq + 8; pq < end; pq += 2, p += step) store<u16>(p, <u16>unlift(load<u16>(pq)));
}

/** The f16 scale of a row of a quad. */
@inline
export function scaleOf(pq: usize, row: i32): u32 {
  return unlift(load<u16>(pq + ((<usize>row) << 1)));
}

/** Where the scales of quad h of a block of a pair at pq stand, its minima 16 bytes on; of MXFP4 at pq + 4h instead. */
@inline
export function factorsAt(pq: usize, h: i32): usize {
  return pq + ((<usize>h) << 3);
}

/** Where the vectors of quad h start that would start at `at` if it lay by itself. */
@inline
export function vectorsAt(pq: usize, h: i32, at: usize): usize {
  return pq + 2 * at + ((<usize>h) << 4);
}

/** Bytes between the vectors of a quad, which those of the other stand between. */
export const STEP: usize = 32;

/** 16 bytes of each of four rows, `step` apart, to four vectors of a quad at pq. */
@inline
export function interleave(p: usize, step: usize, pq: usize): void {
  const a = v128.load(p);
  const b = v128.load(p + step);
  storeTransposed(pq, STEP, a, b, v128.load(p + 2 * step), v128.load(p + 3 * step));
}

/** And back. */
@inline
export function separate(pq: usize, p: usize, step: usize): void {
  const a = v128.load(pq);
  const b = v128.load(pq + STEP);
  storeTransposed(p, step, a, b, v128.load(pq + 2 * STEP), v128.load(pq + 3 * STEP));
}
