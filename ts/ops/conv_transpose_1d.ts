// CONV_TRANSPOSE_1D: each element of a signal spreads a scaled kernel.

import { Type } from "../types.ts";
import { MAX_STEP, needConvTypes, needFlat } from "./conv.ts";
import { need, needInteger, needShape, type OpDef, type Result } from "./op.ts";

/** Parameters of CONV_TRANSPOSE_1D. */
export interface ConvTranspose1dParams {
  /** output elements per input element */
  readonly s0: number;
}

export const convTranspose1dDef: OpDef<ConvTranspose1dParams> = {
  name: "conv_transpose_1d",
  doc: "kernel [K, OC, C] F32 or F16, x [L, C] F32 -> [(L - 1) s0 + K, OC] F32: y[o] = sum over C and i of kernel[o - i s0] x[i]. With a kernel of F16 x is rounded to F16.",
  inplace: false,
  infer(src, { s0 }): Result {
    const kernel = need("conv_transpose_1d", src, 0);
    const x = need("conv_transpose_1d", src, 1);
    needConvTypes("conv_transpose_1d", kernel, x);
    needInteger("conv_transpose_1d", "s0", s0, 1, MAX_STEP);
    needFlat("conv_transpose_1d", "x", x.ne, 2);
    const channels = kernel.ne[2] === x.ne[1] && kernel.ne[3] === 1;
    needShape("conv_transpose_1d", channels, kernel.ne, x.ne, "numbers of channels differ");
    const filled = kernel.ne[0] > 0 && x.ne[0] > 0;
    needShape("conv_transpose_1d", filled, kernel.ne, x.ne, "expected elements");
    const length = (x.ne[0] - 1) * s0 + kernel.ne[0];
    return { type: Type.F32, ne: [length, kernel.ne[1], 1, 1], params: [s0, 0, 1] };
  },
  flops: (_dst, src) => 2 * src[0]!.ne[0] * src[0]!.ne[1] * src[1]!.ne[0] * src[1]!.ne[1],
};
