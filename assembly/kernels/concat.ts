// CONCAT: src1 behind src0 along one dimension. Any strides (block types: rows without gaps).

import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";
import { convert, offsetOf } from "./convert";

/** Parameter: dimension. */
export function concat(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const b = n.src1!;
  const dim = paramI(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const i1 = r % n.ne1;
    const i2 = q % n.ne2;
    const i3 = q / n.ne2;
    const py = rowPtr(n, r);
    if (dim == 0) {
      part(n, a, i1, i2, i3, py);
      part(n, b, i1, i2, i3, py + offsetOf(n.type, n.nb0, a.ne0));
    } else if (dim == 1) {
      if (i1 < a.ne1) part(n, a, i1, i2, i3, py);
      else part(n, b, i1 - a.ne1, i2, i3, py);
    } else if (dim == 2) {
      if (i2 < a.ne2) part(n, a, i1, i2, i3, py);
      else part(n, b, i1, i2 - a.ne2, i3, py);
    } else if (i3 < a.ne3) part(n, a, i1, i2, i3, py);
    else part(n, b, i1, i2, i3 - a.ne3, py);
  }
}

// One row of a source.
function part(n: Node, x: Node, i1: i32, i2: i32, i3: i32, py: usize): void {
  convert(x.type, rowAt(x, i1, i2, i3), x.nb0, n.type, py, n.nb0, x.ne0);
}
