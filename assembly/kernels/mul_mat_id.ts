// MUL_MAT_ID: dst[m, i, t] = sum over k of a[k, m, ids[i, t]] * b[k, i, t], b repeated over i when it has one column.
//
//   a [k, m, X], b [k, 1 or n, T], ids I32 [n, T] -> dst [m, n, T]; an id outside 0..X-1 traps
//
// Each thread takes a share of the rows of all matrices. Matrix by matrix it spreads out the columns that use it, up to
// COLUMNS at a time, so that the rows are read once for all of them. Elements are summed as in mul_mat: same bits.
//
// Scratch of a thread: {i, t} of each column | tail of a float row | columns

import { dotRows, kindOf, zeroPoint } from "../matmul/blocks";
import { columnBytes, expandColumn } from "../matmul/columns";
import { TAIL_BYTES, dotRowsF } from "../matmul/floats";
import { dotSuperRows, expandSuper, isSplit, superColumnBytes } from "../matmul/super";
import { Type } from "../abi";
import { Node, liveRowsOf, rowAt, share } from "../node";
import { blockSize, dequantizeRow } from "../quants/index";

// ts/ops/mul_mat_id.ts counts scratch with the same number.
const COLUMNS: i32 = 16;
// Rows that go through all columns before the next ones.
const ROW_CHUNK: i32 = 16;

export function mulMatId(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const first = share(a.ne1, ith, nth);
  const last = share(a.ne1, ith + 1, nth);
  const tokens = liveRowsOf(n, n.src2!);
  if (first == last || tokens <= 0) return;
  checkIds(n, tokens);
  const scratch = n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith;
  for (let x = 0; x < a.ne2; x++) {
    let count = 0;
    for (let t = 0; t < tokens; t++) {
      for (let i = 0; i < n.ne1; i++) {
        if (idAt(n, i, t) != x) continue;
        const p = scratch + ((<usize>count) << 3);
        store<i32>(p, i);
        store<i32>(p, t, 4);
        if (++count < COLUMNS) continue;
        product(n, x, count, first, last, scratch);
        count = 0;
      }
    }
    if (count > 0) product(n, x, count, first, last, scratch);
  }
}


@inline
function idAt(n: Node, i: i32, t: i32): i32 {
  const ids = n.src2!;
  return load<i32>(ids.data + <usize>i * ids.nb0 + <usize>t * ids.nb1);
}

function checkIds(n: Node, tokens: i32): void {
  for (let t = 0; t < tokens; t++) {
    for (let i = 0; i < n.ne1; i++) {
      if (<u32>idAt(n, i, t) >= <u32>n.src0!.ne2) unreachable();
    }
  }
}

// Rows [first, last) of matrix x times the columns listed in the scratch.
function product(n: Node, x: i32, count: i32, first: i32, last: i32, scratch: usize): void {
  const a = n.src0!;
  const pt = scratch + ((<usize>COLUMNS) << 3);
  const columns = pt + TAIL_BYTES;
  const bytes = spreadBytes(a);
  for (let c = 0; c < count; c++) {
    const p = scratch + ((<usize>c) << 3);
    spread(n, load<i32>(p), load<i32>(p, 4), columns + <usize>c * bytes);
  }
  const chunk = count == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    const pw = rowAt(a, r, x, 0);
    for (let c = 0; c < count; c++) {
      const p = scratch + ((<usize>c) << 3);
      const py = rowAt(n, load<i32>(p), load<i32>(p, 4), 0) + ((<usize>r) << 2);
      dots(a, pw, rows, columns + <usize>c * bytes, pt, py);
    }
  }
}

function spreadBytes(a: Node): usize {
  const block = blockSize(a.type);
  if (block == 32) return columnBytes(kindOf(a.type), a.ne0 >> 5);
  if (block == 256) return superColumnBytes(isSplit(a.type), a.ne0 >> 8);
  return (<usize>a.ne0) << 2;
}

// Column i of token t, as the dots want it.
function spread(n: Node, i: i32, t: i32, px: usize): void {
  const a = n.src0!;
  const b = n.src1!;
  const p = rowAt(b, i % b.ne1, t, 0);
  const block = blockSize(a.type);
  if (block == 32) expandColumn(p, a.ne0 >> 5, zeroPoint(a.type), kindOf(a.type), px);
  else if (block == 256) expandSuper(p, a.ne0 >> 8, isSplit(a.type), px);
  else if (b.type == Type.F32) memory.copy(px, p, (<usize>a.ne0) << 2);
  else dequantizeRow(b.type, p, px, a.ne0);
}

function dots(a: Node, pw: usize, rows: i32, px: usize, pt: usize, py: usize): void {
  const block = blockSize(a.type);
  if (block == 32) dotRows(a.type, pw, a.nb1, rows, a.ne0 >> 5, px, py);
  else if (block == 256) dotSuperRows(a.type, pw, a.nb1, rows, a.ne0 >> 8, px, py);
  else dotRowsF(a.type, pw, a.nb1, rows, a.ne0, px, pt, py);
}
