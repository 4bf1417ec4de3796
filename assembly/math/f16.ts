// Conversions between f32 and the 16-bit floats, one value, four values and whole rows. Round to nearest even.
//
//   f16    s eeeee mmmmmmmmmm             largest 65504; above 65519 rounds to infinity; subnormal below 2^-14
//   bf16   s eeeeeeee mmmmmmm             the upper half of an f32
//
// Every code converts exactly: infinities, both zeros and subnormals included. A NaN stays a (quiet) NaN.

// prettier-ignore
const MASKS = memory.data<u32>([
  0x8fffe000, 0x8fffe000, 0x8fffe000, 0x8fffe000,
  0x77800000, 0x77800000, 0x77800000, 0x77800000,
  0x00007c00, 0x00007c00, 0x00007c00, 0x00007c00,
  0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000,
  0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff,
  0xc8000fff, 0xc8000fff, 0xc8000fff, 0xc8000fff,
  0x00000001, 0x00000001, 0x00000001, 0x00000001,
  0x3f000000, 0x3f000000, 0x3f000000, 0x3f000000,
  0x387fffff, 0x387fffff, 0x387fffff, 0x387fffff,
  0x477fefff, 0x477fefff, 0x477fefff, 0x477fefff,
  0x00007e00, 0x00007e00, 0x00007e00, 0x00007e00,
  0x00008000, 0x00008000, 0x00008000, 0x00008000,
  0x00007fff, 0x00007fff, 0x00007fff, 0x00007fff,
  0x00000040, 0x00000040, 0x00000040, 0x00000040,
  0x8fff8fff, 0x8fff8fff, 0x8fff8fff, 0x8fff8fff,
  0x7c007c00, 0x7c007c00, 0x7c007c00, 0x7c007c00,
  0x7f807f80, 0x7f807f80, 0x7f807f80, 0x7f807f80,
  0xfc00fc00, 0xfc00fc00, 0xfc00fc00, 0xfc00fc00,
  0x00002000, 0x00002000, 0x00002000, 0x00002000,
  0x20000000, 0x20000000, 0x20000000, 0x20000000,
  0xffff0000, 0xffff0000, 0xffff0000, 0xffff0000,
], 16);

// Loaded where needed: a v128 constant in the code would cost three instructions at each use.
@inline
function mask(i: usize): v128 {
  return v128.load(MASKS + (i << 4));
}

// Lanes a0 b0 a1 b1 and so on, 16 bits each.
@inline
function interleave16Low(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
}


@inline
function interleave16High(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31);
}

/** Four f16 in the low halves of i32 lanes (upper halves: anything) to f32. */
@inline
export function f16x4ToF32(v: v128): v128 {
  // sign and magnitude to their places, exponent corrected by 2^112: right for subnormals too
  const f = f32x4.mul(v128.and(i32x4.shr_s(i32x4.shl(v, 16), 3), mask(0)), mask(1));
  const special = i32x4.eq(v128.and(v, mask(2)), mask(2));
  return v128.or(f, v128.and(special, mask(3)));
}

/** Eight f16: the upper halves of the f32 they become once multiplied with 2^112 (f16Low, f16High). */
@inline
export function f16Upper(v: v128): v128 {
  const special = i16x8.eq(v128.and(v, mask(15)), mask(15));
  return v128.or(v128.and(i16x8.shr_s(v, 3), mask(14)), v128.and(special, mask(16)));
}

/** The first four of eight f16 as f32; `upper` is their f16Upper(). Cheaper than two times f16x4ToF32(). */
@inline
export function f16Low(v: v128, upper: v128): v128 {
  return f32x4.mul(interleave16Low(i16x8.shl(v, 13), upper), mask(1));
}

/** The last four of eight f16 as f32. */
@inline
export function f16High(v: v128, upper: v128): v128 {
  return f32x4.mul(interleave16High(i16x8.shl(v, 13), upper), mask(1));
}

/** How many times as large as f16Shifted() the numbers are: 2^112. */
export const F16_SHIFT: f32 = 5192296858534827628530496329220096.0;

/** Mask for f16Shifted(). */
@inline
export function f16ShiftMask(): v128 {
  return mask(0);
}

/** Four f16 in sign-extended i32 lanes as f32, 2^-112 times as large. Not for infinities and what is no number. */
@inline
export function f16Shifted(v: v128, m: v128): v128 {
  return v128.and(i32x4.shl(v, 13), m);
}

/** Factors for f16Picked(): for the low and for the high halves of i32 lanes. */
@inline
export function f16PickEven(): v128 {
  return mask(18);
}


@inline
export function f16PickOdd(): v128 {
  return mask(19);
}

/** Those four of eight f16 that the factor is for, as f16Shifted() has them. */
@inline
export function f16Picked(v: v128, factor: v128, m: v128): v128 {
  return v128.and(i32x4.dot_i16x8_s(v, factor), m); // 2^13 times as large
}

/** Four f32 to f16 in zero-extended i32 lanes. */
@inline
export function f32x4ToF16(f: v128): v128 {
  const a = v128.and(f, mask(4));
  const normal = i32x4.shr_u(i32x4.add(i32x4.add(a, mask(5)), v128.and(i32x4.shr_u(a, 13), mask(6))), 13);
  // an f32 addition to 0.5 rounds at 2^-24, the step of f16 subnormals
  const small = i32x4.sub(f32x4.add(a, mask(7)), mask(7));
  let r = v128.bitselect(normal, small, i32x4.gt_s(a, mask(8)));
  r = v128.bitselect(mask(2), r, i32x4.gt_s(a, mask(9)));
  r = v128.bitselect(mask(10), r, i32x4.gt_s(a, mask(3)));
  return v128.or(r, v128.and(i32x4.shr_u(f, 16), mask(11)));
}

/** Four bf16 in the low halves of i32 lanes to f32. */
@inline
export function bf16x4ToF32(v: v128): v128 {
  return i32x4.shl(v, 16);
}

/** What the high halves of i32 lanes are as bf16. */
@inline
export function bf16OddMask(): v128 {
  return mask(20);
}

/** Four f32 to bf16 in zero-extended i32 lanes. */
@inline
export function f32x4ToBf16(f: v128): v128 {
  const odd = v128.and(i32x4.shr_u(f, 16), mask(6));
  const r = i32x4.shr_u(i32x4.add(f, i32x4.add(mask(12), odd)), 16);
  const nan = i32x4.gt_s(v128.and(f, mask(4)), mask(3));
  return v128.bitselect(v128.or(i32x4.shr_u(f, 16), mask(13)), r, nan);
}

/** One f16 to f32. */
export function f16ToF32(h: u32): f32 {
  const f = reinterpret<f32>((h & 0x7fff) << 13) * reinterpret<f32>(0x77800000);
  const special: u32 = (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
  return reinterpret<f32>(reinterpret<u32>(f) | special | ((h & 0x8000) << 16));
}

/** One f32 to f16, zero-extended. */
export function f32ToF16(x: f32): u32 {
  const u = reinterpret<u32>(x);
  const a = u & 0x7fffffff;
  let r: u32;
  if (a > 0x7f800000) r = 0x7e00;
  else if (a > 0x477fefff) r = 0x7c00;
  else if (a > 0x387fffff) r = (a + 0xc8000fff + ((a >> 13) & 1)) >> 13;
  else r = reinterpret<u32>(reinterpret<f32>(a) + 0.5) - 0x3f000000;
  return r | ((u >> 16) & 0x8000);
}

/** One bf16 to f32. */
@inline
export function bf16ToF32(h: u32): f32 {
  return reinterpret<f32>(h << 16);
}

/** One f32 to bf16, zero-extended. */
export function f32ToBf16(x: f32): u32 {
  const u = reinterpret<u32>(x);
  if ((u & 0x7fffffff) > 0x7f800000) return (u >> 16) | 0x40;
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}

/** `n` f16 at px to f32 at py. */
export function f16RowToF32(px: usize, py: usize, n: i32): void {
  const end = py + ((<usize>n) << 2);
  for (const full = py + ((<usize>(n & ~7)) << 2); py < full; py += 32, px += 16) {
    const v = v128.load(px);
    const upper = f16Upper(v);
    v128.store(py, f16Low(v, upper));
    v128.store(py, f16High(v, upper), 16);
  }
  for (; py < end; py += 4, px += 2) store<f32>(py, f16ToF32(load<u16>(px)));
}

/**
 * `rows` rows of n f16, a multiple of 8, bx bytes apart at px, to f32, by bytes apart at py. False when one of them is
 * infinite or no number: then the result is wrong. A good deal faster than row by row.
 */
export function f16RowsToF32(px: usize, bx: usize, py: usize, by: usize, n: i32, rows: i32): bool {
  const m = f16ShiftMask();
  const f = mask(1);
  let positive = i32x4.splat(0);
  let negative = positive;
  for (; rows > 0; rows--, px += bx, py += by) {
    let x = px;
    for (let y = py, end = py + ((<usize>n) << 2); y < end; y += 32, x += 16) {
      const v = v128.load(x);
      positive = i16x8.max_s(positive, v);
      negative = i16x8.max_u(negative, v);
      const low = f32x4.mul(f16Shifted(v128.load16x4_s(x), m), f);
      const high = f32x4.mul(f16Shifted(v128.load16x4_s(x, 8), m), f);
      v128.store(y, high, 16);
      v128.store(y, low);
    }
  }
  return finiteExtremes(positive, negative);
}

/** Whether `rows` rows of `bytes` of f16, a multiple of 32, bp bytes apart at p, are finite numbers. */
export function f16RowsFinite(p: usize, bp: usize, bytes: usize, rows: i32): bool {
  let positive = i32x4.splat(0);
  let negative = positive;
  for (; rows > 0; rows--, p += bp) {
    for (let x = p, end = p + bytes; x < end; x += 32) {
      const a = v128.load(x);
      const b = v128.load(x, 16);
      positive = i16x8.max_s(positive, i16x8.max_s(a, b));
      negative = i16x8.max_u(negative, i16x8.max_u(a, b));
    }
  }
  return finiteExtremes(positive, negative);
}

/** Whether `bytes` of f16 at p, a multiple of 16, are finite numbers. */
export function f16RowFinite(p: usize, bytes: usize): bool {
  let positive = i32x4.splat(0);
  let negative = positive;
  for (const end = p + bytes; p < end; p += 16) {
    const v = v128.load(p);
    positive = i16x8.max_s(positive, v);
    negative = i16x8.max_u(negative, v);
  }
  return finiteExtremes(positive, negative);
}

// Whether the largest f16, as i16 and as u16 of all, are finite: those of both signs.
@inline
function finiteExtremes(positive: v128, negative: v128): bool {
  const special = v128.or(i16x8.ge_s(positive, mask(15)), i16x8.ge_u(negative, mask(17)));
  return !v128.any_true(special);
}

/** `n` f32 at px to f16 at py. */
export function f32RowToF16(px: usize, py: usize, n: i32): void {
  const end = py + ((<usize>n) << 1);
  for (const full = py + ((<usize>(n & ~7)) << 1); py < full; py += 16, px += 32) {
    v128.store(py, i16x8.narrow_i32x4_u(f32x4ToF16(v128.load(px)), f32x4ToF16(v128.load(px, 16))));
  }
  for (; py < end; py += 2, px += 4) store<u16>(py, <u16>f32ToF16(load<f32>(px)));
}

/** `n` bf16 at px to f32 at py. */
export function bf16RowToF32(px: usize, py: usize, n: i32): void {
  const end = py + ((<usize>n) << 2);
  for (const full = py + ((<usize>(n & ~7)) << 2); py < full; py += 32, px += 16) {
    const v = v128.load(px);
    v128.store(py, bf16x4ToF32(i32x4.extend_low_i16x8_u(v)));
    v128.store(py, bf16x4ToF32(i32x4.extend_high_i16x8_u(v)), 16);
  }
  for (; py < end; py += 4, px += 2) store<f32>(py, bf16ToF32(load<u16>(px)));
}

/** `n` f32 at px to bf16 at py. */
export function f32RowToBf16(px: usize, py: usize, n: i32): void {
  const end = py + ((<usize>n) << 1);
  for (const full = py + ((<usize>(n & ~7)) << 1); py < full; py += 16, px += 32) {
    v128.store(py, i16x8.narrow_i32x4_u(f32x4ToBf16(v128.load(px)), f32x4ToBf16(v128.load(px, 16))));
  }
  for (; py < end; py += 2, px += 4) store<u16>(py, <u16>f32ToBf16(load<f32>(px)));
}
