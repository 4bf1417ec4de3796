// GET_ROWS: rows of a table by index.

import { Type } from "../types.ts";
import {
  BLOCKS,
  FLOATS,
  need,
  needRows,
  needShape,
  needType,
  type OpDef,
  type Result,
  SUPER_BLOCKS,
} from "./op.ts";

/** Types that a table can have. */
export const TABLES: readonly Type[] = [...FLOATS, Type.I32, ...BLOCKS, ...SUPER_BLOCKS];

export const getRowsDef: OpDef = {
  name: "get_rows",
  doc: "table [n, m, a, b] of a float or block type or I32, ids [k, a, b] I32 -> [n, k, a, b] F32 (I32 from an I32 table); an id outside the table ends the run with an error.",
  inplace: false,
  infer(src): Result {
    const table = need("get_rows", src, 0);
    const ids = need("get_rows", src, 1);
    needType("get_rows", "table", table.type, TABLES);
    needType("get_rows", "ids", ids.type, [Type.I32]);
    needRows("get_rows", "table", table);
    const batches = table.ne[2] === ids.ne[1] && table.ne[3] === ids.ne[2] && ids.ne[3] === 1;
    needShape("get_rows", batches, table.ne, ids.ne, "dimensions 2, 3 of the table are not 1, 2 of the ids");
    const type = table.type === Type.I32 ? Type.I32 : Type.F32;
    return { type, ne: [table.ne[0], ids.ne[0], ids.ne[1], ids.ne[2]] };
  },
};
