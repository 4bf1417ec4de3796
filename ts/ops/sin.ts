// SIN: the sine of a, radians.

import { mapDef } from "./map.ts";
import type { OpDef } from "./op.ts";

export const sinDef: OpDef = mapDef("sin", "a [...] -> the sine of a, radians, element by element.");
