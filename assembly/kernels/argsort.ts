// ARGMAX ARGSORT TOP_K: indices of a row of f32 by value.
//
// One order everywhere: NaN after every number, in both directions, and among equals the lower index first.

import { liveRows, liveRowsOf, Node, paramI, rowPtr, share } from "../node";

// True when element i stands strictly before element j in ascending or descending order, ties left open.
@inline
function before(px: usize, i: i32, j: i32, descending: bool): bool {
  const x = load<f32>(px + ((<usize>i) << 2));
  const y = load<f32>(px + ((<usize>j) << 2));
  if (descending ? x > y : x < y) return true;
  return y != y && x == x;
}

/** [n, rows] -> [rows], the first of the largest */
export function argmax(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRowsOf(n, x);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    let best = 0;
    for (let i = 1; i < x.ne0; i++) if (before(px, i, best, true)) best = i;
    store<i32>(n.data + <usize>r * n.nb0, best);
  }
}

/** Parameter: 0 ascending, 1 descending. A stable merge sort between dst and one row of scratch per thread. */
export function argsort(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const descending = paramI(n, 0) != 0;
  const rows = liveRows(n);
  const ps = n.scratchData + <usize>ith * ((<usize>n.ne0) << 2);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    sortRow(rowPtr(x, r), rowPtr(n, r), ps, n.ne0, descending);
  }
}

// Bottom-up: runs of 1, 2, 4 ... are merged from one buffer into the other.
function sortRow(px: usize, py: usize, ps: usize, n: i32, descending: bool): void {
  for (let i = 0; i < n; i++) store<i32>(py + ((<usize>i) << 2), i);
  let from = py;
  let to = ps;
  for (let width = 1; width < n; width <<= 1) {
    for (let lo = 0; lo < n; lo += 2 * width) {
      merge(px, from, to, lo, min(lo + width, n), min(lo + 2 * width, n), descending);
    }
    const t = from;
    from = to;
    to = t;
  }
  if (from != py) memory.copy(py, from, (<usize>n) << 2);
}

// Merges the sorted indices [lo, mid) and [mid, hi).
function merge(px: usize, from: usize, to: usize, lo: i32, mid: i32, hi: i32, descending: bool): void {
  let i = lo;
  let j = mid;
  for (let k = lo; k < hi; k++) {
    const right =
      j < hi &&
      (i >= mid ||
        before(px, load<i32>(from + ((<usize>j) << 2)), load<i32>(from + ((<usize>i) << 2)), descending));
    store<i32>(to + ((<usize>k) << 2), load<i32>(from + ((<usize>(right ? j++ : i++)) << 2)));
  }
}

/** The k = ne0 largest, best first: a heap of the best so far in dst, its worst on top. */
export function topK(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const k = n.ne0;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const ph = rowPtr(n, r);
    for (let i = 0; i < k; i++) store<i32>(ph + ((<usize>i) << 2), i);
    for (let i = (k >> 1) - 1; i >= 0; i--) sift(px, ph, i, k);
    for (let i = k; i < x.ne0; i++) {
      if (!better(px, i, load<i32>(ph))) continue;
      store<i32>(ph, i);
      sift(px, ph, 0, k);
    }
    for (let end = k - 1; end > 0; end--) {
      const worst = load<i32>(ph);
      store<i32>(ph, load<i32>(ph + ((<usize>end) << 2)));
      store<i32>(ph + ((<usize>end) << 2), worst);
      sift(px, ph, 0, end);
    }
  }
}

// Total order: value, then index.
function better(px: usize, i: i32, j: i32): bool {
  if (before(px, i, j, true)) return true;
  return i < j && !before(px, j, i, true);
}

// Moves entry i of a heap of n down until nothing below it is worse.
function sift(px: usize, ph: usize, i: i32, n: i32): void {
  const item = load<i32>(ph + ((<usize>i) << 2));
  for (;;) {
    let c = 2 * i + 1;
    if (c >= n) break;
    let child = load<i32>(ph + ((<usize>c) << 2));
    if (c + 1 < n) {
      const other = load<i32>(ph + ((<usize>(c + 1)) << 2));
      if (better(px, child, other)) {
        child = other;
        c++;
      }
    }
    if (!better(px, item, child)) break;
    store<i32>(ph + ((<usize>i) << 2), child);
    i = c;
  }
  store<i32>(ph + ((<usize>i) << 2), item);
}
