// CPY, CONT, DUP: elements of src0 in row-major order into dst, whose shape may differ when the counts agree.
//
// Both may have any strides. The order of elements is cut into runs that stay inside one row of either side. CPY may have
// src2, the importance of columns: then whole rows become blocks by a search.

import { isPacked, liveRows, Node, rowPtr, share } from "../node";
import { quantizeRow } from "../quants/index";
import { BLOCK_SCRATCH, convert, elementBytes, offsetOf } from "./convert";

// Elements per unit of work; a multiple of every block.
const UNIT: u64 = 256;

/** Threads split the elements in row-major order, at multiples of UNIT. */
export function cpy(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const scratch = n.scratchData + <usize>ith * BLOCK_SCRATCH;
  if (n.src2 != null) return quantizeRows(n, scratch, ith, nth);
  const total = <u64>liveRows(n) * n.ne0;
  const units = (total + UNIT - 1) / UNIT;
  const first = ((units * ith) / nth) * UNIT;
  const end = min<u64>(total, ((units * (ith + 1)) / nth) * UNIT);
  const flat = elementBytes(a.type) != 0 && elementBytes(n.type) != 0 && isPacked(a) && isPacked(n);
  if (flat) return copyFlat(a, n, <usize>first, <usize>end);
  copyRuns(a, n, first, end, scratch);
}

// Elements [i, end), both sides without gaps.
function copyFlat(a: Node, n: Node, i: usize, end: usize): void {
  if (i >= end) return;
  convert(a.type, a.data + i * a.nb0, a.nb0, n.type, n.data + i * n.nb0, n.nb0, <i32>(end - i));
}

// Elements [i, end), run by run.
function copyRuns(a: Node, n: Node, i: u64, end: u64, scratch: usize): void {
  while (i < end) {
    const ia = <i32>(i % a.ne0);
    const iy = <i32>(i % n.ne0);
    const run = <i32>min<u64>(end - i, min(a.ne0 - ia, n.ne0 - iy));
    const px = rowPtr(a, <i32>(i / a.ne0)) + offsetOf(a.type, a.nb0, ia);
    const py = rowPtr(n, <i32>(i / n.ne0)) + offsetOf(n.type, n.nb0, iy);
    convert(a.type, px, a.nb0, n.type, py, n.nb0, run, scratch);
    i += run;
  }
}

// Whole rows of F32 to a block type, columns weighed by their importance, src2.
function quantizeRows(n: Node, scratch: usize, ith: i32, nth: i32): void {
  const a = n.src0!;
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++)
    if (!quantizeRow(n.type, rowPtr(a, r), rowPtr(n, r), n.ne0, n.src2!.data, scratch)) unreachable();
}
