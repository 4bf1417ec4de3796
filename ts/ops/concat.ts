// CONCAT: one tensor behind another.

import type { Shape } from "../shape.ts";
import { isQuantized, Type } from "../types.ts";
import {
  BLOCKS,
  FLOATS,
  need,
  needInteger,
  needRows,
  needShape,
  needType,
  type OpDef,
  type Result,
} from "./op.ts";

/** Parameters of CONCAT. */
export interface ConcatParams {
  readonly dim: number;
}

export const concatDef: OpDef<ConcatParams> = {
  name: "concat",
  doc: "a and b, equal but for dimension dim -> b behind a along dim. Floats, block types, I32, I16, I8.",
  inplace: false,
  infer(src, { dim }): Result {
    const a = need("concat", src, 0);
    const b = need("concat", src, 1);
    needType("concat", "a", a.type, [...FLOATS, Type.I32, Type.I16, Type.I8, ...BLOCKS]);
    needType("concat", "b", b.type, [a.type]);
    needInteger("concat", "dim", dim, 0, 3);
    const same = a.ne.every((n, i) => i === dim || n === b.ne[i]);
    needShape("concat", same, a.ne, b.ne, `they differ outside dimension ${dim}`);
    if (isQuantized(a.type)) for (const x of [a, b]) needRows("concat", x === a ? "a" : "b", x);
    const ne = a.ne.map((n, i) => (i === dim ? n + b.ne[i]! : n)) as unknown as Shape;
    return { type: a.type, ne, params: [dim] };
  },
};
