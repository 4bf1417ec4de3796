// CUMSUM: running sums along each row.

import { Type } from "../types.ts";
import { need, needType, type OpDef, type Result } from "./op.ts";

export const cumsumDef: OpDef = {
  name: "cumsum",
  doc: "a [n, ...] F32 -> [n, ...], each element the sum of its row up to and including itself.",
  inplace: true,
  infer(src): Result {
    const a = need("cumsum", src, 0);
    needType("cumsum", "a", a.type, [Type.F32]);
    return { type: Type.F32, ne: a.ne };
  },
};
