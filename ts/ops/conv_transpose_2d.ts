// CONV_TRANSPOSE_2D: each pixel of an image spreads a scaled kernel.

import { Type } from "../types.ts";
import { MAX_STEP, needConvTypes } from "./conv.ts";
import { need, needInteger, needShape, type OpDef, type Result } from "./op.ts";

/** Parameters of CONV_TRANSPOSE_2D. */
export interface ConvTranspose2dParams {
  /** output pixels per input pixel, in both directions */
  readonly stride: number;
}

export const convTranspose2dDef: OpDef<ConvTranspose2dParams> = {
  name: "conv_transpose_2d",
  doc: "kernel [KW, KH, OC, C] F32 or F16, x [W, H, C, N] F32 -> [(W - 1) stride + KW, (H - 1) stride + KH, OC, N] F32: y[o, u] = sum over C, i, j of kernel[o - i stride, u - j stride] x[i, j]. With a kernel of F16 x is rounded to F16.",
  inplace: false,
  infer(src, { stride }): Result {
    const op = "conv_transpose_2d";
    const kernel = need(op, src, 0);
    const x = need(op, src, 1);
    needConvTypes(op, kernel, x);
    needInteger(op, "stride", stride, 1, MAX_STEP);
    needShape(op, kernel.ne[3] === x.ne[2], kernel.ne, x.ne, "numbers of channels differ");
    const filled = [kernel.ne[0], kernel.ne[1], x.ne[0], x.ne[1]].every((n) => n > 0);
    needShape(op, filled, kernel.ne, x.ne, "expected elements");
    const ow = (x.ne[0] - 1) * stride + kernel.ne[0];
    const oh = (x.ne[1] - 1) * stride + kernel.ne[1];
    return { type: Type.F32, ne: [ow, oh, kernel.ne[2], x.ne[3]], params: [stride] };
  },
  flops(_dst, src): number {
    const [kw, kh, oc] = src[0]!.ne;
    return 2 * kw * kh * oc * src[1]!.ne.reduce((a, b) => a * b, 1);
  },
};
