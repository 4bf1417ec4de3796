// IM2COL: each row of the result is the patch that one output element of a convolution sees.
//
//   2D  x [W, H, C, N] -> [KW KH C, OW, OH, N], element kx + KW (ky + KH c)
//   1D  x [W, C, N]    -> [KW C, OW, N],        element kx + KW c

import { floatBytes, loadFloat, storeFloat } from "../math/lanes";
import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";
import { convert } from "./convert";
import { firstFrom } from "./scaled";

// Runs up to here are moved element by element: a call of memory.copy would cost more.
const SHORT = 16;

/** Parameters: s0 s1 p0 p1 d0 d1 is2D. Threads split the patches. */
export function im2col(n: Node, ith: i32, nth: i32): void {
  const x = n.src1!;
  const flat = paramI(n, 6) == 0;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    if (flat) signalPatch(n, r % n.ne1, rowAt(x, 0, q, 0), rowPtr(n, r));
    else imagePatch(n, r % n.ne1, q % n.ne2, rowAt(x, 0, 0, q / n.ne2), rowPtr(n, r));
  }
}

// All channels of a signal at px.
function signalPatch(n: Node, ow: i32, px: usize, py: usize): void {
  const x = n.src1!;
  const kw = n.src0!.ne0;
  const bytes = <usize>kw * n.nb0;
  for (let c = x.ne1; c > 0; c--, px += x.nb1, py += bytes) line(n, kw, ow, px, py);
}

// All channels of an image at px; lines outside it are zeros.
function imagePatch(n: Node, ow: i32, oh: i32, px: usize, py: usize): void {
  const kernel = n.src0!;
  const x = n.src1!;
  const kw = kernel.ne0;
  const bytes = <usize>kw * n.nb0;
  const top = oh * paramI(n, 1) - paramI(n, 3);
  const d1 = paramI(n, 5);
  for (let c = x.ne2; c > 0; c--, px += x.nb2) {
    for (let ky = 0, iy = top; ky < kernel.ne1; ky++, iy += d1, py += bytes) {
      if (<u32>iy < <u32>x.ne1) line(n, kw, ow, px + <usize>iy * x.nb1, py);
      else memory.fill(py, 0, bytes);
    }
  }
}

// The kw elements of a line at px that window ow sees; outside it zeros.
function line(n: Node, kw: i32, ow: i32, px: usize, py: usize): void {
  const x = n.src1!;
  const d0 = paramI(n, 4);
  const left = ow * paramI(n, 0) - paramI(n, 2);
  const from = min(kw, firstFrom(-left, d0));
  const to = max(from, min(kw, firstFrom(x.ne0 - left, d0)));
  const sy = floatBytes(n.type);
  if (from > 0) memory.fill(py, 0, <usize>from * sy);
  if (to < kw) memory.fill(py + <usize>to * sy, 0, <usize>(kw - to) * sy);
  if (to > from) {
    move(n, px + <usize>(left + from * d0) * x.nb0, <usize>d0 * x.nb0, py + <usize>from * sy, sy, to - from);
  }
}

function move(n: Node, px: usize, sx: usize, py: usize, sy: usize, count: i32): void {
  const type = n.src1!.type;
  if (count > SHORT) return convert(type, px, sx, n.type, py, sy, count);
  for (; count > 0; count--, px += sx, py += sy) storeFloat(n.type, py, loadFloat(type, px));
}
