// What an operator is, for everyone: its doc line, shape rule, parameter packing, in-place rule, scratch and cost.
// Implementations live in files of the same name: assembly/kernels/<op>.ts for the CPU, ts/webgpu/kernels/<op>.ts.

import type { Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { foldsOnto, isContiguousRows, type Shape, type Strides, sameShape, shape4, str } from "../shape.ts";
import { Type, typeName } from "../types.ts";

/** What a shape rule sees of a source. */
export interface Operand {
  readonly type: Type;
  readonly ne: Shape;
  /** bytes */
  readonly nb: Strides;
}

/** What a shape rule says of the result. */
export interface Result {
  readonly type: Type;
  readonly ne: Shape;
  /** strides in bytes; contiguous when absent */
  readonly nb?: Strides;
  /** raw parameter slots: i32, or the bits of f32 (see {@link f32bits}) */
  readonly params?: readonly number[];
  /** the result is a view of this source ... */
  readonly viewOf?: number;
  /** ... this many bytes into it */
  readonly viewOffs?: number;
}

/** Description of an operator. `P` are its named parameters. */
export interface OpDef<P = void> {
  /** ggml's name, snake_case; also the file name in every backend */
  readonly name: string;
  /** one sentence for docs/ops.md, with shapes */
  readonly doc: string;
  /** every kernel reads an element (or row) before it overwrites it, so the result may take over a source's memory */
  readonly inplace: boolean;
  /** names of the parameters, where callers hand them on as they are */
  readonly options?: readonly string[];
  /**
   * Shape rule: checks the sources, names the result, packs the parameters.
   *
   * @throws {GraphError} with the op's name first, then both shapes
   */
  infer(src: readonly (Operand | undefined)[], params: P): Result;
  /** scratch bytes for all threads together; none when absent */
  scratch?(dst: Operand, src: readonly (Operand | undefined)[], nThreads: number): number;
  /** floating-point operations of one run, for rates; element count when absent */
  flops?(dst: Operand, src: readonly (Operand | undefined)[]): number;
}

/** Operators that compute nothing: their result is a view. */
export type ViewOp = Op.RESHAPE | Op.VIEW | Op.PERMUTE | Op.TRANSPOSE;

const bits = new DataView(new ArrayBuffer(4));

/** Bits of a float32, as a parameter slot holds them. */
export function f32bits(x: number): number {
  bits.setFloat32(0, x);
  return bits.getInt32(0);
}

/** Types that elementwise operators compute on, in f32 and rounded once. */
export const FLOATS: readonly Type[] = [Type.F32, Type.F16, Type.BF16];

/** Block types that kernels read as f32 and write from f32. */
export const BLOCKS: readonly Type[] = [
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.Q8_1,
  Type.IQ4_NL,
  Type.MXFP4,
];

/** Block types that kernels read as f32; only copies write them, for that is a search. */
export const SUPER_BLOCKS: readonly Type[] = [
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_XS,
];

/** Source `i`, which must be there. */
export function need(op: string, src: readonly (Operand | undefined)[], i: number): Operand {
  const s = src[i];
  if (s === undefined) throw new GraphError("bad-source", `${op}: source ${i} is missing`, { op });
  return s;
}

/** Refuses element types outside `types`. */
export function needType(op: string, what: string, actual: Type, types: readonly Type[]): void {
  if (types.includes(actual)) return;
  const expected = types.map(typeName);
  throw new GraphError(
    "bad-type",
    `${op}: ${what} is ${typeName(actual)}, expected ${expected.join(" or ")}`,
    {
      op,
      expected,
      actual: typeName(actual),
    },
  );
}

/** Refuses what breaks a shape rule; `why` says the rule. */
export function needShape(
  op: string,
  ok: boolean,
  a: readonly number[],
  b: readonly number[],
  why: string,
): void {
  if (ok) return;
  throw new GraphError("bad-shape", `${op}: ${str(a)} and ${str(b)}: ${why}`, { op, expected: a, actual: b });
}

/** The shape asked for, padded to four dimensions; refuses anything but up to four counts. */
export function needCounts(op: string, a: Shape, ne: readonly number[]): Shape {
  const counts = ne.length <= 4 && ne.every((n) => Number.isSafeInteger(n) && n >= 0);
  needShape(op, counts, a, ne, "expected up to four counts");
  return shape4(ne);
}

/** Refuses targets of which two elements are the same bytes: threads would race for them. */
export function needWritable(op: string, target: Operand): void {
  needShape(
    op,
    !foldsOnto(target),
    target.ne,
    target.nb,
    "elements of the target overlap (these are its strides)",
  );
}

/** Refuses operands of different shape. */
export function needSameShape(op: string, a: Shape, b: Shape): void {
  needShape(op, sameShape(a, b), a, b, "shapes differ");
}

/** Refuses sources whose rows have gaps between elements. */
export function needRows(op: string, what: string, x: Operand): void {
  if (isContiguousRows(x.type, x.ne, x.nb)) return;
  throw new GraphError(
    "bad-shape",
    `${op}: ${what} ${str(x.ne)} has gaps between elements of a row: use cont`,
    {
      op,
      actual: x.nb,
    },
  );
}

/** Refuses numbers that are not finite. */
export function needFinite(op: string, name: string, value: number): void {
  needParam(op, name, value, Number.isFinite(value), "a finite number");
}

/** Refuses numbers that are no integers in [min, max]. */
export function needInteger(op: string, name: string, value: number, min: number, max: number): void {
  const valid = Number.isInteger(value) && value >= min && value <= max;
  needParam(op, name, value, valid, `an integer from ${min} to ${max}`);
}

/** Refuses parameters outside their range; `ok` is the rule in words. */
export function needParam(op: string, name: string, value: unknown, valid: boolean, rule: string): void {
  if (valid) return;
  throw new GraphError("bad-param", `${op}: ${name} is ${String(value)}, expected ${rule}`, {
    op,
    expected: rule,
    actual: value,
  });
}
