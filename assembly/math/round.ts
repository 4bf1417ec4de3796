// Sums and maxima over the lanes of a vector, always in the same order, and rounding as C's roundf.

/** Largest lane; a NaN lane loses. */
@inline
export function hmax(x: v128): f32 {
  let t = i8x16.shuffle(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  t = f32x4.pmax(t, x);
  const a = f32x4.extract_lane(t, 0);
  const b = f32x4.extract_lane(t, 1);
  return b > a ? b : a;
}

/** Four f32 as two f64 sums of lanes (x0 + x2, x1 + x3). */
@inline
export function widenSum(x: v128): v128 {
  const high = i8x16.shuffle(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  return f64x2.add(f64x2.promote_low_f32x4(x), f64x2.promote_low_f32x4(high));
}

/** Sum of both lanes. */
@inline
export function hsum2(x: v128): f64 {
  return f64x2.extract_lane(x, 0) + f64x2.extract_lane(x, 1);
}

/** Nearest integers, half away from zero (f32x4.nearest goes to even). */
@inline
export function roundAway4(x: v128): v128 {
  const t = f32x4.trunc(x);
  const half = f32x4.ge(f32x4.abs(f32x4.sub(x, t)), f32x4.splat(0.5));
  const sign = v128.and(x, i32x4.splat(i32.MIN_VALUE));
  const one = v128.and(half, f32x4.splat(1));
  return v128.or(f32x4.add(t, v128.or(one, v128.and(half, sign))), sign);
}
