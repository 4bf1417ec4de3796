// PAD PAD_REFLECT_1D ROLL: rows taken from other places of the source. Floats, any strides.

import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";
import { convert } from "./convert";

/** Parameters: elements in front and behind of dimensions 0 to 3, then 1 = continue with the other end. */
export function pad(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const circular = paramI(n, 8) != 0;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    let i1 = (r % n.ne1) - paramI(n, 2);
    let i2 = (q % n.ne2) - paramI(n, 4);
    let i3 = q / n.ne2 - paramI(n, 6);
    const py = rowPtr(n, r);
    if (circular) {
      i1 = around(i1, x.ne1);
      i2 = around(i2, x.ne2);
      i3 = around(i3, x.ne3);
      turnRow(n, rowAt(x, i1, i2, i3), py, paramI(n, 0));
    } else if (<u32>i1 < <u32>x.ne1 && <u32>i2 < <u32>x.ne2 && <u32>i3 < <u32>x.ne3) {
      zeroEnds(n, rowAt(x, i1, i2, i3), py);
    } else memory.fill(py, 0, <usize>n.ne0 * n.nb0);
  }
}

// Index in [0, n) of one that is outside by less than n.
@inline
function around(i: i32, n: i32): i32 {
  return i < 0 ? i + n : i >= n ? i - n : i;
}

// A row of the source between zeros.
function zeroEnds(n: Node, px: usize, py: usize): void {
  const x = n.src0!;
  const front = <usize>paramI(n, 0) * n.nb0;
  const behind = py + front + <usize>x.ne0 * n.nb0;
  memory.fill(py, 0, front);
  convert(x.type, px, x.nb0, n.type, py + front, n.nb0, x.ne0);
  memory.fill(behind, 0, <usize>paramI(n, 1) * n.nb0);
}

// Element i of the result is i - shift of the source, around its ends; |shift| <= ne0 of the source.
function turnRow(n: Node, px: usize, py: usize, shift: i32): void {
  const x = n.src0!;
  let from = around(-shift, x.ne0);
  for (let left = n.ne0; left > 0;) {
    const count = min(left, x.ne0 - from);
    convert(x.type, px + <usize>from * x.nb0, x.nb0, n.type, py, n.nb0, count);
    py += <usize>count * n.nb0;
    left -= count;
    from = 0;
  }
}

/** Parameters: places towards higher indices, per dimension. */
export function roll(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const i1 = around((r % n.ne1) - paramI(n, 1), n.ne1);
    const i2 = around((q % n.ne2) - paramI(n, 2), n.ne2);
    const i3 = around(q / n.ne2 - paramI(n, 3), n.ne3);
    turnRow(n, rowAt(x, i1, i2, i3), rowPtr(n, r), paramI(n, 0));
  }
}

/** Parameters: elements in front, behind; f32. */
export function padReflect1d(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    let py = rowPtr(n, r);
    for (let i = 0, j = -paramI(n, 0); i < n.ne0; i++, j++, py += n.nb0) {
      const k = j < 0 ? -j : j >= x.ne0 ? 2 * (x.ne0 - 1) - j : j;
      store<f32>(py, load<f32>(px + <usize>k * x.nb0));
    }
  }
}
