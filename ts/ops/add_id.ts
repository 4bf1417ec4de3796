// ADD_ID: adds to each row the row of a table with its id.

import { Type } from "../types.ts";
import { FLOATS, need, needRows, needShape, needType, type OpDef, type Result } from "./op.ts";

export const addIdDef: OpDef = {
  name: "add_id",
  doc: "a [n, k, t] F32, b [n, x] F32, F16 or BF16, ids [k, t] I32 -> a[.., i, t] + b[.., ids[i, t]]; an id outside 0..x-1 ends the run with an error.",
  inplace: true,

  infer(src): Result {
    const [a, b, ids] = [need("add_id", src, 0), need("add_id", src, 1), need("add_id", src, 2)];
    needType("add_id", "a", a.type, [Type.F32]);
    needType("add_id", "b", b.type, FLOATS);
    needType("add_id", "ids", ids.type, [Type.I32]);
    needShape("add_id", a.ne[0] === b.ne[0], a.ne, b.ne, "rows differ in length");
    needShape("add_id", b.ne[2] === 1 && b.ne[3] === 1, a.ne, b.ne, "b is no matrix");
    const each = a.ne[1] === ids.ne[0] && a.ne[2] === ids.ne[1] && a.ne[3] === 1;
    needShape("add_id", each && ids.ne[2] === 1 && ids.ne[3] === 1, a.ne, ids.ne, "not one id for each row");
    needRows("add_id", "a", a);
    needRows("add_id", "b", b);
    return { type: Type.F32, ne: a.ne };
  },
};
