// DIAG_MASK_ZERO: zeros right of the diagonal.

import { Type } from "../types.ts";
import type { DiagMaskInfParams } from "./diag_mask_inf.ts";
import { need, needInteger, needRows, needType, type OpDef, type Result } from "./op.ts";

export const diagMaskZeroDef: OpDef<DiagMaskInfParams> = {
  name: "diag_mask_zero",
  doc: "a [n, m, ...] F32 -> a, but 0 where i0 > nPast + i1.",
  inplace: true,
  infer(src, { nPast }): Result {
    const a = need("diag_mask_zero", src, 0);
    needType("diag_mask_zero", "a", a.type, [Type.F32]);
    needRows("diag_mask_zero", "a", a);
    needInteger("diag_mask_zero", "nPast", nPast, 0, 2 ** 30);
    return { type: Type.F32, ne: a.ne, params: [nPast] };
  },
};
