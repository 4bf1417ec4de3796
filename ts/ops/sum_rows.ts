// SUM_ROWS: the sum of each row.

import { need, needType, type OpDef, type Result } from "./op.ts";
import { Type } from "../types.ts";

export const sumRowsDef: OpDef = {
  name: "sum_rows",
  doc: "a [n, ...] F32 -> [1, ...], the sum of each row, added in double precision.",
  inplace: false,
  infer(src): Result {
    const a = need("sum_rows", src, 0);
    needType("sum_rows", "a", a.type, [Type.F32]);
    return { type: Type.F32, ne: [1, a.ne[1], a.ne[2], a.ne[3]] };
  },
};
