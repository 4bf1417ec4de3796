// CONV_TRANSPOSE_1D CONV_TRANSPOSE_2D: each element of the image adds a kernel row, scaled by it, to a result row.
//
//   1D  kernel [K, OC, C], x [L, C] -> [(L-1) s + K, OC]
//   2D  kernel [KW, KH, OC, C], x [W, H, C, N] -> [(W-1) s + KW, (H-1) s + KH, OC, N]

import { loadFloat } from "../math/lanes";
import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";
import { addScaled, clearRow } from "./scaled";

/** Parameter: stride. Threads split the output channels. */
export function convTranspose1d(n: Node, ith: i32, nth: i32): void {
  const kernel = n.src0!;
  const x = n.src1!;
  for (let oc = share(n.ne1, ith, nth), end = share(n.ne1, ith + 1, nth); oc < end; oc++) {
    const py = rowPtr(n, oc);
    clearRow(py, n.nb0, n.ne0);
    for (let c = 0; c < x.ne1; c++) spread(n, rowAt(kernel, oc, c, 0), rowAt(x, c, 0, 0), py);
  }
}

/** Parameter: stride. Output line o sees image line i under kernel line o - i * stride. */
export function convTranspose2d(n: Node, ith: i32, nth: i32): void {
  const x = n.src1!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const py = rowPtr(n, r);
    clearRow(py, n.nb0, n.ne0);
    for (let c = 0; c < x.ne2; c++) spreadLines(n, r % n.ne1, q % n.ne2, c, q / n.ne2, py);
  }
}

function spreadLines(n: Node, oh: i32, oc: i32, c: i32, i3: i32, py: usize): void {
  const kernel = n.src0!;
  const x = n.src1!;
  const stride = paramI(n, 0);
  for (let ky = oh % stride; ky < kernel.ne1; ky += stride) {
    const iy = (oh - ky) / stride;
    if (iy < 0) return;
    if (iy < x.ne1) spread(n, rowAt(kernel, ky, oc, c), rowAt(x, iy, c, i3), py);
  }
}

// One line of the image through one line of the kernel.
function spread(n: Node, pk: usize, px: usize, py: usize): void {
  const kernel = n.src0!;
  const x = n.src1!;
  const step = <usize>paramI(n, 0) * n.nb0;
  for (let i = x.ne0; i > 0; i--, px += x.nb0, py += step) {
    addScaled(loadFloat(x.type, px), kernel.type, pk, kernel.nb0, py, n.nb0, kernel.ne0);
  }
}
