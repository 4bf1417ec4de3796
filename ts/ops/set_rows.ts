// SET_ROWS: writes rows into a tensor by index, such as keys into a cache.

import { Type } from "../types.ts";
import {
  BLOCKS,
  FLOATS,
  need,
  needRows,
  needShape,
  needType,
  needWritable,
  type OpDef,
  type Result,
} from "./op.ts";

export const setRowsDef: OpDef = {
  name: "set_rows",
  doc: "rows [n, k, a, b] F32 (or F16, into floats), ids [k, a', b'] I64 or I32 with a' dividing a and b' dividing b, target [n, m, a, b] of a float or block type -> a view of target, with row ids[i] = rows[i]; the later row wins; an id outside the target ends the run with an error.",
  inplace: false,
  infer(src): Result {
    const rows = need("set_rows", src, 0);
    const ids = need("set_rows", src, 1);
    const target = need("set_rows", src, 2);
    needType("set_rows", "rows", rows.type, [Type.F32, Type.F16]);
    needType("set_rows", "ids", ids.type, [Type.I64, Type.I32]);
    const targets = rows.type === Type.F32 ? [...FLOATS, ...BLOCKS] : FLOATS;
    needType("set_rows", "target", target.type, targets);
    for (const x of [rows, target]) needRows("set_rows", x === rows ? "rows" : "target", x);
    const same = rows.ne[0] === target.ne[0] && rows.ne[2] === target.ne[2] && rows.ne[3] === target.ne[3];
    needShape("set_rows", same, target.ne, rows.ne, "only dimension 1 of rows may differ from target");
    const repeats = ids.ne[0] === rows.ne[1] && rows.ne[2] % ids.ne[1] === 0 && rows.ne[3] % ids.ne[2] === 0;
    needShape("set_rows", repeats && ids.ne[3] === 1, rows.ne, ids.ne, "ids do not repeat over the rows");
    needWritable("set_rows", target);
    return { type: target.type, ne: target.ne, nb: target.nb, viewOf: 2 };
  },
  flops: (_dst, src) => src[0]!.ne[0] * src[0]!.ne[1] * src[0]!.ne[2] * src[0]!.ne[3],
};
