// FILL: a constant in the shape of a.

import { mapDef } from "./map.ts";
import { f32bits, needParam, type OpDef } from "./op.ts";

/** Parameters of FILL. */
export interface FillParams {
  readonly c: number;
}

export const fillDef: OpDef<FillParams> = mapDef(
  "fill",
  "a [...] -> c everywhere, in a's shape and type.",
  ({ c }) => {
    needParam("fill", "c", c, typeof c === "number", "a number");
    return [f32bits(c)];
  },
);
