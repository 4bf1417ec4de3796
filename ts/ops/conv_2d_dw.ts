// CONV_2D_DW: each channel convolved with a filter of its own.

import { type Shape, type Strides } from "../shape.ts";
import { Type } from "../types.ts";
import { type ConvParams, convSlots, windows } from "./conv.ts";
import { need, needShape, needType, type OpDef, type Operand, type Result } from "./op.ts";

export const conv2dDwDef: OpDef<ConvParams> = {
  name: "conv_2d_dw",
  doc: "kernel [KW, KH, 1, C] F32 or F16, x [W, H, C, N] F32 -> [OW, OH, C, N] F32: sums over KW, KH of kernel * x, channel by channel, zeros outside x. An x whose channels are neighbours in memory gives a result laid out alike.",
  inplace: false,
  infer(src, params): Result {
    const kernel = need("conv_2d_dw", src, 0);
    const x = need("conv_2d_dw", src, 1);
    needType("conv_2d_dw", "kernel", kernel.type, [Type.F32, Type.F16]);
    needType("conv_2d_dw", "x", x.type, [Type.F32]);
    const slots = convSlots("conv_2d_dw", params);
    const [s0, s1, p0, p1, d0, d1] = slots as [number, number, number, number, number, number];
    const filters = kernel.ne[2] === 1 && kernel.ne[3] === x.ne[2];
    needShape("conv_2d_dw", filters, kernel.ne, x.ne, "expected one filter per channel");
    const ow = windows("conv_2d_dw", x.ne[0], kernel.ne[0], s0, p0, d0);
    const oh = windows("conv_2d_dw", x.ne[1], kernel.ne[1], s1, p1, d1);
    const ne: Shape = [ow, oh, x.ne[2], x.ne[3]];
    const result: Result = { type: Type.F32, ne, params: slots };
    return channelsTogether(x) ? { ...result, nb: channelsFirst(ne) } : result;
  },
  flops: (dst, src) => 2 * src[0]!.ne[0] * src[0]!.ne[1] * dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3],
};

// The channels of each pixel without gaps, then the pixels of a line, then the lines.
function channelsTogether({ ne, nb }: Operand): boolean {
  return ne[2] > 1 && nb[2] === 4 && nb[0] === 4 * ne[2] && nb[1] === nb[0] * ne[0];
}

function channelsFirst(ne: Shape): Strides {
  const pixel = 4 * ne[2];
  return [pixel, pixel * ne[0], 4, pixel * ne[0] * ne[1]];
}
