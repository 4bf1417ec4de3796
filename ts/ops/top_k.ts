// TOP_K: the largest elements of each row.

import { Type } from "../types.ts";
import { need, needInteger, needRows, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of TOP_K. */
export interface TopKParams {
  readonly k: number;
}

export const topKDef: OpDef<TopKParams> = {
  name: "top_k",
  doc: "a [n, ...] F32 -> [k, ...] I32, the indices of the k largest of each row, largest first; lower index first on ties, NaN last.",
  inplace: false,
  infer(src, { k }): Result {
    const a = need("top_k", src, 0);
    needType("top_k", "a", a.type, [Type.F32]);
    needRows("top_k", "a", a);
    needInteger("top_k", "k", k, 1, a.ne[0]);
    return { type: Type.I32, ne: [k, a.ne[1], a.ne[2], a.ne[3]] };
  },
  flops: (_dst, src) => src[0]!.ne[0] * src[0]!.ne[1] * src[0]!.ne[2] * src[0]!.ne[3],
};
