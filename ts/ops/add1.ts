// ADD1: a + one number.

import { nelements } from "../shape.ts";
import { binaryDef, type BinaryParams } from "./binary.ts";
import { need, needShape, type OpDef, type Result } from "./op.ts";

const sum: OpDef<BinaryParams> = binaryDef("add1", "a [...], b [1] -> a + b, of a's type.", true);

export const add1Def: OpDef<BinaryParams> = {
  ...sum,
  infer(src, params): Result {
    const b = need("add1", src, 1);
    needShape("add1", nelements(b.ne) === 1, [1, 1, 1, 1], b.ne, "b is not a single number");
    return sum.infer(src, params);
  },
};
