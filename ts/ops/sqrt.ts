// SQRT: the square root of a; NaN below 0.

import { mapDef } from "./map.ts";
import type { OpDef } from "./op.ts";

export const sqrtDef: OpDef = mapDef(
  "sqrt",
  "a [...] -> the square root of a; NaN below 0, element by element.",
);
