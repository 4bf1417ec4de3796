// REPEAT: src0 tiled over the shape of dst. Any type without blocks, any strides.

import { liveRows, Node, rowAt, rowPtr, share } from "../node";
import { convert } from "./convert";

/** Threads split the rows of the result; a row of src0 is laid end to end. */
export function repeat(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const px = rowAt(a, (r % n.ne1) % a.ne1, (q % n.ne2) % a.ne2, (q / n.ne2) % a.ne3);
    const py = rowPtr(n, r);
    for (let i = 0; i < n.ne0; i += a.ne0) {
      convert(a.type, px, a.nb0, n.type, py + <usize>i * n.nb0, n.nb0, a.ne0);
    }
  }
}
