// SSM_CONV: the short causal convolution in front of a state space layer.

import { Type } from "../types.ts";
import { need, needShape, needType, type OpDef, type Result } from "./op.ts";

export const ssmConvDef: OpDef = {
  name: "ssm_conv",
  doc: "x [K - 1 + T, C, S] F32, kernel [K, C] F32 -> [C, T, S]: sums over K of kernel[k, c] x[t + k, c, s].",
  inplace: false,
  infer(src): Result {
    const x = need("ssm_conv", src, 0);
    const kernel = need("ssm_conv", src, 1);
    needType("ssm_conv", "x", x.type, [Type.F32]);
    needType("ssm_conv", "kernel", kernel.type, [Type.F32]);
    const [k, c] = kernel.ne;
    const flat = x.ne[3] === 1 && kernel.ne[2] === 1 && kernel.ne[3] === 1;
    needShape("ssm_conv", flat && c === x.ne[1], x.ne, kernel.ne, "numbers of channels differ");
    const t = x.ne[0] - k + 1;
    needShape("ssm_conv", k >= 1 && t >= 1, x.ne, kernel.ne, "rows of x are shorter than the kernel");
    return { type: Type.F32, ne: [c, t, x.ne[2], 1] };
  },
  flops: (dst, src) => 2 * src[1]!.ne[0] * dst.ne[0] * dst.ne[1] * dst.ne[2],
};
