// ARANGE: numbers at equal distances.

import { Type } from "../types.ts";
import { f32bits, needFinite, needParam, type OpDef, type Result } from "./op.ts";

/** Parameters of ARANGE. */
export interface ArangeParams {
  readonly start: number;
  /** first number that is too far */
  readonly stop: number;
  readonly step: number;
}

export const arangeDef: OpDef<ArangeParams> = {
  name: "arange",
  doc: "no source -> [n] F32, start + step i for as many i as stay before stop.",
  inplace: false,
  infer(_src, params): Result {
    for (const [name, value] of Object.entries(params)) needFinite("arange", name, value as number);
    const [start, stop, step] = [params.start, params.stop, params.step].map(Math.fround) as [
      number,
      number,
      number,
    ];
    const n = Math.ceil(Math.fround(Math.fround(stop - start) / step));
    needParam("arange", "number of elements", n, n >= 1 && n < 2 ** 31, "1 to 2^31 - 1");
    return { type: Type.F32, ne: [n, 1, 1, 1], params: [start, stop, step].map(f32bits) };
  },
};
