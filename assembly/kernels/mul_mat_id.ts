// MUL_MAT_ID: dst[m, i, t] = sum over k of a[k, m, ids[i, t]] * b[k, i, t], b repeated over i when it has one column.
//
//   a [k, m, X], b [k, 1 or n, T], ids I32 [n, T] -> dst [m, n, T]; an id outside 0..X-1 traps
//
// Each thread takes a share of the rows of all matrices. Matrix by matrix it lists the columns that use it, up to LIST_COLUMNS
// at a time, so that the rows are read once for all of them: as panels of eight rows where there are many, else row by
// row (quad by quad). Elements are summed as in mul_mat: same bits.
//
// Scratch of a thread: list of columns (matmul/chosen.ts) | what a float row needs | columns, or what panels need

import { LIST_COLUMNS, PANEL_COLUMNS, Type } from "../abi";
import { chosenPanels, columnAt, resultAt } from "../matmul/chosen";
import { dotRowsF, rowBytesF } from "../matmul/float_rows";
import { columnBytesOf, dotColumn, inQuads, spreadColumn } from "../matmul/rows";
import { Node, liveRowsOf, rowAt, share } from "../node";
import { blockSize, dequantizeRow } from "../quants/index";
import { PAIR_ROWS } from "../quants/quad";

// Rows that one thread takes at least: a panel.
const ROW_UNIT: i32 = 8;
// Rows that go through all columns before the next ones.
const ROW_CHUNK: i32 = 16;

export function mulMatId(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const units = (a.ne1 + ROW_UNIT - 1) / ROW_UNIT;
  const first = share(units, ith, nth) * ROW_UNIT;
  const last = min(a.ne1, share(units, ith + 1, nth) * ROW_UNIT);
  const tokens = liveRowsOf(n, n.src2!);
  if (first >= last || tokens <= 0) return;
  if (inQuads(a) && a.ne1 % PAIR_ROWS != 0) unreachable();
  checkIds(n, tokens);
  const list = n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith;
  for (let x = 0; x < a.ne2; x++) {
    let count = 0;
    for (let t = 0; t < tokens; t++) {
      for (let i = 0; i < n.ne1; i++) {
        if (idAt(n, i, t) != x) continue;
        const p = list + ((<usize>count) << 3);
        store<usize>(p, rowAt(n.src1!, i % n.src1!.ne1, t, 0));
        store<usize>(p, rowAt(n, i, t, 0), 4);
        if (++count < LIST_COLUMNS) continue;
        product(n, x, count, first, last, list);
        count = 0;
      }
    }
    if (count > 0) product(n, x, count, first, last, list);
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

// Rows [first, last) of matrix x times the columns of the list.
function product(n: Node, x: i32, count: i32, first: i32, last: i32, list: usize): void {
  const a = n.src0!;
  const pa = rowAt(a, 0, x, 0);
  const scratch = list + ((<usize>LIST_COLUMNS) << 3);
  if (count >= PANEL_COLUMNS && blockSize(a.type) > 1) {
    chosenPanels(a, pa, first, last, count, list, scratch);
    return;
  }
  const columns = scratch + (blockSize(a.type) > 1 ? 0 : rowBytesF(a.type, a.ne0));
  const bytes = bytesOf(a);
  for (let c = 0; c < count; c++) spread(a, n.src1!, columnAt(list, c), columns + <usize>c * bytes);
  const chunk = count == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    const pw = pa + <usize>r * a.nb1;
    for (let c = 0; c < count; c++) {
      dots(a, pw, rows, columns + <usize>c * bytes, scratch, resultAt(list, c) + ((<usize>r) << 2));
    }
  }
}

// Bytes of a column.
function bytesOf(a: Node): usize {
  return blockSize(a.type) > 1 ? columnBytesOf(a) : (<usize>a.ne0) << 2;
}

// A column of b at p, as the dots want it.
function spread(a: Node, b: Node, p: usize, px: usize): void {
  if (blockSize(a.type) > 1) spreadColumn(a, p, px);
  else if (b.type == Type.F32) memory.copy(px, p, (<usize>a.ne0) << 2);
  else dequantizeRow(b.type, p, px, a.ne0);
}

function dots(a: Node, pw: usize, rows: i32, px: usize, pt: usize, py: usize): void {
  if (blockSize(a.type) > 1) dotColumn(a, pw, rows, px, py);
  else dotRowsF(a.type, pw, a.nb1, rows, a.ne0, px, pt, py);
}
