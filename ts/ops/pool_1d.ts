// POOL_1D: the largest element or the average of windows along each row.

import { Type } from "../types.ts";
import { MAX_STEP, windows } from "./conv.ts";
import { need, needInteger, needParam, needType, type OpDef, type Result } from "./op.ts";

/** What a pool makes of a window. */
export type Pool = "max" | "avg";

/** Parameters of POOL_1D. */
export interface Pool1dParams {
  readonly pool: Pool;
  /** elements of a window */
  readonly k: number;
  /** elements from one window to the next, k when absent */
  readonly s?: number;
  /** elements in front and behind that are left out, 0 when absent */
  readonly p?: number;
}

/** Slot of a pool. */
export function poolSlot(op: string, pool: Pool): number {
  needParam(op, "pool", pool, pool === "max" || pool === "avg", "max or avg");
  return pool === "max" ? 0 : 1;
}

export const pool1dDef: OpDef<Pool1dParams> = {
  name: "pool_1d",
  doc: "x [W, ...] F32 or F16 -> [OW, ...] F32, the largest element or the average of windows of k; an average is over the elements inside x.",
  inplace: false,
  infer(src, { pool, k, s = k, p = 0 }): Result {
    const x = need("pool_1d", src, 0);
    needType("pool_1d", "x", x.type, [Type.F32, Type.F16]);
    const slot = poolSlot("pool_1d", pool);
    needInteger("pool_1d", "k", k, 1, MAX_STEP);
    needInteger("pool_1d", "s", s, 1, MAX_STEP);
    needInteger("pool_1d", "p", p, 0, k - 1);
    const ow = windows("pool_1d", x.ne[0], k, s, p, 1);
    return { type: Type.F32, ne: [ow, x.ne[1], x.ne[2], x.ne[3]], params: [slot, k, s, p] };
  },
};
