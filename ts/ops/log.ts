// LOG: the natural logarithm of a; -infinity at 0, NaN below.

import { mapDef } from "./map.ts";
import type { OpDef } from "./op.ts";

export const logDef: OpDef = mapDef(
  "log",
  "a [...] -> the natural logarithm of a; -infinity at 0, NaN below, element by element.",
);
