// GET_ROWS: rows of a table by index. A row id outside the table traps.
//
//   table [n, rows, a, b] of any type, ids I32 [count, a, b] -> [n, count, a, b] F32 (I32 from an I32 table)

import { Flag } from "../abi";
import { liveRows, Node, rowAt, rowPtr, share } from "../node";
import { PAIR_ROWS } from "../quants/quad";
import { dequantizeQuadRow } from "../quants/quad_rows";
import { convert } from "./convert";

/** Threads split the rows of the result. */
export function getRows(n: Node, ith: i32, nth: i32): void {
  const table = n.src0!;
  const ids = n.src1!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const i2 = q % n.ne2;
    const i3 = q / n.ne2;
    const id = load<i32>(rowAt(ids, i2, i3, 0) + <usize>(r % n.ne1) * ids.nb0);
    if (<u32>id >= <u32>table.ne1) unreachable();
    if ((table.flags & Flag.QUADS) != 0) {
      const pair = rowAt(table, id & ~(PAIR_ROWS - 1), i2, i3);
      dequantizeQuadRow(table.type, pair, id & (PAIR_ROWS - 1), rowPtr(n, r), n.ne0);
    } else convert(table.type, rowAt(table, id, i2, i3), table.nb0, n.type, rowPtr(n, r), n.nb0, n.ne0);
  }
}
