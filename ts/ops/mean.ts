// MEAN: the mean of each row.

import { need, needType, type OpDef, type Result } from "./op.ts";
import { Type } from "../types.ts";

export const meanDef: OpDef = {
  name: "mean",
  doc: "a [n, ...] F32 -> [1, ...], the mean of each row, added in double precision.",
  inplace: false,
  infer(src): Result {
    const a = need("mean", src, 0);
    needType("mean", "a", a.type, [Type.F32]);
    return { type: Type.F32, ne: [1, a.ne[1], a.ne[2], a.ne[3]] };
  },
};
