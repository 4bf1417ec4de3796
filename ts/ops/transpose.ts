// TRANSPOSE: rows become columns. Computes nothing.

import { isQuantized } from "../types.ts";
import { need, needParam, type OpDef, type Result } from "./op.ts";

export const transposeDef: OpDef = {
  name: "transpose",
  doc: "a [n, m, ...] -> a view of it, [m, n, ...].",
  inplace: false,
  infer(src): Result {
    const a = need("transpose", src, 0);
    needParam("transpose", "a", "of a block type", !isQuantized(a.type), "a type without blocks");
    const { ne, nb } = a;
    return { type: a.type, ne: [ne[1], ne[0], ne[2], ne[3]], nb: [nb[1], nb[0], nb[2], nb[3]], viewOf: 0 };
  },
};
