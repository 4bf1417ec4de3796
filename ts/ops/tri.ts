// TRI: a triangle of each matrix, zeros elsewhere.

import { Type } from "../types.ts";
import { need, needInteger, needRows, needShape, needType, type OpDef, type Result } from "./op.ts";

/** Which triangle {@link triDef} keeps: 0 upper with the diagonal, 1 upper, 2 lower with the diagonal, 3 lower. */
export type Triangle = 0 | 1 | 2 | 3;

/** Parameters of TRI. */
export interface TriParams {
  readonly keep: Triangle;
}

export const triDef: OpDef<TriParams> = {
  name: "tri",
  doc: "a [n, n, ...] F32 -> a, but 0 outside the triangle kept: 0 = i0 >= i1, 1 = i0 > i1, 2 = i0 <= i1, 3 = i0 < i1.",
  inplace: true,
  infer(src, { keep }): Result {
    const a = need("tri", src, 0);
    needType("tri", "a", a.type, [Type.F32]);
    needRows("tri", "a", a);
    needInteger("tri", "keep", keep, 0, 3);
    needShape("tri", a.ne[0] === a.ne[1], a.ne, a.ne, "expected square matrices");
    return { type: Type.F32, ne: a.ne, params: [keep] };
  },
};
