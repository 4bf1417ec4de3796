// COS: the cosine of a, radians.

import { mapDef } from "./map.ts";
import type { OpDef } from "./op.ts";

export const cosDef: OpDef = mapDef("cos", "a [...] -> the cosine of a, radians, element by element.");
