// Functions that work lane by lane through the library: sine, cosine and logarithm, right to the last f32 bit or two.
//
// The library reduces arguments in f64 (and, for very large ones, with more bits of pi), so angles up to the largest f32
// keep their accuracy. It is compiled into the module; nothing is imported. Rows of angles, of which both sine and cosine
// are wanted, go two at a time through the same reduction and polynomials (FreeBSD's k_sinf and k_cosf, in f64).

const TWO_OVER_PI: usize = 0;
const NEAREST: usize = 8; // 1.5 * 2^52: what is added to it is rounded to an integer, which stands in the low bits
const HALF_PI: usize = 16; // its first 25 bits: exact times integers below 2^28
const HALF_PI_LOW: usize = 24;
const S: usize = 32; // x^3, x^5, x^7, x^9 of the sine
const C: usize = 64; // 1, x^2, x^4, x^6, x^8 of the cosine
// prettier-ignore
const D = memory.data<f64>([
  0.6366197723675814, 6755399441055744, 1.5707963109016418, 1.5893254773528197e-8,
  -0.16666666641626524, 0.008333329385889463, -0.00019839334836096632, 0.0000027183114939898219,
  1, -0.499999997251031, 0.04166662332373906, -0.001388676377460993, 0.00002439044879627741,
]);
// Angles from here on take the library's way.
const LARGE: f32 = 268435456;


@inline
function d(offs: usize): v128 {
  return v128.load64_splat(D + offs);
}

/** Of n angles at pc: the cosines in their place and the sines at ps, both times f. */
export function sinCosRow(pc: usize, ps: usize, n: i32, f: f32): void {
  for (; n > 0; n -= 2, pc += 8, ps += 8) {
    const x = n > 1 ? v128.load64_zero(pc) : v128.load32_zero(pc);
    if (v128.any_true(f32x4.ge(f32x4.abs(x), f32x4.splat(LARGE)))) {
      storePair(pc, cos4(x), n, f);
      storePair(ps, sin4(x), n, f);
    } else sinCosPair(f64x2.promote_low_f32x4(x), pc, ps, n, f);
  }
}

function sinCosPair(x: v128, pc: usize, ps: usize, n: i32, f: f32): void {
  const t = f64x2.add(f64x2.mul(x, d(TWO_OVER_PI)), d(NEAREST));
  const q = f64x2.sub(t, d(NEAREST));
  const r = f64x2.sub(f64x2.sub(x, f64x2.mul(q, d(HALF_PI))), f64x2.mul(q, d(HALF_PI_LOW)));
  const z = f64x2.mul(r, r);
  const w = f64x2.mul(z, z);
  const s = f64x2.mul(z, r);
  let sine = f64x2.add(r, f64x2.mul(s, f64x2.add(d(S), f64x2.mul(z, d(S + 8)))));
  sine = f64x2.add(sine, f64x2.mul(f64x2.mul(s, w), f64x2.add(d(S + 16), f64x2.mul(z, d(S + 24)))));
  let cosine = f64x2.add(f64x2.add(d(C), f64x2.mul(z, d(C + 8))), f64x2.mul(w, d(C + 16)));
  cosine = f64x2.add(cosine, f64x2.mul(f64x2.mul(w, z), f64x2.add(d(C + 24), f64x2.mul(z, d(C + 32)))));
  // by quarters of the circle: sine s c -s -c, cosine c -s -c s
  const one = i64x2.splat(1);
  const sign = i64x2.splat(i64.MIN_VALUE);
  const odd = i64x2.neg(v128.and(t, one));
  const signS = v128.and(i64x2.shl(t, 62), sign);
  const signC = v128.and(i64x2.shl(i64x2.add(t, one), 62), sign);
  const y = v128.xor(v128.bitselect(sine, cosine, odd), signC);
  storePair(pc, f32x4.demote_f64x2_zero(y), n, f);
  storePair(ps, f32x4.demote_f64x2_zero(v128.xor(v128.bitselect(cosine, sine, odd), signS)), n, f);
}

// The first two lanes, or one, times f.
@inline
function storePair(p: usize, x: v128, n: i32, f: f32): void {
  x = f32x4.mul(x, f32x4.splat(f));
  if (n > 1) v128.store64_lane(p, x, 0);
  else v128.store32_lane(p, x, 0);
}


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
