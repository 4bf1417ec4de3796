// L2_NORM: each row a / max(sqrt(sum(a^2)), eps).

import { normDefOf, type NormParams } from "./norms.ts";
import type { OpDef } from "./op.ts";

export const l2NormDef: OpDef<NormParams> = normDefOf(
  "l2_norm",
  "a [n, ...] F32 -> a / max(sqrt(sum(a^2)), eps), row by row.",
);
