// GROUP_NORM: groups of channels, each (a - mean) / sqrt(var + eps).

import { Type } from "../types.ts";
import { f32bits, need, needInteger, needParam, needRows, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of GROUP_NORM. */
export interface GroupNormParams {
  readonly nGroups: number;
  readonly eps: number;
}

export const groupNormDef: OpDef<GroupNormParams> = {
  name: "group_norm",
  doc: "a [W, H, C, N] F32 -> (a - mean) / sqrt(var + eps), mean and biased variance of ceil(C / nGroups) channels together; the last group may have fewer.",
  inplace: true,
  infer(src, { nGroups, eps }): Result {
    const a = need("group_norm", src, 0);
    needType("group_norm", "a", a.type, [Type.F32]);
    needRows("group_norm", "a", a);
    needInteger("group_norm", "nGroups", nGroups, 1, Math.max(1, a.ne[2]));
    needParam("group_norm", "eps", eps, eps >= 0 && Number.isFinite(eps), "a finite number from 0");
    return { type: Type.F32, ne: a.ne, params: [nGroups, f32bits(eps)] };
  },
};
