// PAD_REFLECT_1D: rows mirrored at their ends.

import { Type } from "../types.ts";
import { need, needInteger, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of PAD_REFLECT_1D. */
export interface PadReflect1dParams {
  /** elements in front */
  readonly p0: number;
  /** elements behind */
  readonly p1: number;
}

export const padReflect1dDef: OpDef<PadReflect1dParams> = {
  name: "pad_reflect_1d",
  doc: "a [n, ...] F32 -> [p0 + n + p1, ...], rows mirrored at their first and last element, which are not repeated.",
  inplace: false,
  infer(src, { p0, p1 }): Result {
    const a = need("pad_reflect_1d", src, 0);
    needType("pad_reflect_1d", "a", a.type, [Type.F32]);
    needInteger("pad_reflect_1d", "p0", p0, 0, a.ne[0] - 1);
    needInteger("pad_reflect_1d", "p1", p1, 0, a.ne[0] - 1);
    return { type: Type.F32, ne: [a.ne[0] + p0 + p1, a.ne[1], a.ne[2], a.ne[3]], params: [p0, p1] };
  },
};
