// What DUP CONT CPY share: which types turn into which.

import { GraphError } from "../errors.ts";
import { nelements } from "../shape.ts";
import { isQuantized, Type, typeName } from "../types.ts";
import { BLOCKS, FLOATS, needRows, needShape, type Operand, SUPER_BLOCKS } from "./op.ts";

// Elements of these are only moved, and F32 <-> I32 converted.
const INTEGERS: readonly Type[] = [Type.I8, Type.I16, Type.I32, Type.I64, Type.F64];

function converts(from: Type, to: Type): boolean {
  if (from === to) return [...FLOATS, ...INTEGERS, ...BLOCKS].includes(from);
  if (FLOATS.includes(from))
    return [...FLOATS, ...BLOCKS, ...SUPER_BLOCKS].includes(to) || (from === Type.F32 && to === Type.I32);
  return to === Type.F32 && [Type.I32, ...BLOCKS, ...SUPER_BLOCKS].includes(from);
}

/** Refuses a copy of `a` into something of type, shape and strides of `to`. */
export function needCopy(op: string, a: Operand, to: Operand): void {
  if (!converts(a.type, to.type)) {
    const actual = `${typeName(a.type)} to ${typeName(to.type)}`;
    throw new GraphError("bad-type", `${op}: cannot copy ${actual}`, { op, actual });
  }
  needShape(op, nelements(a.ne) === nelements(to.ne), a.ne, to.ne, "numbers of elements differ");
  if (!isQuantized(a.type) && !isQuantized(to.type)) return;
  needRows(op, "source", a);
  needRows(op, "target", to);
}

/** Bytes of a piece of a row as f32, and those that the search for a block's scales wants. */
const BLOCK_SCRATCH = 1024 + 640;

/** Scratch of a copy that makes blocks of F16 or BF16, or makes blocks by a search. */
export function copyScratch(dst: Operand, src: readonly (Operand | undefined)[], nThreads: number): number {
  const from = src[0]!.type;
  const searches = SUPER_BLOCKS.includes(dst.type) || src[2] !== undefined;
  const blocks = isQuantized(dst.type) && !isQuantized(from);
  return blocks && (searches || from !== Type.F32) ? nThreads * BLOCK_SCRATCH : 0;
}
