// MUL_MAT: dst[m, n] = sum over k of a[k, m] * b[k, n], a repeated over dimensions 2 and 3 of b.
//
// Work is split by rows of a (quads of rows where they are interleaved), in contiguous shares; each thread spreads out
// (or converts) the columns it needs in its own scratch. Up to three columns: row by row, so that weights are read once
// as one stream. More: panels of eight rows. All ways sum an element in the same order.

import { Flag, Type } from "../abi";
import { PANEL_ROWS, dotRows, panelBytes, unpackPanel } from "../matmul/blocks";
import { SPLIT, columnBytes, expandColumn, expandGroup, groupBytes, groupColumns } from "../matmul/columns";
import { PARTIAL_BYTES, TAIL_BYTES, dotRowsF, packPanel, panelBytesF, tileF } from "../matmul/floats";
import { unpackQuads } from "../matmul/quad_panel";
import { dotQuads } from "../matmul/quads";
import { splitFor, spreadFor, weightsFor, zeroFor } from "../matmul/spread";
import { dotSuperRows, expandSuper, superColumnBytes } from "../matmul/super";
import { expandSuperGroup, superGroupBytes, superPanelBytes, unpackSuper } from "../matmul/super_panel";
import { dotSuperQuads, quadSums } from "../matmul/super_quads";
import { SUPER_TILE_BYTES, superTile } from "../matmul/super_tile";
import { TILE_BYTES, tile } from "../matmul/tile";
import { Node, rowAt } from "../node";
import { blockSize, dequantizeRow } from "../quants/index";
import { QUAD_ROWS } from "../quants/quad";
import { isWide } from "../quants/super";

// Columns from which panels are used.
const PANEL_COLUMNS: i32 = 4;
// Columns spread out at a time. ts/ops/mul_mat.ts counts scratch with the same number.
const COLUMNS: i32 = 64;
// Rows that go through all columns before the next ones, when there are two or three columns.
const ROW_CHUNK: i32 = 16;

export function mulMat(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const n1 = n.ne2 * n.ne3 > 1 ? n.ne1 : liveOf(n, n.ne1);
  const n2 = n.ne3 > 1 ? n.ne2 : n.ne2 > 1 ? liveOf(n, n.ne2) : 1;
  const n3 = n.ne3 > 1 ? liveOf(n, n.ne3) : 1;
  const rows = a.ne1;
  const panels = n1 >= PANEL_COLUMNS;
  const quads = inQuads(a);
  if (quads && rows % QUAD_ROWS != 0) unreachable();
  const unit = panels ? PANEL_ROWS : quads ? QUAD_ROWS : 1;
  const units = (rows + unit - 1) / unit;
  const total = <i64>units * n2 * n3;
  if (n1 <= 0 || total <= 0) return;
  const scratch = n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith;
  let u = <i32>((total * ith) / nth);
  const end = <i32>((total * (ith + 1)) / nth);
  while (u < end) {
    const batch = u / units;
    const first = u % units;
    const last = min(units, first + end - u);
    const scale = panels ? 1 : unit;
    product(n, batch % n2, batch / n2, n1, first * scale, last * scale, panels, scratch);
    u += last - first;
  }
}

// Rows of weights in quads (quants/quads.ts).
@inline
function inQuads(a: Node): bool {
  return (a.flags & Flag.QUADS) != 0;
}

// A dimension whose entries are the columns of a batch, cut to what is live.
function liveOf(n: Node, ne: i32): i32 {
  const live = n.live;
  return live == null ? ne : max(0, min(ne, load<i32>(live.data)));
}

// Rows or panels [first, last) of one matrix.
function product(
  n: Node,
  i2: i32,
  i3: i32,
  n1: i32,
  first: i32,
  last: i32,
  panels: bool,
  scratch: usize,
): void {
  const a = n.src0!;
  const b = n.src1!;
  const pa = rowAt(a, 0, i2 / (n.ne2 / a.ne2), i3 / (n.ne3 / a.ne3));
  const pb = rowAt(b, 0, i2, i3);
  const pd = rowAt(n, 0, i2, i3);
  const block = blockSize(a.type);
  for (let c = 0; c < n1; c += COLUMNS) {
    const columns = min(COLUMNS, n1 - c);
    const px = pb + <usize>c * b.nb1;
    const py = pd + <usize>c * n.nb1;
    if (block == 256) {
      if (panels) superPanels(n, pa, px, py, columns, first, last, scratch);
      else superRows(n, pa, px, py, columns, first, last, scratch);
    } else if (block == 32) {
      if (panels) blockPanels(n, pa, px, py, columns, first, last, scratch);
      else blockRows(n, pa, px, py, columns, first, last, scratch);
    } else {
      if (panels) floatPanels(n, pa, px, py, columns, first, last, scratch);
      else floatRows(n, pa, px, py, columns, first, last, scratch);
    }
  }
}

function blockRows(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const nb = a.ne0 >> 5;
  const kind = spreadFor(a.type, inQuads(a), false);
  const zero = zeroFor(a.type, inQuads(a), false);
  const column = columnBytes(kind, nb);
  for (let c = 0; c < columns; c++) {
    expandColumn(pb + <usize>c * n.src1!.nb1, nb, zero, kind, scratch + <usize>c * column);
  }
  const chunk = columns == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    for (let c = 0; c < columns; c++) {
      const py = pd + <usize>c * n.nb1 + ((<usize>r) << 2);
      const pw = pa + <usize>r * a.nb1;
      if (inQuads(a)) dotQuads(a.type, pw, rows / QUAD_ROWS, nb, scratch + <usize>c * column, py);
      else dotRows(a.type, pw, a.nb1, rows, nb, scratch + <usize>c * column, py);
    }
  }
}

function superRows(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const nb = a.ne0 >> 8;
  const split = splitFor(a.type, inQuads(a), false);
  const column = superColumnBytes(split, nb);
  for (let c = 0; c < columns; c++) {
    const px = scratch + <usize>c * column;
    expandSuper(pb + <usize>c * n.src1!.nb1, nb, split, px);
    if (inQuads(a)) quadSums(isWide(a.type), nb, px + column - ((<usize>nb) << 5));
  }
  const chunk = columns == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    for (let c = 0; c < columns; c++) {
      const py = pd + <usize>c * n.nb1 + ((<usize>r) << 2);
      const pw = pa + <usize>r * a.nb1;
      if (inQuads(a)) dotSuperQuads(a.type, pw, rows / QUAD_ROWS, nb, scratch + <usize>c * column, py);
      else dotSuperRows(a.type, pw, a.nb1, rows, nb, scratch + <usize>c * column, py);
    }
  }
}

// Scratch: tiles, panel, then the groups of columns.
function superPanels(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const b = n.src1!;
  const nb = a.ne0 >> 8;
  const split = splitFor(a.type, inQuads(a), true);
  const lanes = split ? 2 : 4;
  const panel = scratch + SUPER_TILE_BYTES;
  const groups = panel + superPanelBytes(nb);
  const group = superGroupBytes(nb);
  const lastColumn = pb + <usize>(columns - 1) * b.nb1;
  for (let c = 0, p = groups; c < columns; c += lanes, p += group) {
    const p0 = pb + <usize>c * b.nb1;
    const p1 = min(p0 + b.nb1, lastColumn);
    const p2 = split ? p1 : min(p1 + b.nb1, lastColumn);
    const p3 = split ? p1 : min(p2 + b.nb1, lastColumn);
    expandSuperGroup(p0, p1, p2, p3, nb, split, p);
  }
  const step: usize = split ? 64 : 32;
  const weights = weightsFor(a.type, inQuads(a));
  for (let u = first; u < last; u++) {
    const r = u * PANEL_ROWS;
    const rows = min(PANEL_ROWS, a.ne1 - r);
    if (inQuads(a)) unpackQuads(a.type, pa + <usize>r * a.nb1, a.nb1, rows, nb, panel);
    else unpackSuper(a.type, pa + <usize>r * a.nb1, a.nb1, rows, nb, panel);
    for (let c = 0, p = groups; c < columns; c += lanes, p += group) {
      superTile(panel, p, nb, isWide(a.type), split, weights, scratch);
      storeTile(
        scratch,
        step,
        min(lanes, columns - c),
        rows,
        pd + <usize>c * n.nb1 + ((<usize>r) << 2),
        n.nb1,
      );
    }
  }
}

// Scratch: tile, panel, then the groups of columns.
function blockPanels(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const nb = a.ne0 >> 5;
  const kind = spreadFor(a.type, inQuads(a), true);
  const zero = zeroFor(a.type, inQuads(a), true);
  const lanes = groupColumns(kind);
  const panel = scratch + TILE_BYTES;
  const groups = panel + panelBytes(nb);
  const group = groupBytes(nb);
  for (let c = 0, p = groups; c < columns; c += lanes, p += group) {
    expand(n.src1!, pb, c, columns, nb, kind, zero, p);
  }
  const step: usize = kind == SPLIT ? 64 : 32;
  for (let u = first; u < last; u++) {
    const r = u * PANEL_ROWS;
    const rows = min(PANEL_ROWS, a.ne1 - r);
    if (inQuads(a)) unpackQuads(a.type, pa + <usize>r * a.nb1, a.nb1, rows, nb, panel);
    else unpackPanel(a.type, pa + <usize>r * a.nb1, a.nb1, rows, nb, panel);
    for (let c = 0, p = groups; c < columns; c += lanes, p += group) {
      tile(kind, panel, p, nb, scratch);
      storeTile(
        scratch,
        step,
        min(lanes, columns - c),
        rows,
        pd + <usize>c * n.nb1 + ((<usize>r) << 2),
        n.nb1,
      );
    }
  }
}

// Spreads out the group that starts at column c; columns past the last repeat it.
function expand(b: Node, pb: usize, c: i32, columns: i32, nb: i32, kind: i32, zero: i32, px: usize): void {
  const last = pb + <usize>(columns - 1) * b.nb1;
  const p0 = pb + <usize>c * b.nb1;
  const p1 = min(p0 + b.nb1, last);
  const p2 = kind == SPLIT ? p1 : min(p1 + b.nb1, last);
  const p3 = kind == SPLIT ? p1 : min(p2 + b.nb1, last);
  expandGroup(p0, p1, p2, p3, nb, zero, kind, px);
}

// Tile [column][8 rows], `step` bytes between columns, to the result.
function storeTile(pt: usize, step: usize, columns: i32, rows: i32, py: usize, nb1: usize): void {
  for (let c = 0; c < columns; c++, pt += step, py += nb1) {
    if (rows == PANEL_ROWS) {
      v128.store(py, v128.load(pt));
      v128.store(py, v128.load(pt, 16), 16);
    } else memory.copy(py, pt, (<usize>rows) << 2);
  }
}

// Column c of a matrix as contiguous f32: in place, or converted to scratch.
@inline
function isPlain(b: Node): bool {
  return b.type == Type.F32;
}

function floatRows(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const b = n.src1!;
  const k = a.ne0;
  const px = plainColumns(b, pb, k, columns, scratch + TAIL_BYTES);
  const nbx: usize = isPlain(b) ? <usize>b.nb1 : (<usize>k) << 2;
  const chunk = columns == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    const pw = pa + <usize>r * a.nb1;
    for (let c = 0; c < columns; c++) {
      const py = pd + <usize>c * n.nb1 + ((<usize>r) << 2);
      dotRowsF(a.type, pw, a.nb1, rows, k, px + <usize>c * nbx, scratch, py);
    }
  }
}

function plainColumns(b: Node, pb: usize, k: i32, columns: i32, scratch: usize): usize {
  if (isPlain(b)) return pb;
  for (let c = 0; c < columns; c++) {
    dequantizeRow(b.type, pb + <usize>c * b.nb1, scratch + <usize>c * ((<usize>k) << 2), k);
  }
  return scratch;
}

// Scratch: partial tiles, panel, then converted columns.
function floatPanels(
  n: Node,
  pa: usize,
  pb: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const b = n.src1!;
  const k = a.ne0;
  const panel = scratch + PARTIAL_BYTES;
  const px = plainColumns(b, pb, k, columns, panel + panelBytesF(k));
  const nbx: usize = isPlain(b) ? <usize>b.nb1 : (<usize>k) << 2;
  const lastColumn = px + <usize>(columns - 1) * nbx;
  for (let u = first; u < last; u++) {
    const r = u * PANEL_ROWS;
    const rows = min(PANEL_ROWS, a.ne1 - r);
    packPanel(a.type, pa + <usize>r * a.nb1, a.nb1, rows, k, panel);
    for (let c = 0; c < columns; c += 4) {
      const x0 = px + <usize>c * nbx;
      const x1 = min(x0 + nbx, lastColumn);
      const x2 = min(x1 + nbx, lastColumn);
      tileF(panel, x0, x1, x2, min(x2 + nbx, lastColumn), k, scratch);
      storeTile(scratch, 32, min(4, columns - c), rows, pd + <usize>c * n.nb1 + ((<usize>r) << 2), n.nb1);
    }
  }
}
