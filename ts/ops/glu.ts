// GLU: a gate times a value, from the two halves of a row or from two tensors.

import { Glu } from "../../assembly/abi.ts";
import {
  f32bits,
  FLOATS,
  need,
  needFinite,
  needInteger,
  needRows,
  needSameShape,
  needShape,
  needType,
} from "./op.ts";
import type { OpDef, Result } from "./op.ts";

export { Glu };

/** Parameters of GLU. */
export interface GluParams {
  readonly fn: Glu;
  /** one source: the second half is the gate instead of the first */
  readonly swapped?: boolean;
  /** SWIGLU_OAI: factor inside the sigmoid, 1.702 when absent */
  readonly alpha?: number;
  /** SWIGLU_OAI: bound of gate and value, 7 when absent */
  readonly limit?: number;
}

export const gluDef: OpDef<GluParams> = {
  name: "glu",
  doc: "x [2n, ...], or x [n, ...] and g [n, ...] -> act(x) g [n, ...]: reglu, geglu (tanh form, computed exactly), swiglu, swiglu_oai, geglu_erf, geglu_quick.",
  inplace: true,
  options: ["fn", "swapped", "alpha", "limit"],
  infer(src, params): Result {
    const x = need("glu", src, 0);
    const g = src[1];
    needType("glu", "x", x.type, FLOATS);
    needRows("glu", "x", x);
    const slots = pack(params);
    if (g === undefined) {
      needShape("glu", x.ne[0] % 2 === 0, x.ne, x.ne, "a row of an odd number of elements has no halves");
      return { type: x.type, ne: [x.ne[0] / 2, x.ne[1], x.ne[2], x.ne[3]], params: slots };
    }
    needType("glu", "g", g.type, [x.type]);
    needSameShape("glu", x.ne, g.ne);
    needRows("glu", "g", g);
    return { type: x.type, ne: x.ne, params: slots };
  },
};

function pack({ fn, swapped = false, alpha = 1.702, limit = 7 }: GluParams): readonly number[] {
  needInteger("glu", "fn", fn, 0, Glu.COUNT - 1);
  if (fn !== Glu.SWIGLU_OAI) return [fn, swapped ? 1 : 0];
  needFinite("glu", "alpha", alpha);
  needFinite("glu", "limit", limit);
  return [fn, swapped ? 1 : 0, f32bits(alpha), f32bits(limit)];
}
