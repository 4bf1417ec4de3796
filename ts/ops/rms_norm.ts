// RMS_NORM: each row a / sqrt(mean(a^2) + eps).

import { normDefOf, type NormParams } from "./norms.ts";
import type { OpDef } from "./op.ts";

export const rmsNormDef: OpDef<NormParams> = normDefOf(
  "rms_norm",
  "a [n, ...] F32 -> a / sqrt(mean(a^2) + eps), row by row.",
);
