// TRI DIAG: triangles and diagonals of matrices of f32.

import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";

// Kinds of triangles; shared with ts/ops/tri.ts.
const UPPER = 1;
const LOWER_DIAGONAL = 2;

/** Parameter: the triangle kept. dst may be src0. */
export function tri(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const keep = paramI(n, 0);
  const upper = keep <= UPPER;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const cut = (r % n.ne1) + (keep == UPPER || keep == LOWER_DIAGONAL ? 1 : 0);
    const px = rowPtr(x, r);
    const py = rowPtr(n, r);
    const left = (<usize>cut) << 2;
    const right = (<usize>(n.ne0 - cut)) << 2;
    if (px != py) memory.copy(py, px, (<usize>n.ne0) << 2);
    if (upper) memory.fill(py, 0, left);
    else memory.fill(py + left, 0, right);
  }
}

/** [n, 1, ...] -> [n, n, ...] */
export function diag(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const i1 = r % n.ne1;
    const py = rowPtr(n, r);
    memory.fill(py, 0, (<usize>n.ne0) << 2);
    const px = rowAt(x, 0, q % n.ne2, q / n.ne2) + <usize>i1 * x.nb0;
    store<f32>(py + ((<usize>i1) << 2), load<f32>(px));
  }
}
