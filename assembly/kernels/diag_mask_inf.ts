// DIAG_MASK_INF DIAG_MASK_ZERO: -infinity or 0 right of the diagonal (i0 > n_past + i1), elsewhere src0. Rows of f32; dst
// may be src0.

import { liveRows, Node, paramI, rowPtr, share } from "../node";

/** Parameter: n_past. */
export function diagMaskInf(n: Node, ith: i32, nth: i32): void {
  diagMask(n, -Infinity, ith, nth);
}

/** Parameter: n_past. */
export function diagMaskZero(n: Node, ith: i32, nth: i32): void {
  diagMask(n, 0, ith, nth);
}

function diagMask(n: Node, value: f32, ith: i32, nth: i32): void {
  const x = n.src0!;
  const past = paramI(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const py = rowPtr(n, r);
    const keep = max(0, min(n.ne0, past + (r % n.ne1) + 1));
    if (px != py) memory.copy(py, px, (<usize>keep) << 2);
    for (let i = keep; i < n.ne0; i++) store<f32>(py + ((<usize>i) << 2), value);
  }
}
