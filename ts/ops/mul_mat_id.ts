// MUL_MAT_ID: products with one of several matrices, chosen for each column by an id.

import { LIST_COLUMNS } from "../../assembly/abi.ts";
import { isContiguousRows } from "../shape.ts";
import { isQuantized, Type, typeInfo } from "../types.ts";
import { blockBytes, floatRowBytes, partners, WEIGHTS } from "./mul_mat.ts";
import { need, needShape, needType, type OpDef, type Operand, type Result } from "./op.ts";

export const mulMatIdDef: OpDef = {
  name: "mul_mat_id",
  doc: "a [k, m, x], b [k, 1 or n, t], ids [n, t] I32 -> [m, n, t]: column i of token t times matrix ids[i, t]; an id outside 0..x-1 ends the run with an error.",
  inplace: false,

  infer(src): Result {
    const [a, b, ids] = [need("mul_mat_id", src, 0), need("mul_mat_id", src, 1), need("mul_mat_id", src, 2)];
    needType("mul_mat_id", "a", a.type, WEIGHTS);
    needType("mul_mat_id", "b", b.type, partners(a.type));
    needType("mul_mat_id", "ids", ids.type, [Type.I32]);
    needShape("mul_mat_id", a.ne[0] === b.ne[0], a.ne, b.ne, "rows differ in length");
    needShape("mul_mat_id", a.ne[3] === 1 && b.ne[3] === 1, a.ne, b.ne, "dimension 3 is not 1");
    const one = b.ne[1] === 1 || b.ne[1] === ids.ne[0];
    needShape("mul_mat_id", one, b.ne, ids.ne, "b has neither one column nor one for each id");
    const flat = ids.ne[2] === 1 && ids.ne[3] === 1;
    needShape("mul_mat_id", flat && b.ne[2] === ids.ne[1], b.ne, ids.ne, "b and ids differ in tokens");
    checkRows(a, b);
    return { type: Type.F32, ne: [a.ne[1], ids.ne[0], ids.ne[1], 1] };
  },

  scratch(_dst, src, nThreads): number {
    const { type, ne } = src[0]!;
    const ids = src[2]!;
    const columns = Math.min(LIST_COLUMNS, 4 * Math.ceil((ids.ne[0] * ids.ne[1]) / 4));
    const perThread = isQuantized(type)
      ? blockBytes(ne[0] / 32, columns)
      : floatRowBytes(type, ne[0]) + 4 * ne[0] * columns;
    return nThreads * 64 * Math.ceil((LIST_COLUMNS * 8 + 64 + perThread) / 64);
  },

  flops: (dst, src) => 2 * src[0]!.ne[0] * dst.ne[0] * dst.ne[1] * dst.ne[2],
};

function checkRows(a: Operand, b: Operand): void {
  const { blockSize } = typeInfo(a.type)!;
  needShape("mul_mat_id", a.ne[0] % blockSize === 0, a.ne, b.ne, `rows are no multiple of ${blockSize}`);
  for (const x of [a, b]) {
    const plain = isContiguousRows(x.type, x.ne, x.nb);
    needShape("mul_mat_id", plain, x.ne, x.nb, "rows have gaps between elements");
  }
}
