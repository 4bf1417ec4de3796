// POOL_1D POOL_2D: the largest element or the average of each window. F32 or F16, any strides -> f32.

import { loadFloat } from "../math/lanes";
import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";

/** Parameters: 0 max or 1 average, k, s, p. */
export function pool1d(n: Node, ith: i32, nth: i32): void {
  const rows = liveRows(n);
  const x = n.src0!;
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    let py = rowPtr(n, r);
    for (let o = 0; o < n.ne0; o++, py += n.nb0) {
      const left = o * paramI(n, 2) - paramI(n, 3);
      store<f32>(py, line1d(n, px, max(0, left), min(x.ne0, left + paramI(n, 1))));
    }
  }
}

// Elements [from, to) of a row, at least one.
function line1d(n: Node, px: usize, from: i32, to: i32): f32 {
  const x = n.src0!;
  if (paramI(n, 0) == 0) return largest(x, px, from, to, -f32.MAX_VALUE);
  return total(x, px, from, to) / <f32>(to - from);
}

/** Parameters: 0 max or 1 average, k0 k1 s0 s1 p0 p1. */
export function pool2d(n: Node, ith: i32, nth: i32): void {
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const px = rowAt(n.src0!, 0, q % n.ne2, q / n.ne2);
    const top = (r % n.ne1) * paramI(n, 4) - paramI(n, 6);
    let py = rowPtr(n, r);
    for (let o = 0; o < n.ne0; o++, py += n.nb0) {
      store<f32>(py, windowOf(n, px, o * paramI(n, 3) - paramI(n, 5), top));
    }
  }
}

// The window with its corner at (left, top) of the plane at px.
function windowOf(n: Node, px: usize, left: i32, top: i32): f32 {
  const x = n.src0!;
  const k0 = paramI(n, 1);
  const k1 = paramI(n, 2);
  const from = max(0, left);
  const to = min(x.ne0, left + k0);
  const most = paramI(n, 0) == 0;
  let y: f32 = most ? -f32.MAX_VALUE : 0;
  for (let i = max(0, top), end = min(x.ne1, top + k1); i < end; i++) {
    const p = px + <usize>i * x.nb1;
    y = most ? largest(x, p, from, to, y) : y + total(x, p, from, to);
  }
  return most ? y : y / <f32>(k0 * k1);
}

function largest(x: Node, px: usize, from: i32, to: i32, y: f32): f32 {
  for (let p = px + <usize>from * x.nb0; from < to; from++, p += x.nb0) y = max<f32>(y, loadFloat(x.type, p));
  return y;
}

function total(x: Node, px: usize, from: i32, to: i32): f32 {
  let y: f32 = 0;
  for (let p = px + <usize>from * x.nb0; from < to; from++, p += x.nb0) y += loadFloat(x.type, p);
  return y;
}
