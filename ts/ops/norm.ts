// NORM: each row (a - mean) / sqrt(var + eps), mean and biased variance of the row.

import { normDefOf, type NormParams } from "./norms.ts";
import type { OpDef } from "./op.ts";

export const normDef: OpDef<NormParams> = normDefOf(
  "norm",
  "a [n, ...] F32 -> (a - mean) / sqrt(var + eps), mean and biased variance of the row, row by row.",
);
