// WGSL of the float types: loads and stores of one element through the accessors of an operand.

import { Type } from "../../types.ts";

/** Types that {@link loadFloat} and {@link storeFloat} know. */
export const FLOAT_TYPES: readonly Type[] = [Type.F32, Type.F16, Type.BF16];

/** Expression: element at byte address `at` of an operand as f32. */
export function loadFloat(operand: string, type: Type, at: string): string {
  if (type === Type.F16) return `${operand}_f16(${at})`;
  if (type === Type.BF16) return `${operand}_bf16(${at})`;
  return `${operand}_f32(${at})`;
}

/** Statement: stores f32 `value` at byte address `at`; 16-bit types need {@link ROUND_F16} or {@link ROUND_BF16}. */
export function storeFloat(operand: string, type: Type, at: string, value: string): string {
  if (type === Type.F16) return `${operand}_set_u16(${at}, round_f16(${value}));`;
  if (type === Type.BF16) return `${operand}_set_u16(${at}, round_bf16(${value}));`;
  return `${operand}_set_f32(${at}, ${value});`;
}

/** WGSL that {@link storeFloat} of a type calls. */
export function roundSource(type: Type): string {
  if (type === Type.F16) return ROUND_F16;
  return type === Type.BF16 ? ROUND_BF16 : "";
}

/** Bits of f16, rounded to nearest even; pack2x16float may round either way. */
export const ROUND_F16 = `
fn round_f16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) { return sign | 0x7e00u; }        // NaN
  if (a >= 0x477ff000u) { return sign | 0x7c00u; }       // rounds to infinity
  if (a < 0x38800000u) {                                 // subnormal: units of 2^-24
    if (a < 0x33000000u) { return sign; }
    let shift = 126u - (a >> 23u);                       // 14 .. 24
    let m = (a & 0x7fffffu) | 0x800000u;
    let q = m >> shift;
    let rest = m & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    return sign | (q + select(0u, 1u, rest > half || (rest == half && (q & 1u) == 1u)));
  }
  let b = a - 0x38000000u;                               // bias 127 -> 15
  return sign | ((b + 0xfffu + ((b >> 13u) & 1u)) >> 13u);
}
`;

/** Bits of bf16, rounded to nearest even. */
export const ROUND_BF16 = `
fn round_bf16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 64u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
`;
