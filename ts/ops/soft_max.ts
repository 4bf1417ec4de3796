// SOFT_MAX: with scale, mask, ALiBi and sinks.

import { Type } from "../types.ts";
import { f32bits, need, needFinite, needParam, needRows, needShape, needType, type Operand } from "./op.ts";
import type { OpDef, Result } from "./op.ts";

/** Parameters of SOFT_MAX. */
export interface SoftMaxParams {
  /** 1 when absent */
  readonly scale?: number;
  /** ALiBi: largest bias; 0 or absent = none. Needs a mask. */
  readonly maxBias?: number;
}

export const softMaxDef: OpDef<SoftMaxParams> = {
  name: "soft_max",
  doc: "x [n, m, h, b] F32, mask? [n, >= m, h or a divisor, b or a divisor] F32 or F16, sinks? [h] F32 -> softmax(scale x + slope mask) over rows; a row that is masked altogether gives zeros.",
  inplace: true,
  options: ["scale", "maxBias"],
  infer(src, { scale = 1, maxBias = 0 }): Result {
    const x = need("soft_max", src, 0);
    needType("soft_max", "x", x.type, [Type.F32]);
    needRows("soft_max", "x", x);
    needFinite("soft_max", "scale", scale);
    needParam(
      "soft_max",
      "maxBias",
      maxBias,
      maxBias >= 0 && Number.isFinite(maxBias),
      "a finite number from 0",
    );
    needParam(
      "soft_max",
      "maxBias",
      maxBias,
      maxBias === 0 || src[1] !== undefined,
      "0, because there is no mask",
    );
    if (src[1] !== undefined) checkMask(x, src[1]);
    if (src[2] !== undefined) {
      needType("soft_max", "sinks", src[2].type, [Type.F32]);
      needShape("soft_max", src[2].ne[0] === x.ne[2], x.ne, src[2].ne, "expected a sink per head (ne[2])");
    }
    return { type: Type.F32, ne: x.ne, params: [f32bits(scale), f32bits(maxBias)] };
  },
  flops: (dst) => 8 * dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3],
};

function checkMask(x: Operand, mask: Operand): void {
  needType("soft_max", "mask", mask.type, [Type.F32, Type.F16]);
  needRows("soft_max", "mask", mask);
  const rows = mask.ne[0] === x.ne[0] && mask.ne[1] >= x.ne[1];
  const planes = x.ne[2] % mask.ne[2] === 0 && x.ne[3] % mask.ne[3] === 0;
  needShape("soft_max", rows && planes, x.ne, mask.ne, "the mask does not cover x");
}
