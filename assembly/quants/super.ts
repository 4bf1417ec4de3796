// What the types with super-blocks of 256 share: a group of 16 (or 32) weights has an integer scale of its own.
//
// Their classes describe half a super-block, 128 weights, as four runs of 32 (run j) of two groups of 16 (group h):
//   bytes()              of a super-block
//   wide()               a scale serves 32 weights, not 16
//   signed()             codes are signed bytes; else they are below 128
//   hasMin()             a minimum is subtracted: x = d * sc * q - dmin * m
//   zero()               the code of the value 0: x = d * sc * (q - zero)
//   codes(p, half, j, h) 16 codes as bytes
//   scales(p)            scales as signed bytes, in order
//   mins(p)              m of each 16 weights as bytes, in order
//   d(p), dmin(p)        factors of the super-block

import { Type } from "../abi";

/** A scale of the type serves 32 weights, not 16. */
@inline
export function isWide(type: i32): bool {
  return type == Type.Q4_K || type == Type.Q5_K || type == Type.IQ4_XS;
}

// prettier-ignore
const MASKS = memory.data<u32>([
  0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f, 0x0f0f0f0f,
  0x03030303, 0x03030303, 0x03030303, 0x03030303,
  0x01010101, 0x01010101, 0x01010101, 0x01010101,
], 16);

/** Two bits of each byte, from bit `shift` on. */
@inline
export function twoBits(v: v128, shift: i32): v128 {
  return v128.and(i16x8.shr_u(v, shift), v128.load(MASKS, 16));
}

/** One bit of each byte. */
@inline
export function oneBit(v: v128, shift: i32): v128 {
  return v128.and(i16x8.shr_u(v, shift), v128.load(MASKS, 32));
}

/** The low (half 0) or high nibble of each byte. */
@inline
export function nibble(v: v128, half: i32): v128 {
  return v128.and(half == 0 ? v : i16x8.shr_u(v, 4), v128.load(MASKS));
}

/** Scales of the next half to the front. */
@inline
export function nextScales(s: v128, wide: bool): v128 {
  return wide
    ? i8x16.shuffle(s, s, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)
    : i8x16.shuffle(s, s, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
}

/** A row of `n` weights of class T at px to f32 at py. */
export function dequantizeSuper<T>(px: usize, py: usize, n: i32): void {
  const t = changetype<T>(<usize>0);
  for (const end = py + ((<usize>n) << 2); py < end; px += t.bytes()) {
    let s = t.scales(px);
    let m = t.mins(px);
    for (let half = 0; half < 2; half++) {
      dequantizeHalf<T>(px, py, half, s, m);
      s = nextScales(s, t.wide());
      m = nextScales(m, false);
      py += 512;
    }
  }
}

function dequantizeHalf<T>(px: usize, py: usize, half: i32, s: v128, m: v128): void {
  for (let j = 0; j < 4; j++, py += 128) dequantizeRun<T>(px, py, half, j, s, m);
}


@inline
function dequantizeRun<T>(px: usize, py: usize, half: i32, j: i32, s: v128, m: v128): void {
  const wide = changetype<T>(<usize>0).wide();
  const first = lane(s, wide ? j : 2 * j);
  const second = wide ? first : lane(s, 2 * j + 1);
  dequantizeGroup<T>(px, py, half, j, 0, first, lane(m, 2 * j));
  dequantizeGroup<T>(px, py + 64, half, j, 1, second, lane(m, 2 * j + 1));
}

// Byte i (0..7) as a signed number.
@inline
function lane(v: v128, i: i32): i32 {
  return <i32>(<i8>((<u64>i64x2.extract_lane(v, 0)) >> (i << 3)));
}


@inline
function dequantizeGroup<T>(px: usize, py: usize, half: i32, j: i32, h: i32, s: i32, m: i32): void {
  const t = changetype<T>(<usize>0);
  const d = f32x4.splat(t.d(px) * <f32>s);
  const low = f32x4.splat(t.dmin(px) * <f32>m);
  const q = i8x16.sub(t.codes(px, half, j, h), i8x16.splat(<i8>t.zero()));
  const a = i16x8.extend_low_i8x16_s(q);
  const b = i16x8.extend_high_i8x16_s(q);
  v128.store(py, value(i32x4.extend_low_i16x8_s(a), d, low, t.hasMin()));
  v128.store(py, value(i32x4.extend_high_i16x8_s(a), d, low, t.hasMin()), 16);
  v128.store(py, value(i32x4.extend_low_i16x8_s(b), d, low, t.hasMin()), 32);
  v128.store(py, value(i32x4.extend_high_i16x8_s(b), d, low, t.hasMin()), 48);
}


@inline
function value(q: v128, d: v128, low: v128, hasMin: bool): v128 {
  const x = f32x4.mul(f32x4.convert_i32x4_s(q), d);
  return hasMin ? f32x4.sub(x, low) : x;
}

/** Bit `shift` of 256 codes below 2 << shift to 32 bytes: bit i / 32 of byte i % 32 belongs to code i. */
export function packTops(pl: usize, shift: i32, py: usize): void {
  memory.fill(py, 0, 32);
  for (let i: usize = 0; i < 256; i++) {
    const p = py + (i & 31);
    const top = (<u32>load<u8>(pl + i)) >> shift;
    store<u8>(p, load<u8>(p) | (top << ((<u32>i) >> 5)));
  }
}
