// ARGSORT: the order of each row.

import { Type } from "../types.ts";
import { need, needParam, needRows, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of ARGSORT. */
export interface ArgsortParams {
  readonly order: "asc" | "desc";
}

export const argsortDef: OpDef<ArgsortParams> = {
  name: "argsort",
  doc: "a [n, ...] F32 -> [n, ...] I32, the indices that sort each row; stable, NaN last in both orders.",
  inplace: false,
  infer(src, { order }): Result {
    const a = need("argsort", src, 0);
    needType("argsort", "a", a.type, [Type.F32]);
    needRows("argsort", "a", a);
    needParam("argsort", "order", order, order === "asc" || order === "desc", "asc or desc");
    return { type: Type.I32, ne: a.ne, params: [order === "desc" ? 1 : 0] };
  },
  scratch: (dst, _src, nThreads) => nThreads * 4 * dst.ne[0],
  flops: (dst) => dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3] * Math.ceil(Math.log2(dst.ne[0] + 1)),
};
