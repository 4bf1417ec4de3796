// PERMUTE: dimensions in another order. Computes nothing.

import type { Shape, Strides } from "../shape.ts";
import { isQuantized } from "../types.ts";
import { need, needParam, type OpDef, type Result } from "./op.ts";

/** Parameters of PERMUTE. */
export interface PermuteParams {
  /** dimension i of the source becomes dimension axes[i] of the result */
  readonly axes: readonly [number, number, number, number];
}

export const permuteDef: OpDef<PermuteParams> = {
  name: "permute",
  doc: "a [...] -> a view of it in which dimension i of a is dimension axes[i].",
  inplace: false,
  infer(src, { axes }): Result {
    const a = need("permute", src, 0);
    const valid = axes.length === 4 && [0, 1, 2, 3].every((i) => axes.includes(i));
    needParam("permute", "axes", axes.join(","), valid, "the numbers 0 to 3 in some order");
    needParam(
      "permute",
      "axes",
      axes.join(","),
      axes[0] === 0 || !isQuantized(a.type),
      "0 first: blocks stay whole",
    );
    const ne = [0, 0, 0, 0];
    const nb = [0, 0, 0, 0];
    axes.forEach((to, i) => {
      ne[to] = a.ne[i]!;
      nb[to] = a.nb[i]!;
    });
    return {
      type: a.type,
      ne: ne as unknown as Shape,
      nb: nb as unknown as Strides,
      params: axes,
      viewOf: 0,
    };
  },
};
