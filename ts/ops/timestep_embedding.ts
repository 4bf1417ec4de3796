// TIMESTEP_EMBEDDING: cosines and sines of a time at falling frequencies.

import { Type } from "../types.ts";
import { MAX_STEP, needFlat } from "./conv.ts";
import { need, needInteger, needType, type OpDef, type Result } from "./op.ts";

/** Parameters of TIMESTEP_EMBEDDING. */
export interface TimestepEmbeddingParams {
  /** elements of an embedding; the last is 0 when odd */
  readonly dim: number;
  /** 10000 when absent */
  readonly maxPeriod?: number;
}

export const timestepEmbeddingDef: OpDef<TimestepEmbeddingParams> = {
  name: "timestep_embedding",
  doc: "t [n] F32 -> [dim, n] F32: cos(t w_j), then sin(t w_j), w_j = maxPeriod^(-j / h) for j below h = floor(dim / 2); 0 behind them when dim is odd.",
  inplace: false,
  infer(src, { dim, maxPeriod = 10000 }): Result {
    const t = need("timestep_embedding", src, 0);
    needType("timestep_embedding", "t", t.type, [Type.F32]);
    needFlat("timestep_embedding", "t", t.ne, 1);
    needInteger("timestep_embedding", "dim", dim, 1, MAX_STEP);
    needInteger("timestep_embedding", "maxPeriod", maxPeriod, 1, 2 ** 31 - 1);
    return { type: Type.F32, ne: [dim, t.ne[0], 1, 1], params: [dim, maxPeriod] };
  },
};
