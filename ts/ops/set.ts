// SET: overwrites a window.

import { Type } from "../types.ts";
import type { OpDef } from "./op.ts";
import { patchDef, type PatchParams } from "./patch.ts";

export const setDef: OpDef<PatchParams> = patchDef(
  "set",
  "a [...] F32 or I32, b [...] of a's type -> a, but b in the window of b's shape at nb and offset.",
  [Type.F32, Type.I32],
);
