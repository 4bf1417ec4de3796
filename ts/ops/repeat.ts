// REPEAT: tiles a tensor.

import { canRepeat } from "../shape.ts";
import { Type } from "../types.ts";
import { need, needCounts, needShape, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of REPEAT. */
export interface RepeatParams {
  /** shape of the result, a multiple of a's in every dimension */
  readonly ne: readonly number[];
}

export const repeatDef: OpDef<RepeatParams> = {
  name: "repeat",
  doc: "a [...] -> a tiled over the shape asked for. F32, F16, BF16, I32, I16.",
  inplace: false,
  infer(src, { ne }): Result {
    const a = need("repeat", src, 0);
    needType("repeat", "a", a.type, [Type.F32, Type.F16, Type.BF16, Type.I32, Type.I16]);
    const to = needCounts("repeat", a.ne, ne);
    needShape("repeat", canRepeat(a.ne, to), a.ne, to, "the result is no multiple of a");
    return { type: a.type, ne: to };
  },
};
