// ACC SET: src0 copied, src1 added to or put into a window of the copy. Elements of four bytes.
//
// The window's rows lie at offset + i1 nb1 + i2 nb2 + i3 nb3 bytes of the result and may cross its rows, or each other.
// Each thread owns a range of the result's bytes: it copies that and applies the parts of all rows that fall into it.

import { nrows, Node, paramI, rowPtr, share } from "../node";
import { convert } from "./convert";

/** Parameters: nb1 nb2 nb3 offset (bytes), in place. */
export function acc(n: Node, ith: i32, nth: i32): void {
  patch(n, true, ith, nth);
}

/** The same parameters. */
export function set(n: Node, ith: i32, nth: i32): void {
  patch(n, false, ith, nth);
}

function patch(n: Node, add: bool, ith: i32, nth: i32): void {
  const a = n.src0!;
  const b = n.src1!;
  const rows = nrows(n);
  const first = share(rows, ith, nth);
  const last = share(rows, ith + 1, nth);
  for (let r = first; r < last; r++) {
    if (rowPtr(a, r) != rowPtr(n, r))
      convert(a.type, rowPtr(a, r), a.nb0, n.type, rowPtr(n, r), n.nb0, n.ne0);
  }
  const from = n.data + <usize>first * n.ne0 * 4;
  const to = n.data + <usize>last * n.ne0 * 4;
  for (let r = 0, end = nrows(b); r < end; r++) {
    const q = r / b.ne1;
    const at: usize = <usize>(r % b.ne1) * paramI(n, 0) + <usize>(q % b.ne2) * paramI(n, 1);
    windowRow(n.data + paramI(n, 3) + at + <usize>(q / b.ne2) * paramI(n, 2), rowPtr(b, r), b, add, from, to);
  }
}

// The elements of b's row at pb whose places, from py on, lie in [from, to).
function windowRow(py: usize, pb: usize, b: Node, add: bool, from: usize, to: usize): void {
  const skip: usize = py < from ? from - py : 0;
  const end = min(to, py + ((<usize>b.ne0) << 2));
  pb += (skip >> 2) * b.nb0;
  for (py += skip; py < end; py += 4, pb += b.nb0) {
    if (add) store<f32>(py, load<f32>(py) + load<f32>(pb));
    else store<u32>(py, load<u32>(pb));
  }
}
