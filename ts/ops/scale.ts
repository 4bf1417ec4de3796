// SCALE: s a + b.

import { mapDef } from "./map.ts";
import { f32bits, needFinite, type OpDef } from "./op.ts";

/** Parameters of SCALE. */
export interface ScaleParams {
  readonly s: number;
  /** 0 when absent */
  readonly b?: number;
}

export const scaleDef: OpDef<ScaleParams> = mapDef(
  "scale",
  "a [...] -> s a + b, element by element.",
  ({ s, b = 0 }) => {
    needFinite("scale", "s", s);
    needFinite("scale", "b", b);
    return [f32bits(s), f32bits(b)];
  },
);
