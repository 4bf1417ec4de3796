// SUM SUM_ROWS MEAN CUMSUM: sums over everything, or along each row.

import { Type } from "../abi";
import { storeFloat } from "../math/lanes";
import { sumRow } from "../math/reduce";
import { liveRows, liveRowsOf, Node, rowPtr, share } from "../node";

/** Sum of all elements, in f64; one thread, so that the order is fixed. */
export function sum(n: Node, ith: i32, nth: i32): void {
  if (ith != 0) return;
  const x = n.src0!;
  let total: f64 = 0;
  for (let r = 0, end = liveRowsOf(n, x); r < end; r++) total += sumRow(x.type, rowPtr(x, r), x.nb0, x.ne0);
  storeFloat(n.type, n.data, <f32>total);
}

/** [n, ...] -> [1, ...] */
export function sumRows(n: Node, ith: i32, nth: i32): void {
  sums(n, 1, ith, nth);
}

/** [n, ...] -> [1, ...], divided by n */
export function mean(n: Node, ith: i32, nth: i32): void {
  sums(n, n.src0!.ne0, ith, nth);
}

// Sum of each row over `divisor`.
function sums(n: Node, divisor: i32, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    store<f32>(rowPtr(n, r), <f32>(sumRow(Type.F32, rowPtr(x, r), x.nb0, x.ne0) / divisor));
  }
}

/** Running sum along each row, the element itself included; f32. dst may be src0. */
export function cumsum(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    let px = rowPtr(x, r);
    let py = rowPtr(n, r);
    let total: f32 = 0;
    for (let i = n.ne0; i > 0; i--, px += x.nb0, py += n.nb0) {
      total += load<f32>(px);
      store<f32>(py, total);
    }
  }
}
