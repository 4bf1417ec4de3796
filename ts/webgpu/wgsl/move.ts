// WGSL that moves one element from one operand to another, converted where types differ; and operands seen as units.

import type { Operand } from "../../ops/op.ts";
import type { Shape, Strides } from "../../shape.ts";
import { Type, typeInfo } from "../../types.ts";
import { type Param, u32 } from "../kernel.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "./float.ts";
import { unitOf } from "./quants.ts";

/** Shape and strides of what is moved: elements, or the words (halves, bytes) of blocks. */
export interface Units {
  readonly ne: Shape;
  readonly nb: Strides;
  /** bytes of a unit: 1, 2, 4 or 8 */
  readonly size: number;
}

/** A tensor whose elements (blocks: pieces of them) are moved as they are. Rows of block types have no gaps. */
export function unitsOf({ type, ne, nb }: Operand): Units {
  const { blockSize, typeSize } = typeInfo(type)!;
  if (blockSize === 1) return { ne, nb, size: typeSize };
  const size = unitOf(type);
  return {
    ne: [((ne[0] / blockSize) * typeSize) / size, ne[1], ne[2], ne[3]],
    nb: [size, nb[1], nb[2], nb[3]],
    size,
  };
}

/** Parameters `a_ne0` .. 3 and `a_nb0` .. 3 of units. */
export function unitParams(a: string, { ne, nb }: Units): Param[] {
  return [...ne.map((n, i) => u32(`${a}_ne${i}`, n)), ...nb.map((b, i) => u32(`${a}_nb${i}`, b >>> 0))];
}

/** Statement: a unit of `size` bytes from byte `at` of `a` to byte `to` of dst. */
export function moveUnit(size: number, to: string, a: string, at: string): string {
  if (size === 8)
    return `dst_set_u32(${to}, ${a}_u32(${at})); dst_set_u32(${to} + 4u, ${a}_u32(${at} + 4u));`;
  const fn = size === 4 ? "u32" : size === 2 ? "u16" : "u8";
  return `dst_set_${fn}(${to}, ${a}_${fn}(${at}));`;
}

/** True for pairs of different types that {@link convertElement} knows. */
export function converts(from: Type, to: Type): boolean {
  if (FLOAT_TYPES.includes(from) && FLOAT_TYPES.includes(to)) return true;
  return (from === Type.F32 && to === Type.I32) || (from === Type.I32 && to === Type.F32);
}

/** Statement: one element converted; needs {@link convertSource}. */
export function convertElement(from: Type, to: Type, place: string, a: string, at: string): string {
  if (to === Type.I32) return `dst_set_i32(${place}, integer(${a}_u32(${at})));`;
  if (from === Type.I32) return `dst_set_f32(${place}, f32(${a}_i32(${at})));`;
  return storeFloat("dst", to, place, loadFloat(a, from, at));
}

/** Functions that {@link convertElement} calls. */
export function convertSource(to: Type): string {
  return to === Type.I32 ? INTEGER : roundSource(to);
}

// As the CPU: no number is 0, what is too large the largest. The conversion of WGSL leaves NaN open.
const INTEGER = `
fn integer(bits: u32) -> i32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0; }
  let x = bitcast<f32>(bits);
  if (x >= 2147483648.0) { return 2147483647; }
  if (x < -2147483648.0) { return i32(-2147483647 - 1); }
  return i32(x);
}`;
