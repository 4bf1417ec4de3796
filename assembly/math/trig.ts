// Functions that work lane by lane through the library: sine, cosine and logarithm, right to the last f32 bit or two.
//
// The library reduces arguments in f64 (and, for very large ones, with more bits of pi), so angles up to the largest f32
// keep their accuracy. It is compiled into the module; nothing is imported.

@inline
function lanes(a: f32, b: f32, c: f32, d: f32): v128 {
  let x = f32x4.splat(a);
  x = f32x4.replace_lane(x, 1, b);
  x = f32x4.replace_lane(x, 2, c);
  return f32x4.replace_lane(x, 3, d);
}

/** Sines of four angles in radians. */
export function sin4(x: v128): v128 {
  return lanes(
    Mathf.sin(f32x4.extract_lane(x, 0)),
    Mathf.sin(f32x4.extract_lane(x, 1)),
    Mathf.sin(f32x4.extract_lane(x, 2)),
    Mathf.sin(f32x4.extract_lane(x, 3)),
  );
}

/** Cosines of four angles in radians. */
export function cos4(x: v128): v128 {
  return lanes(
    Mathf.cos(f32x4.extract_lane(x, 0)),
    Mathf.cos(f32x4.extract_lane(x, 1)),
    Mathf.cos(f32x4.extract_lane(x, 2)),
    Mathf.cos(f32x4.extract_lane(x, 3)),
  );
}

/** Natural logarithms; -infinity at 0, NaN below. */
export function log4(x: v128): v128 {
  return lanes(
    Mathf.log(f32x4.extract_lane(x, 0)),
    Mathf.log(f32x4.extract_lane(x, 1)),
    Mathf.log(f32x4.extract_lane(x, 2)),
    Mathf.log(f32x4.extract_lane(x, 3)),
  );
}
