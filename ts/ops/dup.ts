// DUP: a copy.

import { contiguous } from "../shape.ts";
import { needCopy } from "./copy.ts";
import { need, type OpDef, type Result } from "./op.ts";

export const dupDef: OpDef = {
  name: "dup",
  doc: "a [...] with any strides -> a copy of its own, without gaps.",
  inplace: false,
  infer(src): Result {
    const a = need("dup", src, 0);
    needCopy("dup", a, { type: a.type, ne: a.ne, nb: contiguous(a.type, a.ne) });
    return { type: a.type, ne: a.ne };
  },
};
