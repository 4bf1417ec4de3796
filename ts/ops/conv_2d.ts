// CONV_2D: convolution of images without the detour over patches.

import { Type } from "../types.ts";
import { type ConvParams, convSlots, needConvTypes, windows } from "./conv.ts";
import { need, needShape, type OpDef, type Result } from "./op.ts";

export const conv2dDef: OpDef<ConvParams> = {
  name: "conv_2d",
  doc: "kernel [KW, KH, C, OC] F32 or F16, x [W, H, C, N] F32 -> [OW, OH, OC, N] F32: sums over KW, KH, C of kernel * x, zeros outside x. With a kernel of F16 x is rounded to F16.",
  inplace: false,
  infer(src, params): Result {
    const kernel = need("conv_2d", src, 0);
    const x = need("conv_2d", src, 1);
    needConvTypes("conv_2d", kernel, x);
    const slots = convSlots("conv_2d", params);
    const [s0, s1, p0, p1, d0, d1] = slots as [number, number, number, number, number, number];
    needShape("conv_2d", kernel.ne[2] === x.ne[2], kernel.ne, x.ne, "numbers of channels (ne[2]) differ");
    const ow = windows("conv_2d", x.ne[0], kernel.ne[0], s0, p0, d0);
    const oh = windows("conv_2d", x.ne[1], kernel.ne[1], s1, p1, d1);
    return { type: Type.F32, ne: [ow, oh, kernel.ne[3], x.ne[3]], params: slots };
  },
  flops: (dst, src) => 2 * src[0]!.ne[0] * src[0]!.ne[1] * src[0]!.ne[2] * elements(dst.ne),
};

function elements(ne: readonly number[]): number {
  return ne.reduce((a, b) => a * b, 1);
}
