// VIEW: a window into a tensor. Computes nothing.

import { contiguous, nbytes, type Strides } from "../shape.ts";
import { typeInfo } from "../types.ts";
import { need, needCounts, needInteger, needParam, needShape, type OpDef, type Result } from "./op.ts";

/** Parameters of VIEW. */
export interface ViewParams {
  readonly ne: readonly number[];
  /** bytes between neighbours, dimension 0 first; missing ones as if there were no gaps */
  readonly nb?: readonly number[];
  /** first element, bytes from the start of the source; 0 when absent */
  readonly offs?: number;
}

export const viewDef: OpDef<ViewParams> = {
  name: "view",
  doc: "a [...] -> a view of some of its elements: any shape, strides and offset inside a.",
  inplace: false,
  infer(src, params): Result {
    const a = need("view", src, 0);
    const { offs = 0 } = params;
    const ne = needCounts("view", a.ne, params.ne);
    const { blockSize } = typeInfo(a.type)!;
    needShape("view", ne[0] % blockSize === 0, a.ne, ne, `rows are no multiple of ${blockSize}`);
    const nb = strides(params, contiguous(a.type, ne));
    needParam(
      "view",
      "nb[0]",
      nb[0],
      blockSize === 1 || nb[0] === a.nb[0],
      "the bytes of a block: blocks stay together",
    );
    needInteger("view", "offs", offs, 0, Number.MAX_SAFE_INTEGER);
    const end = offs + nbytes(a.type, ne, nb);
    const size = nbytes(a.type, a.ne, a.nb);
    needParam("view", "end", end, end <= size, `at most ${size} bytes, the size of the source`);
    return {
      type: a.type,
      ne,
      nb,
      params: [offs | 0, Math.floor(offs / 2 ** 32)],
      viewOf: 0,
      viewOffs: offs,
    };
  },
};

// Given strides, and for the others the size of what lies inside them.
function strides({ ne, nb = [] }: ViewParams, packed: Strides): Strides {
  const out: [number, number, number, number] = [nb[0] ?? packed[0], nb[1] ?? packed[1], 0, 0];
  if (nb[0] !== undefined && nb[1] === undefined) out[1] = nb[0] * (packed[1] / packed[0]);
  out[2] = nb[2] ?? out[1] * (ne[1] ?? 1);
  out[3] = nb[3] ?? out[2] * (ne[2] ?? 1);
  for (const b of out) needInteger("view", "nb", b, 0, Number.MAX_SAFE_INTEGER);
  return out;
}
