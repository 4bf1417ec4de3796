// CONT: the same elements without gaps.

import { contiguous, type Shape } from "../shape.ts";
import { needCopy } from "./copy.ts";
import { need, needCounts, type OpDef, type Result } from "./op.ts";

/** Parameters of CONT. */
export interface ContParams {
  /** shape of the result, of as many elements; a's when absent */
  readonly ne?: readonly number[];
}

export const contDef: OpDef<ContParams> = {
  name: "cont",
  doc: "a [...] with any strides -> the same elements in row-major order without gaps, in the shape asked for.",
  inplace: false,
  infer(src, { ne }): Result {
    const a = need("cont", src, 0);
    const to: Shape = ne === undefined ? a.ne : needCounts("cont", a.ne, ne);
    needCopy("cont", a, { type: a.type, ne: to, nb: contiguous(a.type, to) });
    return { type: a.type, ne: to };
  },
};
