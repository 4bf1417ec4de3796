// DIAG_MASK_INF: the causal mask.

import { Type } from "../types.ts";
import { need, needInteger, needRows, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of DIAG_MASK_INF. */
export interface DiagMaskInfParams {
  readonly nPast: number;
}

export const diagMaskInfDef: OpDef<DiagMaskInfParams> = {
  name: "diag_mask_inf",
  doc: "a [n, m, ...] F32 -> a, but -infinity where i0 > nPast + i1.",
  inplace: true,
  infer(src, { nPast }): Result {
    const a = need("diag_mask_inf", src, 0);
    needType("diag_mask_inf", "a", a.type, [Type.F32]);
    needRows("diag_mask_inf", "a", a);
    needInteger("diag_mask_inf", "nPast", nPast, 0, 2 ** 30);
    return { type: Type.F32, ne: a.ne, params: [nPast] };
  },
};
