// MUL_MAT: dst[m, n] = sum over k of a[k, m] * b[k, n], a repeated over dimensions 2 and 3 of b.
//
// Work is split by rows of a (pairs of quads where they are interleaved): of one matrix in parts that threads take as they
// come, of several in contiguous shares. Each thread spreads out (or converts) the columns it needs in its own scratch. Up
// to three columns: row by row, so that weights are read once as one stream. More: panels of eight rows. All ways sum an
// element in the same order.

import {
  BLOCK_COLUMNS,
  BLOCK_COLUMNS_MAX,
  BLOCK_ELEMENTS,
  FLOAT_COLUMNS,
  FLOAT_COLUMNS_MAX,
  FLOAT_ELEMENTS,
  PANEL_COLUMNS,
  Type,
} from "../abi";
import { pairsVectors, sumsPairs } from "../math/dot";
import { PANEL_ROWS, isMirrored, panelBytes, unpackPanel } from "../matmul/blocks";
import { SEEDED, SIGNS, expandGroup, expandSix, groupBytes } from "../matmul/columns";
import { dotRowsF, rowBytesF } from "../matmul/float_rows";
import {
  PARTIAL_BYTES,
  SIX_BYTES,
  packPanel,
  panelBytesF,
  tileF,
  tileSixF,
  tileTwoF,
} from "../matmul/floats";
import { unpackQuads } from "../matmul/quad_panel";
import { columnBytesOf, dotColumn, hasSupers, inQuads, spreadColumn } from "../matmul/rows";
import { centreOf, pairsGroups, signsFor, spreadFor, weightsFor, zeroFor } from "../matmul/spread";
import {
  SUPER_TILE_BYTES,
  expandSuperGroup,
  superGroupBytes,
  superPanelBytes,
  unpackSuper,
} from "../matmul/super_panel";
import { TILE_PAIR_BYTES, superTile } from "../matmul/super_tile";
import { tileSigns, tileSignsTwo } from "../matmul/signs_tile";
import { SIX, tile, tileSix, tileTwelve } from "../matmul/tile";
import { Node, rowAt } from "../node";
import { blockSize, dequantizeRow } from "../quants/index";
import { PAIR_ROWS } from "../quants/quad";
import { isWide } from "../quants/super";
import { nextPart, partEnd } from "../share";

// Columns from which they stand in groups of six, where those are worth it.
const SIX_COLUMNS: i32 = 12;
// Elements of a row from which columns of floats are taken by sixes.
const SIX_ROW: i32 = 512;
// Rows that go through all columns before the next ones, when there are two or three columns; of floats more, since each
// time the columns are spread out anew.
const ROW_CHUNK: i32 = 16;
const FLOAT_CHUNK: i32 = 32;
// Bytes of weights, times columns, that a thread takes at least, and of a matrix that is not worth it: shared out at once.
const PART_BYTES: i64 = 1 << 16;
const SMALL_BYTES: i64 = 1 << 21;

/** `claim`: where threads take their parts, 0 for one thread alone (share.ts). */
export function mulMat(n: Node, ith: i32, nth: i32, claim: usize): void {
  const a = n.src0!;
  const n1 = n.ne2 * n.ne3 > 1 ? n.ne1 : liveOf(n, n.ne1);
  const n2 = n.ne3 > 1 ? n.ne2 : n.ne2 > 1 ? liveOf(n, n.ne2) : 1;
  const n3 = n.ne3 > 1 ? liveOf(n, n.ne3) : 1;
  const rows = a.ne1;
  const panels = n1 >= PANEL_COLUMNS;
  const quads = inQuads(a);
  if (quads && rows % PAIR_ROWS != 0) unreachable();
  const unit = panels ? PANEL_ROWS : quads ? PAIR_ROWS : 1;
  const units = (rows + unit - 1) / unit;
  const total = <i64>units * n2 * n3;
  if (n1 <= 0 || total <= 0) return;
  const scratch = n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith;
  const small = <i64>rows * a.nb1 * n1 < SMALL_BYTES;
  if (claim != 0 && !small && total == units) {
    return product(n, 0, 0, n1, 0, units, unit, claim, nth, scratch);
  }
  let u = <i32>((total * ith) / nth);
  const end = <i32>((total * (ith + 1)) / nth);
  while (u < end) {
    const batch = u / units;
    const first = u % units;
    const last = min(units, first + end - u);
    product(n, batch % n2, batch / n2, n1, first, last, unit, 0, 1, scratch);
    u += last - first;
  }
}

// A dimension whose entries are the columns of a batch, cut to what is live.
function liveOf(n: Node, ne: i32): i32 {
  const live = n.live;
  return live == null ? ne : max(0, min(ne, load<i32>(live.data)));
}

// Units [first, last) of one matrix, of `unit` rows each; with a claim those of them that fall to this thread. Units of the
// next columns are counted on from those of the ones before.
function product(
  n: Node,
  i2: i32,
  i3: i32,
  n1: i32,
  first: i32,
  last: i32,
  unit: i32,
  claim: usize,
  nth: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const b = n.src1!;
  const pa = rowAt(a, 0, i2 / (n.ne2 / a.ne2), i3 / (n.ne3 / a.ne3));
  const pb = rowAt(b, 0, i2, i3);
  const pd = rowAt(n, 0, i2, i3);
  const step = columnsOf(a);
  const panels = n1 >= PANEL_COLUMNS;
  const least = <i32>max<i64>(1, PART_BYTES / max<i64>(1, <i64>unit * a.nb1 * n1)); // a repeated row is no bytes
  for (let c = 0, base = 0; c < n1; c += step, base += claim == 0 ? 0 : last) {
    const columns = min(step, n1 - c);
    const py = pd + <usize>c * n.nb1;
    const px = spread(n, pb + <usize>c * b.nb1, columns, panels, scratch);
    let end = base + first;
    for (let u = end; (u = nextPart(claim, end, base + last, nth, least)) < base + last;) {
      end = partEnd(claim, u, base + last, nth, least);
      const to = min(a.ne1, (end - base) * unit);
      timesRows(n, pa, px, py, columns, (u - base) * unit, to, panels, scratch);
    }
  }
}

// Columns at pb as the kernels want them; returns where floats stand.
function spread(n: Node, pb: usize, columns: i32, panels: bool, scratch: usize): usize {
  const a = n.src0!;
  if (blockSize(a.type) == 1) {
    if (!panels) return plainColumns(n.src1!, pb, a.ne0, columns, scratch + rowBytesF(a.type, a.ne0));
    return packColumns(n.src1!, pb, a.ne0, columns, scratch + PARTIAL_BYTES + 2 * panelBytesF(a.ne0));
  }
  if (panels) spreadGroups(n, pb, columns, sixColumns(a, columns), scratch);
  else spreadColumns(n, pb, columns, scratch);
  return 0;
}

// Rows [first, last) times the columns that are spread.
function timesRows(
  n: Node,
  pa: usize,
  px: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  panels: bool,
  scratch: usize,
): void {
  if (blockSize(n.src0!.type) > 1) {
    if (panels) quantPanels(n, pa, pd, columns, first, last, scratch);
    else quantRows(n, pa, pd, columns, first, last, scratch);
  } else {
    if (panels) floatPanels(n, pa, px, pd, columns, first, last, scratch);
    else floatRows(n, pa, px, pd, columns, first, last, scratch);
  }
}

// Columns spread out at a time, so that each panel is unpacked once for all of them: a multiple of four, of floats of eight.
function columnsOf(a: Node): i32 {
  const k = max(1, a.ne0);
  if (blockSize(a.type) > 1) return max(BLOCK_COLUMNS, min(BLOCK_COLUMNS_MAX, (BLOCK_ELEMENTS / k) & ~3));
  return max(FLOAT_COLUMNS, min(FLOAT_COLUMNS_MAX, (FLOAT_ELEMENTS / k) & ~7));
}

// Scratch: the columns.
function spreadColumns(n: Node, pb: usize, columns: i32, scratch: usize): void {
  const a = n.src0!;
  const column = columnBytesOf(a);
  for (let c = 0; c < columns; c++) {
    spreadColumn(a, pb + <usize>c * n.src1!.nb1, scratch + <usize>c * column);
  }
}

function quantRows(n: Node, pa: usize, pd: usize, columns: i32, first: i32, last: i32, scratch: usize): void {
  const a = n.src0!;
  const column = columnBytesOf(a);
  const chunk = columns == 1 ? last - first : ROW_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    for (let c = 0; c < columns; c++) {
      const py = pd + <usize>c * n.nb1 + ((<usize>r) << 2);
      dotColumn(a, pa + <usize>r * a.nb1, rows, scratch + <usize>c * column, py);
    }
  }
}

// Scratch: tiles, panel, then the groups of columns.
function quantPanels(
  n: Node,
  pa: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const nb = a.ne0 / blockSize(a.type);
  const six = sixColumns(a, columns);
  for (let r = first; r < last; r += PANEL_ROWS) {
    const rows = min(PANEL_ROWS, last - r);
    const pw = pa + <usize>r * a.nb1;
    const end = pa + <usize>(a.ne1 - 1) * a.nb1 + 1; // of a view the last row may be the last bytes of memory
    unpack(a, pw, rows, nb, scratch + TILE_PAIR_BYTES);
    panelTimes(n, columns, six, rows, pw + PANEL_ROWS * a.nb1, end, pd + ((<usize>r) << 2), scratch);
  }
}

// The first columns, which stand in groups of six; fours follow, so that at most one column is computed in vain. Where pairs
// are summed only wider registers hold as many sums, of two groups at once; then up to three columns are.
function sixColumns(a: Node, columns: i32): i32 {
  if (!ASC_FEATURE_RELAXED_SIMD || columns < SIX_COLUMNS) return 0;
  if (hasSupers(a) || spreadFor(a.type, inQuads(a)) != SEEDED) return 0;
  if (sumsPairs()) {
    const over = columns % (2 * SIX);
    return pairsVectors() ? columns - over + (over == 2 * SIX - 1 ? 2 * SIX : 0) : 0;
  }
  const rest = columns % SIX;
  return columns - rest + (rest == 5 ? SIX : rest == 1 || rest == 2 ? -SIX : 0);
}

// Bytes of a group of four columns.
function groupBytesOf(a: Node): usize {
  const nb = a.ne0 / blockSize(a.type);
  return hasSupers(a) ? superGroupBytes(hasSigns(a), nb) : groupBytes(spreadFor(a.type, inQuads(a)), nb);
}

// Where the groups start.
function groupsAt(a: Node, scratch: usize): usize {
  const nb = a.ne0 / blockSize(a.type);
  return scratch + TILE_PAIR_BYTES + (hasSupers(a) ? superPanelBytes(nb) : panelBytes(nb));
}

// Are columns of super-blocks SIGNS?
function hasSigns(a: Node): bool {
  return hasSupers(a) && signsFor(a.type, inQuads(a));
}

function spreadGroups(n: Node, pb: usize, columns: i32, six: i32, scratch: usize): void {
  const a = n.src0!;
  const b = n.src1!;
  const group = groupBytesOf(a);
  const zero = zeroFor(a.type, inQuads(a));
  const last = pb + <usize>(columns - 1) * b.nb1;
  let p = groupsAt(a, scratch);
  let c = 0;
  if (ASC_FEATURE_RELAXED_SIMD) {
    for (; c < six; c += SIX, p += (group * SIX) / 4) {
      expandSix(pb + <usize>c * b.nb1, b.nb1, last, a.ne0 >> 5, zero, centreOf(a.type), p);
    }
  }
  for (; c < columns; c += 4, p += group) spreadGroup(n, pb, c, columns, p);
}

// An unpacked panel times all groups, to the result at py. Meanwhile the weights of the next panel, from `next` up to
// `end`, are fetched.
function panelTimes(
  n: Node,
  columns: i32,
  six: i32,
  rows: i32,
  next: usize,
  end: usize,
  py: usize,
  scratch: usize,
): void {
  const a = n.src0!;
  const nb = a.ne0 / blockSize(a.type);
  const panel = scratch + TILE_PAIR_BYTES;
  const group = groupBytesOf(a);
  const supers = hasSupers(a);
  const kind = spreadFor(a.type, inQuads(a));
  const signs = supers ? hasSigns(a) : kind == SIGNS;
  const weights = weightsFor(a.type, inQuads(a));
  const mirrored = isMirrored(a.type);
  const ahead = (PANEL_ROWS * a.nb1) / columns;
  const pairs = pairsGroups(supers, signs);
  let p = groupsAt(a, scratch);
  for (let c = 0; c < columns;) {
    const width = c < six ? SIX : 4;
    const pair = pairs && (c < six ? c + SIX < six : (supers || signs) && c + 4 < columns);
    const lanes = pair ? 2 * width : width;
    const bytes = c < six ? (group * SIX) / 4 : group;
    fetch(next, min(next + ahead * lanes, end), scratch);
    next += ahead * lanes;
    if (supers) superTile(a.type, panel, p, pair ? bytes : 0, nb, signs, weights, scratch);
    else if (ASC_FEATURE_RELAXED_SIMD && c < six) {
      if (pair) tileTwelve(mirrored, panel, p, bytes, nb, scratch);
      else tileSix(panel, p, nb, scratch);
    } else if (ASC_FEATURE_RELAXED_SIMD && signs) {
      if (pair) tileSignsTwo(panel, p, bytes, nb, scratch);
      else tileSigns(panel, p, nb, scratch);
    } else tile(kind, mirrored, panel, p, nb, scratch);
    storeTile(scratch, min(width, columns - c), rows, py, n.nb1);
    if (pair) {
      const second = scratch + (supers ? SUPER_TILE_BYTES : width * 32);
      storeTile(second, min(width, columns - c - width), rows, py + <usize>width * n.nb1, n.nb1);
    }
    p += pair ? 2 * bytes : bytes;
    c += lanes;
    py += <usize>lanes * n.nb1;
  }
}

// Reads a byte of each line; the sum goes where nothing is needed.
function fetch(p: usize, end: usize, pt: usize): void {
  let sum = 0;
  for (; p < end; p += 64) sum += load<u8>(p);
  store<i32>(pt, sum);
}

// Eight rows to a panel.
function unpack(a: Node, pw: usize, rows: i32, nb: i32, panel: usize): void {
  if (inQuads(a)) unpackQuads(a.type, pw, nb, panel);
  else if (hasSupers(a)) unpackSuper(a.type, pw, a.nb1, rows, nb, panel);
  else unpackPanel(a.type, pw, a.nb1, rows, nb, panel);
}

// Spreads out the group that starts at column c; columns past the last repeat it.
function spreadGroup(n: Node, pb: usize, c: i32, columns: i32, px: usize): void {
  const a = n.src0!;
  const b = n.src1!;
  const quads = inQuads(a);
  const last = pb + <usize>(columns - 1) * b.nb1;
  const p0 = pb + <usize>c * b.nb1;
  const p1 = min(p0 + b.nb1, last);
  const p2 = min(p1 + b.nb1, last);
  const p3 = min(p2 + b.nb1, last);
  if (hasSupers(a)) expandSuperGroup(p0, p1, p2, p3, a.ne0 >> 8, hasSigns(a), isWide(a.type), px);
  else {
    const zero = zeroFor(a.type, quads);
    expandGroup(p0, p1, p2, p3, a.ne0 >> 5, zero, centreOf(a.type), spreadFor(a.type, quads), px);
  }
}

// Tile [column][8 rows] to the result.
function storeTile(pt: usize, columns: i32, rows: i32, py: usize, nb1: usize): void {
  for (let c = 0; c < columns; c++, pt += 32, py += nb1) {
    if (rows < PANEL_ROWS) memory.copy(py, pt, (<usize>rows) << 2);
    else {
      const low = v128.load(pt);
      v128.store(py, v128.load(pt, 16), 16);
      v128.store(py, low);
    }
  }
}

// Are columns of a matrix taken in place? Others are converted to contiguous f32.
@inline
function isPlain(b: Node): bool {
  return b.type == Type.F32;
}

// Scratch: what dotRowsF needs, then converted columns.
function floatRows(
  n: Node,
  pa: usize,
  px: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const k = a.ne0;
  const nbx = columnStep(n.src1!, k);
  const chunk = columns == 1 ? last - first : FLOAT_CHUNK;
  for (let r = first; r < last; r += chunk) {
    const rows = min(chunk, last - r);
    const pw = pa + <usize>r * a.nb1;
    for (let c = 0; c < columns; c++) {
      const py = pd + <usize>c * n.nb1 + ((<usize>r) << 2);
      dotRowsF(a.type, pw, a.nb1, rows, k, px + <usize>c * nbx, scratch, py);
    }
  }
}

// Bytes between columns of floats.
function columnStep(b: Node, k: i32): usize {
  return isPlain(b) ? <usize>b.nb1 : (<usize>k) << 2;
}

function plainColumns(b: Node, pb: usize, k: i32, columns: i32, scratch: usize): usize {
  if (isPlain(b)) return pb;
  for (let c = 0; c < columns; c++) {
    dequantizeRow(b.type, pb + <usize>c * b.nb1, scratch + <usize>c * ((<usize>k) << 2), k);
  }
  return scratch;
}

// Columns in panels, like rows of weights.
function packColumns(b: Node, pb: usize, k: i32, columns: i32, px: usize): usize {
  const panel = panelBytesF(k);
  for (let c = 0, p = px; c < columns; c += PANEL_ROWS, p += panel) {
    packPanel(b.type, pb + <usize>c * b.nb1, b.nb1, min(PANEL_ROWS, columns - c), k, p);
  }
  return px;
}

// Scratch: partial tiles, two panels, then packed columns.
function floatPanels(
  n: Node,
  pa: usize,
  px: usize,
  pd: usize,
  columns: i32,
  first: i32,
  last: i32,
  scratch: usize,
): void {
  const a = n.src0!;
  const k = a.ne0;
  const panel = scratch + PARTIAL_BYTES;
  const bytes = panelBytesF(k);
  // the baseline build would spill with sixes
  const pairs = ASC_FEATURE_RELAXED_SIMD && pairsVectors();
  const sixes = ASC_FEATURE_RELAXED_SIMD && (pairs || k >= SIX_ROW);
  const most = pairs ? 2 * PANEL_ROWS : PANEL_ROWS;
  for (let r = first; r < last; r += most) {
    const rows = min(PANEL_ROWS, last - r);
    const more = min(most, last - r) - rows;
    const pw = pa + <usize>r * a.nb1;
    packPanel(a.type, pw, a.nb1, rows, k, panel);
    if (more > 0) packPanel(a.type, pw + PANEL_ROWS * a.nb1, a.nb1, more, k, panel + bytes);
    let py = pd + ((<usize>r) << 2);
    for (let c = 0; c < columns;) {
      const six = sixes && inSix(c, columns, pairs);
      const width = min(six ? 6 : 4, columns - c);
      if (six) sixColumnsF(panel, px, bytes, c, columns, k, more > 0, scratch);
      else tileF(panel, packedColumn(px, bytes, c), k, scratch);
      storeTile(scratch, width, rows, py, n.nb1);
      if (more > 0) storeTile(scratch + SIX_BYTES, width, more, py + PANEL_ROWS * 4, n.nb1);
      c += width;
      py += <usize>width * n.nb1;
    }
  }
}

// A panel or two times the six columns from c on, in panels of `bytes`; past the last two those again.
function sixColumnsF(
  panel: usize,
  px: usize,
  bytes: usize,
  c: i32,
  columns: i32,
  k: i32,
  two: bool,
  scratch: usize,
): void {
  const last = (columns - 1) & ~1;
  const p0 = packedColumn(px, bytes, c);
  const p1 = packedColumn(px, bytes, min(c + 2, last));
  const p2 = packedColumn(px, bytes, min(c + 4, last));
  if (two) tileTwoF(panel, p0, p1, p2, k, scratch);
  else tileSixF(panel, p0, p1, p2, k, scratch);
}

// Are the six columns from c on, an even one, taken together? With 128 bits what is left at the end is taken by fours where that
// is as many tiles, but four columns do not start at the last two of a panel.
@inline
function inSix(c: i32, columns: i32, pairs: bool): bool {
  const left = columns - c;
  return pairs || left > 8 || left == 5 || left == 6 || (c & 7) == 6;
}

// Column c in panels of `bytes` at px.
@inline
function packedColumn(px: usize, bytes: usize, c: i32): usize {
  return px + <usize>(c >> 3) * bytes + ((<usize>(c & 7)) << 2);
}
