// SET_ROWS: writes rows of src0 into rows of src2, whose view the result is. A row id outside the target traps.
//
//   rows F32 or F16 [n, count, a, b], ids I64 or I32 [count, a', b'] (a' divides a, b' divides b), target [n, rows, a, b]
//
// Threads split the columns, not the rows: when an id occurs twice, the later row wins for every number of threads.

import { Type } from "../abi";
import { liveRowsOf, Node, rowAt, rowPtr, share } from "../node";
import { convert, offsetOf } from "./convert";

// Columns per unit of work; a multiple of every block.
const UNIT = 256;

/** Result: a view of src2, so n has its address and strides. */
export function setRows(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const units = (n.ne0 + UNIT - 1) / UNIT;
  const first = share(units, ith, nth) * UNIT;
  const count = min(n.ne0, share(units, ith + 1, nth) * UNIT) - first;
  if (count <= 0) return;
  const ox = offsetOf(x.type, x.nb0, first);
  const oy = offsetOf(n.type, n.nb0, first);
  for (let r = 0, end = liveRowsOf(n, x); r < end; r++) {
    const q = r / x.ne1;
    const i2 = q % x.ne2;
    const i3 = q / x.ne2;
    const py = rowAt(n, rowId(n, r % x.ne1, i2, i3), i2, i3);
    convert(x.type, rowPtr(x, r) + ox, x.nb0, n.type, py + oy, n.nb0, count);
  }
}

// Target row of source row (i1, i2, i3).
function rowId(n: Node, i1: i32, i2: i32, i3: i32): i32 {
  const ids = n.src1!;
  const p = rowAt(ids, i2 % ids.ne1, i3 % ids.ne2, 0) + <usize>i1 * ids.nb0;
  const id: i64 = ids.type == Type.I64 ? load<i64>(p) : <i64>load<i32>(p);
  if (<u64>id >= <u64>n.ne1) unreachable();
  return <i32>id;
}
