// RESHAPE: the same elements in another shape. Computes nothing.

import { isContiguous, nelements } from "../shape.ts";
import { typeInfo } from "../types.ts";
import { need, needCounts, needShape, type OpDef, type Result } from "./op.ts";

/** Parameters of RESHAPE. */
export interface ReshapeParams {
  readonly ne: readonly number[];
}

export const reshapeDef: OpDef<ReshapeParams> = {
  name: "reshape",
  doc: "a [...] without gaps -> a view of it in another shape of as many elements.",
  inplace: false,
  infer(src, { ne }): Result {
    const a = need("reshape", src, 0);
    const to = needCounts("reshape", a.ne, ne);
    needShape(
      "reshape",
      isContiguous(a.type, a.ne, a.nb),
      a.ne,
      a.nb,
      "the source has gaps (these are its strides): use cont",
    );
    needShape("reshape", nelements(a.ne) === nelements(to), a.ne, to, "numbers of elements differ");
    const { blockSize } = typeInfo(a.type)!;
    needShape("reshape", to[0] % blockSize === 0, a.ne, to, `rows are no multiple of ${blockSize}`);
    return { type: a.type, ne: to, viewOf: 0 };
  },
};
