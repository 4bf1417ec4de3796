// UPSCALE: an image in another size.

import { shape4 } from "../shape.ts";
import { Type } from "../types.ts";
import { need, needParam, needShape, needType, type OpDef, type Result } from "./op.ts";

/** How pixels between the given ones are made. */
export type ScaleMode = "nearest" | "bilinear" | "bicubic";

const MODES: readonly ScaleMode[] = ["nearest", "bilinear", "bicubic"];
// Shared with assembly/kernels/upscale.ts.
const ALIGN_CORNERS = 256;
const ANTIALIAS = 512;

/** Parameters of UPSCALE. */
export interface UpscaleParams {
  /** shape of the result */
  readonly ne: readonly number[];
  /** nearest when absent */
  readonly mode?: ScaleMode;
  /** corner pixels keep their places (else the outer edges of pixels do) */
  readonly alignCorners?: boolean;
  /** bilinear only: windows widen when the image shrinks */
  readonly antialias?: boolean;
}

export const upscaleDef: OpDef<UpscaleParams> = {
  name: "upscale",
  doc: "a [W, H, ...] F32 -> a in the shape asked for, larger or smaller, by the nearest pixel, bilinear or bicubic; dimensions 2 and 3 always by the nearest.",
  inplace: false,
  infer(src, { ne, mode = "nearest", alignCorners = false, antialias = false }): Result {
    const a = need("upscale", src, 0);
    const to = shape4(ne);
    needType("upscale", "a", a.type, [Type.F32]);
    needParam("upscale", "mode", mode, MODES.includes(mode), MODES.join(" or "));
    needParam("upscale", "antialias", antialias, !antialias || mode === "bilinear", "false unless bilinear");
    const counts = to.every((n) => Number.isSafeInteger(n) && n >= 1) && a.ne.every((n) => n >= 1);
    needShape("upscale", counts, a.ne, to, "expected counts from 1");
    const flags = (alignCorners ? ALIGN_CORNERS : 0) | (antialias ? ANTIALIAS : 0);
    return { type: Type.F32, ne: to, params: [MODES.indexOf(mode) | flags] };
  },
};
