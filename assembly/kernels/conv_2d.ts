// CONV_2D CONV_2D_DW: a result row grows by a shifted, scaled row of the image for each element of a filter.
//
//   kernel [KW, KH, C, OC], x [W, H, C, N] -> [OW, OH, OC, N]; depthwise: kernel [KW, KH, 1, C] -> [OW, OH, C, N]
//
// Output o sees image element o * s + k * d - p; those outside are left out.

import { loadFloat } from "../math/lanes";
import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";
import { addScaled, clearRow, firstFrom } from "./scaled";

/** Parameters: s0 s1 p0 p1 d0 d1. */
export function conv2d(n: Node, ith: i32, nth: i32): void {
  const x = n.src1!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const py = rowPtr(n, r);
    clearRow(py, n.nb0, n.ne0);
    for (let c = 0; c < x.ne2; c++) filterRow(n, c, q % n.ne2, c, q / n.ne2, r % n.ne1, py);
  }
}

/** The same parameters. */
export function conv2dDw(n: Node, ith: i32, nth: i32): void {
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const py = rowPtr(n, r);
    clearRow(py, n.nb0, n.ne0);
    filterRow(n, 0, q % n.ne2, q % n.ne2, q / n.ne2, r % n.ne1, py);
  }
}

// Adds plane (c, i3) of the image under filter (k2, k3) to output row oh at py.
function filterRow(n: Node, k2: i32, k3: i32, c: i32, i3: i32, oh: i32, py: usize): void {
  const kernel = n.src0!;
  const x = n.src1!;
  const top = oh * paramI(n, 1) - paramI(n, 3);
  const d1 = paramI(n, 5);
  for (let ky = 0; ky < kernel.ne1; ky++) {
    const iy = top + ky * d1;
    if (<u32>iy < <u32>x.ne1) filterLine(n, rowAt(kernel, ky, k2, k3), rowAt(x, iy, c, i3), py);
  }
}

// One line of the filter over one line of the image.
function filterLine(n: Node, pk: usize, px: usize, py: usize): void {
  const kernel = n.src0!;
  const x = n.src1!;
  const s0 = paramI(n, 0);
  const d0 = paramI(n, 4);
  for (let kx = 0, left = -paramI(n, 2); kx < kernel.ne0; kx++, left += d0, pk += kernel.nb0) {
    const from = firstFrom(-left, s0);
    const count = min(n.ne0, firstFrom(x.ne0 - left, s0)) - from;
    const p = px + <usize>(from * s0 + left) * x.nb0;
    const w = loadFloat(kernel.type, pk);
    addScaled(w, x.type, p, <usize>s0 * x.nb0, py + <usize>from * n.nb0, n.nb0, count);
  }
}
