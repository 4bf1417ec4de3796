// POOL_2D: the largest element or the average of windows of an image.

import { Type } from "../types.ts";
import { MAX_STEP, windows } from "./conv.ts";
import { need, needInteger, needType, type OpDef, type Result } from "./op.ts";
import { type Pool, poolSlot } from "./pool_1d.ts";

/** Parameters of POOL_2D; 0 = along the width, 1 = along the height. */
export interface Pool2dParams {
  readonly pool: Pool;
  /** elements of a window */
  readonly k0: number;
  readonly k1: number;
  /** elements from one window to the next, k when absent */
  readonly s0?: number;
  readonly s1?: number;
  /** elements around x that are left out, 0 when absent */
  readonly p0?: number;
  readonly p1?: number;
}

export const pool2dDef: OpDef<Pool2dParams> = {
  name: "pool_2d",
  doc: "x [W, H, C, N] F32 or F16 -> [OW, OH, C, N] F32, the largest element or the average of windows of k0 x k1; an average is the sum of the elements inside x over k0 k1.",
  inplace: false,
  infer(src, { pool, k0, k1, s0 = k0, s1 = k1, p0 = 0, p1 = 0 }): Result {
    const x = need("pool_2d", src, 0);
    needType("pool_2d", "x", x.type, [Type.F32, Type.F16]);
    const slot = poolSlot("pool_2d", pool);
    for (const [name, value] of Object.entries({ k0, k1, s0, s1 }))
      needInteger("pool_2d", name, value, 1, MAX_STEP);
    needInteger("pool_2d", "p0", p0, 0, k0 - 1);
    needInteger("pool_2d", "p1", p1, 0, k1 - 1);
    const ow = windows("pool_2d", x.ne[0], k0, s0, p0, 1);
    const oh = windows("pool_2d", x.ne[1], k1, s1, p1, 1);
    const ne = [ow, oh, x.ne[2], x.ne[3]] as const;
    return { type: Type.F32, ne, params: [slot, k0, k1, s0, s1, p0, p1] };
  },
};
