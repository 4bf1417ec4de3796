// ARGMAX: where each row is largest.

import { Type } from "../types.ts";
import { need, needRows, needShape, needType, type OpDef, type Result } from "./op.ts";

export const argmaxDef: OpDef = {
  name: "argmax",
  doc: "a [n, m] F32 -> [m] I32, the index of each row's largest element: the first on ties, a NaN only when there is nothing else.",
  inplace: false,
  infer(src): Result {
    const a = need("argmax", src, 0);
    needType("argmax", "a", a.type, [Type.F32]);
    needRows("argmax", "a", a);
    needShape(
      "argmax",
      a.ne[0] > 0 && a.ne[2] === 1 && a.ne[3] === 1,
      a.ne,
      [1, 1, 1, 1],
      "expected a non-empty matrix",
    );
    return { type: Type.I32, ne: [a.ne[1], 1, 1, 1] };
  },
};
