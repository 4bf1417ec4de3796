// ACC: adds to a window.

import { Type } from "../types.ts";
import type { OpDef } from "./op.ts";
import { patchDef, type PatchParams } from "./patch.ts";

export const accDef: OpDef<PatchParams> = patchDef(
  "acc",
  "a [...] F32, b [...] F32 -> a, b added to the window of b's shape at nb and offset.",
  [Type.F32],
);
