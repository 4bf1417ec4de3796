// IM2COL: the patches of an image as rows, so that a convolution becomes a product.

import { Type } from "../types.ts";
import { type ConvParams, convSlots, needFlat, windows } from "./conv.ts";
import { need, needShape, needType, type OpDef, type Operand, type Result } from "./op.ts";

/** Parameters of IM2COL. */
export interface Im2colParams extends ConvParams {
  /** F32 when absent */
  readonly type?: Type;
  /** true when absent; else the kernel is [KW, C, OC] and x is [W, C, N] */
  readonly is2D?: boolean;
}

export const im2colDef: OpDef<Im2colParams> = {
  name: "im2col",
  doc: "kernel [KW, KH, C, OC] of any type, read for its shape only, x [W, H, C, N] F32 or F16 -> [KW KH C, OW, OH, N] F32 or F16: the window of each output element as a row, zeros outside x. In one dimension: kernel [KW, C, OC], x [W, C, N] -> [KW C, OW, N].",
  inplace: false,
  infer(src, params): Result {
    const kernel = need("im2col", src, 0);
    const x = need("im2col", src, 1);
    const { type = Type.F32, is2D = true } = params;
    needType("im2col", "x", x.type, [Type.F32, Type.F16]);
    needType("im2col", "result", type, [Type.F32, Type.F16]);
    const slots = convSlots("im2col", params);
    return is2D ? images(kernel, x, type, slots) : signals(kernel, x, type, slots);
  },
};

function images(kernel: Operand, x: Operand, type: Type, slots: readonly number[]): Result {
  const [kw, kh, c] = kernel.ne;
  const [s0, s1, p0, p1, d0, d1] = slots as [number, number, number, number, number, number];
  needShape("im2col", c === x.ne[2], kernel.ne, x.ne, "numbers of channels (ne[2]) differ");
  const ow = windows("im2col", x.ne[0], kw, s0, p0, d0);
  const oh = windows("im2col", x.ne[1], kh, s1, p1, d1);
  return { type, ne: [kw * kh * c, ow, oh, x.ne[3]], params: [...slots, 1] };
}

function signals(kernel: Operand, x: Operand, type: Type, slots: readonly number[]): Result {
  const [kw, c] = kernel.ne;
  const [s0, , p0, , d0] = slots as [number, number, number, number, number];
  needFlat("im2col", "x", x.ne, 3);
  needShape("im2col", c === x.ne[1], kernel.ne, x.ne, "numbers of channels (ne[1]) differ");
  const ow = windows("im2col", x.ne[0], kw, s0, p0, d0);
  return { type, ne: [kw * c, ow, x.ne[2], 1], params: [s0, 0, p0, 0, d0] };
}
