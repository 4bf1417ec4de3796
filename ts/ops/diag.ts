// DIAG: rows as the diagonals of matrices.

import { Type } from "../types.ts";
import { need, needShape, needType, type OpDef, type Result } from "./op.ts";

export const diagDef: OpDef = {
  name: "diag",
  doc: "a [n, 1, ...] F32 -> [n, n, ...], a on the diagonal, 0 elsewhere.",
  inplace: false,
  infer(src): Result {
    const a = need("diag", src, 0);
    needType("diag", "a", a.type, [Type.F32]);
    needShape("diag", a.ne[1] === 1, a.ne, [a.ne[0], 1, a.ne[2], a.ne[3]], "expected a single row");
    return { type: Type.F32, ne: [a.ne[0], a.ne[0], a.ne[2], a.ne[3]] };
  },
};
