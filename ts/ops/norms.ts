// What NORM RMS_NORM L2_NORM share.

import { Type } from "../types.ts";
import { f32bits, need, needParam, needRows, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of the norms. */
export interface NormParams {
  readonly eps: number;
}

/** A norm of rows. */
export function normDefOf(name: string, doc: string): OpDef<NormParams> {
  return {
    name,
    doc,
    inplace: true,
    infer(src, { eps }): Result {
      const a = need(name, src, 0);
      needType(name, "a", a.type, [Type.F32]);
      needRows(name, "a", a);
      needParam(name, "eps", eps, eps >= 0 && Number.isFinite(eps), "a finite number from 0");
      return { type: Type.F32, ne: a.ne, params: [f32bits(eps)] };
    },
  };
}
