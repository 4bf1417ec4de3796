// exp and what is made of it, four f32 at a time: expm1, sigmoid, tanh, the normal distribution, GELU, softplus.
//
// Plain SIMD, no fused multiply-add: every build gives the same bits. Error bounds are relative unless stated and were
// measured against f64 over the whole range (tests/math.test.ts). Polynomials are minimax fits, highest power first.

// Constants, read where they are used: V8 would build literals anew each time.
const EXP_MIN: usize = 0;
const EXP_MAX: usize = 4;
const LOG2E: usize = 8;
const LN2_HIGH: usize = 12; // n * LN2_HIGH is exact for |n| < 2^15
const LN2_LOW: usize = 16;
const EXP_P: usize = 20; // 5 terms
const ONE: usize = 40;
const TWO: usize = 44;
const HALF: usize = 48;
const EXPM1_P: usize = 52; // 6 terms
const TANH_MAX: usize = 76; // tanh is 1 from here on
const GELU_CUBE: usize = 80; // -2 sqrt(2/pi) 0.044715
const GELU_LINEAR: usize = 84; // -2 sqrt(2/pi)
const GELU_QUICK: usize = 88;
const SQRT_HALF: usize = 92;
const ERFC_MAX: usize = 96;
const ERFC_P: usize = 100; // 10 terms
const LOG1P_P: usize = 140; // 4 terms
const NEAREST: usize = 156; // 1.5 * 2^23: what is added to it is rounded to an integer, half to even
const EXP_NORMAL: usize = 160; // ln 2^-126
// prettier-ignore
const C = memory.data<f32>([
  -104, 89, 1.44269504, 0.693359375, -2.12194440e-4,
  0.001381446490995586, 0.008368780836462975, 0.04166839271783829, 0.1666651964187622, 0.4999999403953552,
  1, 2, 0.5,
  0.00019849807722494006, 0.0013996177585795522, 0.008333578705787659, 0.04166536033153534, 0.166666641831398,
  0.5000000596046448,
  20, -0.07135481627, -1.5957691216, -1.702, 0.7071067811865476, 10,
  -0.05505172908306122, 0.26390528678894043, -0.44148242473602295, 0.22119677066802979, 0.017073333263397217,
  0.18125192821025848, 0.2497928887605667, 0.28109854459762573, 0.28222137689590454, -0.000006010818651702721,
  0.14012232422828674, 0.13999569416046143, 0.20010849833488464, 0.3333320617675781,
  12582912, -87.3365447,
]);


@inline
function c(offs: usize): v128 {
  return v128.load32_splat(C + offs);
}

/** a * b + c, rounded twice. */
@inline
export function mulAdd(a: v128, b: v128, c: v128): v128 {
  return f32x4.add(f32x4.mul(a, b), c);
}

/**
 * e^x. Error below 1e-7 while the result is normal; overflow gives infinity, underflow passes through the
 * subnormals to 0, NaN stays NaN.
 */
@inline
export function exp4(x: v128): v128 {
  x = f32x4.pmax(f32x4.pmin(x, c(EXP_MAX)), c(EXP_MIN));
  const t = f32x4.add(f32x4.mul(x, c(LOG2E)), c(NEAREST));
  const p = exp2Fraction(x, t);
  // 2^n in two factors, because n reaches from -150 to 128
  const k = i32x4.sub(t, c(NEAREST));
  const half = i32x4.shr_s(k, 1);
  const rest = i32x4.sub(k, half);
  return f32x4.mul(
    f32x4.mul(p, i32x4.add(i32x4.shl(half, 23), c(ONE))),
    i32x4.add(i32x4.shl(rest, 23), c(ONE)),
  );
}

/**
 * 1 + e^x with the bits that exp4() gives. What is below 2^-24 of e^x is nothing beside the one, so 2^n can stay in one
 * factor: 2^(n - 1), and twice the product.
 */
@inline
function onePlusExp4(x: v128): v128 {
  x = f32x4.pmax(f32x4.pmin(x, c(EXP_MAX)), c(EXP_NORMAL));
  const t = f32x4.add(f32x4.mul(x, c(LOG2E)), c(NEAREST));
  const e = f32x4.mul(exp2Fraction(x, t), i32x4.add(i32x4.shl(t, 23), c(HALF)));
  return f32x4.add(c(ONE), f32x4.add(e, e));
}

/** As exp4(), for x up to 0; results that would be subnormal are 0. */
@inline
export function expDown4(x: v128): v128 {
  const t = f32x4.add(f32x4.mul(x, c(LOG2E)), c(NEAREST));
  const e = f32x4.mul(exp2Fraction(x, t), i32x4.add(i32x4.shl(t, 23), c(ONE)));
  return v128.andnot(e, f32x4.lt(x, c(EXP_NORMAL)));
}

// e^x / 2^n; n stands in the low bits of t, the nearest integer of x / ln 2 above NEAREST.
@inline
function exp2Fraction(x: v128, t: v128): v128 {
  const n = f32x4.sub(t, c(NEAREST));
  let r = f32x4.sub(x, f32x4.mul(n, c(LN2_HIGH)));
  r = f32x4.sub(r, f32x4.mul(n, c(LN2_LOW)));
  let p = mulAdd(c(EXP_P), r, c(EXP_P + 4));
  p = mulAdd(p, r, c(EXP_P + 8));
  p = mulAdd(p, r, c(EXP_P + 12));
  p = mulAdd(p, r, c(EXP_P + 16));
  return f32x4.add(mulAdd(f32x4.mul(r, r), p, r), c(ONE));
}

/** 1 / (1 + e^-x); error below 1.5e-7. */
@inline
export function sigmoid4(x: v128): v128 {
  return f32x4.div(c(ONE), onePlusExp4(f32x4.neg(x)));
}

/** x / (1 + e^-x); error below 2e-7. */
@inline
export function silu4(x: v128): v128 {
  return f32x4.div(x, onePlusExp4(f32x4.neg(x)));
}

/** e^x - 1, accurate near 0: error below 1.5e-7. */
@inline
export function expm14(x: v128): v128 {
  let p = mulAdd(c(EXPM1_P), x, c(EXPM1_P + 4));
  p = mulAdd(p, x, c(EXPM1_P + 8));
  p = mulAdd(p, x, c(EXPM1_P + 12));
  p = mulAdd(p, x, c(EXPM1_P + 16));
  p = mulAdd(p, x, c(EXPM1_P + 20));
  const near = mulAdd(f32x4.mul(x, x), p, x);
  const far = f32x4.sub(exp4(x), c(ONE));
  return v128.bitselect(near, far, f32x4.lt(f32x4.abs(x), c(HALF)));
}

/** tanh x = m / (m + 2) with m = e^2|x| - 1, and the sign of x; error below 2e-7. */
@inline
export function tanh4(x: v128): v128 {
  const a = f32x4.pmin(f32x4.abs(x), c(TANH_MAX));
  const m = expm14(f32x4.add(a, a));
  const sign = v128.and(x, i32x4.splat(i32.MIN_VALUE));
  return v128.or(f32x4.div(m, f32x4.add(m, c(TWO))), sign);
}

/**
 * GELU by tanh: x/2 (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2/pi) x (1 + 0.044715 x^2). Error below 1.5e-7 of
 * max(1, |gelu|).
 */
@inline
export function gelu4(x: v128): v128 {
  const u = f32x4.mul(x, mulAdd(f32x4.mul(x, x), c(GELU_CUBE), c(GELU_LINEAR)));
  return f32x4.div(x, onePlusExp4(u));
}

/** x / (1 + e^-1.702x) */
@inline
export function geluQuick4(x: v128): v128 {
  return f32x4.div(x, onePlusExp4(f32x4.mul(x, c(GELU_QUICK))));
}

/**
 * Share of a normal distribution below x: (1 + erf(x / sqrt 2)) / 2. Absolute error below 1e-7.
 *
 * With a = |x| / sqrt 2 and t = 1 / (1 + a/2): erfc a = e^(-a^2) P(t).
 */
@inline
export function normal4(x: v128): v128 {
  const a = f32x4.pmin(f32x4.abs(f32x4.mul(x, c(SQRT_HALF))), c(ERFC_MAX));
  const t = f32x4.div(c(ONE), mulAdd(a, c(HALF), c(ONE)));
  let p = mulAdd(c(ERFC_P), t, c(ERFC_P + 4));
  p = mulAdd(p, t, c(ERFC_P + 8));
  p = mulAdd(p, t, c(ERFC_P + 12));
  p = mulAdd(p, t, c(ERFC_P + 16));
  p = mulAdd(p, t, c(ERFC_P + 20));
  p = mulAdd(p, t, c(ERFC_P + 24));
  p = mulAdd(p, t, c(ERFC_P + 28));
  p = mulAdd(p, t, c(ERFC_P + 32));
  p = mulAdd(p, t, c(ERFC_P + 36));
  const q = f32x4.mul(f32x4.mul(exp4(f32x4.neg(f32x4.mul(a, a))), p), c(HALF));
  return v128.bitselect(q, f32x4.sub(c(ONE), q), f32x4.lt(x, f32x4.splat(0)));
}

/** x/2 (1 + erf(x / sqrt 2)) */
@inline
export function geluErf4(x: v128): v128 {
  return f32x4.mul(x, normal4(x));
}

/**
 * ln(1 + e^x) = max(x, 0) + ln(1 + y), y = e^-|x|; error below 2e-7.
 *
 * ln(1 + y) = 2 atanh s with s = y / (2 + y) <= 1/3.
 */
@inline
export function softplus4(x: v128): v128 {
  const y = exp4(f32x4.neg(f32x4.abs(x)));
  const s = f32x4.div(y, f32x4.add(y, c(TWO)));
  const z = f32x4.mul(s, s);
  let p = mulAdd(c(LOG1P_P), z, c(LOG1P_P + 4));
  p = mulAdd(p, z, c(LOG1P_P + 8));
  p = mulAdd(p, z, c(LOG1P_P + 12));
  p = mulAdd(f32x4.mul(p, z), s, s);
  return f32x4.add(f32x4.max(x, f32x4.splat(0)), f32x4.add(p, p));
}
