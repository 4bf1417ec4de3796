// WGSL that makes one block of 32 values: `dst_block(at)` quantises X[0 .. 31] and stores it at byte `at`.
//
// The steps are those of assembly/quants/*.ts; bytes are equal wherever the device divides and rounds exactly.

import { Type, typeInfo } from "../../types.ts";
import { ROUND_F16 } from "./float.ts";

type Body = (d: string) => string;

// q[j] into byte j, low nibble, and q[j + 16] into its high one.
function storeNibbles(d: string, at: number, set: "u32" | "u16" | "u8"): string {
  const bytes = set === "u32" ? 4 : set === "u16" ? 2 : 1;
  return `for (var j = 0u; j < 16u; j += ${bytes}u) {
    var w = 0u;
    for (var k = 0u; k < ${bytes}u; k++) { w |= ((Q[j + k] & 15u) | ((Q[j + k + 16u] & 15u) << 4u)) << (8u * k); }
    ${d}_set_${set}(at + ${at}u + j, w);
  }`;
}

function storeBytes(d: string, at: number, set: "u32" | "u16"): string {
  const bytes = set === "u32" ? 4 : 2;
  return `for (var j = 0u; j < 32u; j += ${bytes}u) {
    var w = 0u;
    for (var k = 0u; k < ${bytes}u; k++) { w |= (Q[j + k] & 255u) << (8u * k); }
    ${d}_set_${set}(at + ${at}u + j, w);
  }`;
}

const FIFTH = "var h = 0u; for (var j = 0u; j < 32u; j++) { h |= ((Q[j] >> 4u) & 1u) << j; }";

// Codes of values around 0: x / d + middle, rounded half up, at most `top`.
const centred = (middle: number, top: number): string => `
  let d = extreme() / -${middle}.0;
  let id = reciprocal(d);
  for (var j = 0u; j < 32u; j++) { Q[j] = u32(clamp(i32(X[j] * id + ${middle}.5), 0, ${top})); }`;

// Codes of values above the smallest.
const ranged = (top: number): string => `
  var low = X[0]; var high = X[0];
  for (var j = 1u; j < 32u; j++) { low = min(low, X[j]); high = max(high, X[j]); }
  let d = (high - low) / ${top}.0;
  let id = reciprocal(d);
  for (var j = 0u; j < 32u; j++) { Q[j] = u32(clamp(i32((X[j] - low) * id + 0.5), 0, ${top})); }`;

const eight = `
  let d = abs(extreme()) / 127.0;
  let id = reciprocal(d);
  var sum = 0;
  for (var j = 0u; j < 32u; j++) { let q = nearest(X[j] * id); sum += q; Q[j] = bitcast<u32>(q); }`;

const BODIES: { readonly [type: number]: Body } = {
  [Type.Q4_0]: (d) => `${centred(8, 15)}
  ${d}_set_u16(at, round_f16(d));
  ${storeNibbles(d, 2, "u16")}`,
  [Type.Q4_1]: (d) => `${ranged(15)}
  ${d}_set_u32(at, round_f16(d) | (round_f16(low) << 16u));
  ${storeNibbles(d, 4, "u32")}`,
  [Type.Q5_0]: (d) => `${centred(16, 31)}
  ${d}_set_u16(at, round_f16(d));
  ${FIFTH} ${d}_set_u16(at + 2u, h & 0xffffu); ${d}_set_u16(at + 4u, h >> 16u);
  ${storeNibbles(d, 6, "u16")}`,
  [Type.Q5_1]: (d) => `${ranged(31)}
  ${d}_set_u32(at, round_f16(d) | (round_f16(low) << 16u));
  ${FIFTH} ${d}_set_u32(at + 4u, h);
  ${storeNibbles(d, 8, "u32")}`,
  [Type.Q8_0]: (d) => `${eight}
  ${d}_set_u16(at, round_f16(d));
  ${storeBytes(d, 2, "u16")}`,
  [Type.Q8_1]: (d) => `${eight}
  ${d}_set_u32(at, round_f16(d) | (round_f16(f32(sum) * d) << 16u));
  ${storeBytes(d, 4, "u32")}`,
  [Type.IQ4_NL]: (d) => `
  let top = extreme();
  var id = 0.0;
  if (abs(top) >= 1e-15) { id = 1.0 / (top / -127.0); }
  var a = 0.0; var b = 0.0;
  for (var j = 0u; j < 32u; j++) {
    let x = X[j];
    Q[j] = 0u;
    if (id != 0.0) { Q[j] = nearest_level(x * id); }
    let w = x * x;
    a += w * LEVELS[Q[j]] * x;
    b += w * LEVELS[Q[j]] * LEVELS[Q[j]];
  }
  var d = 0.0;
  if (id != 0.0 && b > 0.0) { d = a / b; }
  ${d}_set_u16(at, round_f16(d));
  ${storeNibbles(d, 2, "u16")}`,
  [Type.MXFP4]: (d) => `
  let top = bitcast<u32>(abs(extreme())) >> 23u;
  let e = u32(clamp(i32(top) - 2, 0, 254));
  let d = bitcast<f32>(select((e - 1u) << 23u, 0x200000u << e, e < 2u));
  ${d}_set_u8(at, e);
  for (var j = 0u; j < 32u; j++) {
    var error = abs(X[j]);
    Q[j] = 0u;
    for (var q = 1u; q < 16u; q++) {
      let v = abs(FLOATS4[q] * d - X[j]);
      if (v < error) { error = v; Q[j] = q; }
    }
  }
  ${storeNibbles(d, 1, "u8")}`,
};

const LIB = `${ROUND_F16}
var<private> X: array<f32, 32>;
var<private> Q: array<u32, 32>;
// the value of largest magnitude, the first of equals; NaN where there is one that is not finite
fn extreme() -> f32 {
  var x = 0.0;
  var bad = false;
  for (var j = 0u; j < 32u; j++) {
    if (abs(X[j]) > abs(x)) { x = X[j]; }
    bad = bad || (bitcast<u32>(X[j]) & 0x7fffffffu) >= 0x7f800000u;
  }
  if (bad) { return bitcast<f32>(NAN_BITS); }
  return x;
}
var<private> NAN_BITS: u32 = 0x7fc00000u;
fn reciprocal(d: f32) -> f32 { if (d == 0.0) { return 0.0; } return 1.0 / d; }
// half away from zero
fn nearest(v: f32) -> i32 {
  let t = trunc(v);
  return i32(t + trunc(2.0 * (v - t)));
}
`;
const TABLES: { readonly [type: number]: string } = {
  [Type.IQ4_NL]: `
const LEVELS = array<f32, 16>(-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);
// code of the nearest level; halfway goes up
fn nearest_level(x: f32) -> u32 {
  if (!(x > -127.0)) { return 0u; }
  if (x >= 113.0) { return 15u; }
  var i = 1u;
  while (x >= LEVELS[i]) { i++; }
  return select(i, i - 1u, x - LEVELS[i - 1u] < LEVELS[i] - x);
}
`,
  [Type.MXFP4]: `
const FLOATS4 = array<f32, 16>(0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0);
`,
};

/** Block types that {@link blockSource} writes. */
export const BLOCK_TYPES: readonly Type[] = Object.keys(BODIES).map(Number);

/** True when neighbouring blocks share a word: operands that are written to must be atomic. */
export function needsAtomic(type: Type): boolean {
  return typeInfo(type)!.typeSize % 4 !== 0;
}

/** `X`, and `fn a_block(at: u32)` of a block type. */
export function blockSource(a: string, type: Type): string {
  return `${LIB}${TABLES[type] ?? ""}
fn ${a}_block(at: u32) {
  ${BODIES[type]!(a)}
}
`;
}
