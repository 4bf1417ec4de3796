// What ADD SUB MUL DIV share: src1 is repeated over src0; types may be mixed.

import { canRepeat } from "../shape.ts";
import { isQuantized, type Type } from "../types.ts";
import { BLOCKS, FLOATS, need, needShape, needType, type Operand, type OpDef, type Result } from "./op.ts";

/** Parameters of the binary operators. */
export interface BinaryParams {
  /** type of the result; src0's when absent */
  readonly type?: Type;
}

/** A binary operator; `quantized` when src0 may be of a block type. */
export function binaryDef(name: string, doc: string, quantized = false): OpDef<BinaryParams> {
  return {
    name,
    doc,
    inplace: true,
    infer(src, { type }): Result {
      const a = need(name, src, 0);
      const b = need(name, src, 1);
      const blocks = quantized && isQuantized(a.type);
      needType(name, "a", a.type, quantized ? [...FLOATS, ...BLOCKS] : FLOATS);
      needType(name, "b", b.type, FLOATS);
      needType(name, "result", type ?? a.type, blocks ? [a.type] : FLOATS);
      needShape(name, canRepeat(b.ne, a.ne), a.ne, b.ne, "b does not repeat to a");
      return { type: type ?? a.type, ne: a.ne };
    },
    scratch(_dst, src, nThreads): number {
      const a = src[0] as Operand;
      return isQuantized(a.type) ? nThreads * 4 * a.ne[0] : 0;
    },
  };
}
