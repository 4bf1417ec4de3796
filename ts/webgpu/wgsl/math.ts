// WGSL of elementary functions, accurate to an f32 bit or two on every device: the built-in ones may be off by far more.
// Polynomials and reductions are those of assembly/math/exp.ts. Arithmetic only: nothing depends on how a device treats
// infinities or NaN, which WGSL leaves open; where they matter their bits are looked at.

/** exp1(x), expm1_(x), sigmoid(x), tanh1(x), softplus(x), normal(x) (share of a normal distribution below x), is_nan(x). */
export const MATH: string = `
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn exp1(v: f32) -> f32 {
  let x = clamp(v, -104.0, 89.0);
  let n = round(x * 1.44269504);
  let r = (x - n * 0.693359375) + n * 2.12194440e-4;
  var p = 0.001381446490995586 * r + 0.008368780836462975;
  p = p * r + 0.04166839271783829;
  p = p * r + 0.1666651964187622;
  p = p * r + 0.4999999403953552;
  p = r * r * p + r + 1.0;
  let k = i32(n);                           // 2^k in two factors: k reaches from -150 to 128
  let half = k >> 1u;
  return p * bitcast<f32>((half << 23u) + 0x3f800000) * bitcast<f32>(((k - half) << 23u) + 0x3f800000);
}
fn expm1_(x: f32) -> f32 {
  if (abs(x) >= 0.5) { return exp1(x) - 1.0; }
  var p = 0.00019849807722494006 * x + 0.0013996177585795522;
  p = p * x + 0.008333578705787659;
  p = p * x + 0.04166536033153534;
  p = p * x + 0.166666641831398;
  p = p * x + 0.5000000596046448;
  return x * x * p + x;
}
fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exp1(clamp(-x, -88.0, 88.0))); }
fn silu(x: f32) -> f32 { return x * sigmoid(x); }
fn tanh1(x: f32) -> f32 {
  let m = expm1_(2.0 * min(abs(x), 20.0));
  return select(m, -m, x < 0.0) / (m + 2.0);
}
fn gelu(x: f32) -> f32 { return x * sigmoid(x * (x * x * 0.07135481627 + 1.5957691216)); }
fn gelu_quick(x: f32) -> f32 { return x * sigmoid(1.702 * x); }
fn normal(x: f32) -> f32 {
  let a = min(abs(x * 0.7071067811865476), 9.0);
  let t = 1.0 / (a * 0.5 + 1.0);
  var p = -0.05505172908306122 * t + 0.26390528678894043;
  p = p * t - 0.44148242473602295;
  p = p * t + 0.22119677066802979;
  p = p * t + 0.017073333263397217;
  p = p * t + 0.18125192821025848;
  p = p * t + 0.2497928887605667;
  p = p * t + 0.28109854459762573;
  p = p * t + 0.28222137689590454;
  p = p * t - 0.000006010818651702721;
  let q = exp1(-a * a) * p * 0.5;
  return select(1.0 - q, q, x < 0.0);
}
fn gelu_erf(x: f32) -> f32 { return x * normal(x); }
fn softplus(x: f32) -> f32 {
  let y = exp1(-abs(x));
  let s = y / (y + 2.0);
  let z = s * s;
  var p = 0.14012232422828674 * z + 0.13999569416046143;
  p = p * z + 0.20010849833488464;
  p = p * z + 0.3333320617675781;
  p = p * z * s + s;
  return max(x, 0.0) + 2.0 * p;
}
`;

/**
 * turn(x) = {cos x, sin x} for any f32. x / (2 pi) modulo 1 is computed with integers: the 24 bits of x times 64 bits of
 * 1 / (2 pi), those whose products are neither whole turns nor too small to matter.
 */
export const TURN: string = `
// bits of 1 / (2 pi), the first of weight 2^-1
const TURNS = array<u32, 7>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);
fn turns_from(at: i32) -> u32 {             // 32 bits of it from bit \`at\` on; those before the first are 0
  if (at <= -32) { return 0u; }
  if (at < 0) { return TURNS[0] >> u32(-at); }
  let w = u32(at) >> 5u;
  let s = u32(at) & 31u;
  if (w > 5u) { return 0u; }
  if (s == 0u) { return TURNS[w]; }
  return (TURNS[w] << s) | (TURNS[w + 1u] >> (32u - s));
}
fn turn(x: f32) -> vec2f {
  let bits = bitcast<u32>(x);
  let a = bits & 0x7fffffffu;
  if (a >= 0x7f800000u) { return vec2f(x - x); }
  var r = abs(x);
  var quadrant = 0u;
  if (r > 0.78539816) {
    let m = (a & 0x7fffffu) | 0x800000u;
    let e = i32(a >> 23u) - 150;            // |x| = m 2^e
    let high = turns_from(e);
    let low = turns_from(e + 32);
    // 2^64 times the fraction of a turn, upper half: m high + (m low >> 32), modulo 2^32
    let carry = (m >> 16u) * (low & 0xffffu) + (((m & 0xffffu) * (low & 0xffffu)) >> 16u);
    let mid = mul_high(m, low >> 16u, carry);
    let f = m * high + mid;
    quadrant = (f + 0x20000000u) >> 30u;
    r = f32(bitcast<i32>(f - (quadrant << 30u))) * 1.4629180792671596e-9;
  }
  let z = r * r;
  let s = r + r * z * (-0.16666654611 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
  let c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
  var v = select(vec2f(c, s), vec2f(-s, c), (quadrant & 1u) == 1u);
  if ((quadrant & 2u) == 2u) { v = -v; }
  return vec2f(v.x, select(v.y, -v.y, bits >> 31u == 1u));
}
// (m h + carry) >> 16, m below 2^24, h below 2^16, carry below 2^32
fn mul_high(m: u32, h: u32, carry: u32) -> u32 {
  let low = (m & 0xffffu) * h;
  let sum = low + carry;
  let over = select(0u, 0x10000u, sum < low);
  return (m >> 16u) * h + (sum >> 16u) + over;
}
`;
