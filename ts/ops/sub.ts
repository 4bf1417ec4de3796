// SUB: a - b.

import { binaryDef, type BinaryParams } from "./binary.ts";
import type { OpDef } from "./op.ts";

export const subDef: OpDef<BinaryParams> = binaryDef(
  "sub",
  "a [n, ...], b repeated over a -> a - b, of a's type unless another is asked for.",
);
