// SUM: one number.

import { FLOATS, need, needType, type OpDef, type Result } from "./op.ts";

export const sumDef: OpDef = {
  name: "sum",
  doc: "a [...] -> [1], the sum of all elements, added in double precision.",
  inplace: false,
  infer(src): Result {
    const a = need("sum", src, 0);
    needType("sum", "a", a.type, FLOATS);
    return { type: a.type, ne: [1, 1, 1, 1] };
  },
};
