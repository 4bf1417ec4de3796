// SQR: a^2.

import { mapDef } from "./map.ts";
import type { OpDef } from "./op.ts";

export const sqrDef: OpDef = mapDef("sqr", "a [...] -> a^2, element by element.");
