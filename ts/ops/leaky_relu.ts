// LEAKY_RELU: a above 0, slope a below.

import { mapDef } from "./map.ts";
import { f32bits, needFinite, type OpDef } from "./op.ts";

/** Parameters of LEAKY_RELU. */
export interface LeakyReluParams {
  readonly slope: number;
}

export const leakyReluDef: OpDef<LeakyReluParams> = mapDef(
  "leaky_relu",
  "a [...] -> a where it is positive, else slope a.",
  ({ slope }) => {
    needFinite("leaky_relu", "slope", slope);
    return [f32bits(slope)];
  },
);
