// CLAMP: a between two bounds.

import { mapDef } from "./map.ts";
import { f32bits, needParam, type OpDef } from "./op.ts";

/** Parameters of CLAMP; bounds may be infinite. */
export interface ClampParams {
  readonly min: number;
  readonly max: number;
}

export const clampDef: OpDef<ClampParams> = mapDef(
  "clamp",
  "a [...] -> a, but at least min and at most max; NaN stays NaN.",
  ({ min, max }) => {
    needParam(
      "clamp",
      "min",
      min,
      typeof min === "number" && typeof max === "number" && min <= max,
      `a number up to max, ${max}`,
    );
    return [f32bits(min), f32bits(max)];
  },
);
