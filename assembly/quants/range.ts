// Extremes of a block of 32 f32. Values that are not finite make them NaN, so that they are not lost in the block.

/** The element with the largest magnitude, the first of equals. */
export function extreme(px: usize): f32 {
  let x: f32 = 0;
  let bad: f32 = 0;
  for (const end = px + 128; px < end; px += 4) {
    const v = load<f32>(px);
    if (abs(v) > abs(x)) x = v;
    bad += v * 0;
  }
  return x + bad;
}

/** Smallest and largest element, in lanes 0 and 1. */
export function range(px: usize): v128 {
  let lo = v128.load(px);
  let hi = lo;
  for (const end = px + 128; (px += 16) < end;) {
    lo = f32x4.min(lo, v128.load(px));
    hi = f32x4.max(hi, v128.load(px));
  }
  lo = f32x4.min(lo, i8x16.shuffle(lo, lo, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  hi = f32x4.max(hi, i8x16.shuffle(hi, hi, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  const low = min<f32>(f32x4.extract_lane(lo, 0), f32x4.extract_lane(lo, 1));
  return f32x4.replace_lane(
    f32x4.splat(low),
    1,
    max<f32>(f32x4.extract_lane(hi, 0), f32x4.extract_lane(hi, 1)),
  );
}
