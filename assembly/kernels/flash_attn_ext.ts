// FLASH_ATTN_EXT: attention in one pass over the cells, with a running maximum and sum per row.
//
//   q [D, N, H, S] f32, k [D, KV, Hk, S], v [Dv, KV, Hv, S] -> dst [Dv, H, N, S]
//   mask F16 or F32 [KV, >= N, Hm, Sm], sinks F32 [H], length I32 [2] = {live cells, position of token 0},
//   spans I32 [2, >= N] = {first cell, end} that a token may see; the token's own cell has its index
//
// A row is one token of one head. Up to ROWS rows go together through stretches of STRETCH cells, which start at multiples
// of that, counted from the first cell of a span: scores of all cells, then weights, then the sum of values. Cells that are
// not f32 are converted once for all rows, CELLS at a time; those of F16 are read where they are if few rows want them and
// all are finite. A row's result depends on its own cells only, so a batch, a single token and any number of threads give
// the same bits. Cells that a row does not see are never read for it; cells that no row sees are never read at all.
//
// The rows are those of one KV head, or of a single token those of several: a cache keeps the heads of a cell side by
// side, and is read as one stream then. Head by head, every cell of every head would be a cache miss.

import { ATTN_CELLS, ATTN_CELL_BYTES, AttnParam, Type } from "../abi";
import { F16_SHIFT, f16RowsFinite, f16RowsToF32, f16ToF32 } from "../math/f16";
import { exp4 } from "../math/exp";
import { allFinite, clear, scaleRow } from "../math/rows";
import {
  ROWS_F16,
  ROWS_F32,
  WEIGHTS,
  accumulate,
  capScores,
  highest,
  scores,
  weigh,
} from "../matmul/attention";
import { Node, paramF, paramI, rowAt } from "../node";
import { dequantizeRow } from "../quants/index";
import { nextPart, partEnd } from "../share";
import { ROWS, Row, Work, layOut, rowOf } from "./attention_work";
import { offsetOf } from "./convert";
import { alibiSlope } from "./soft_max";

// Blocks of so many rows, for each thread, from which threads take them as they come. Later tokens see more cells.
const SHARED_BLOCKS: i32 = 8;
// Cells that are converted together.
const CELLS: i32 = ATTN_CELLS;
// Cells whose weights are found together: a row moves to a new maximum no more often.
const STRETCH: i32 = 128;
// Rows of a KV head up to which its cells of F16 are read where they are.
const SHIFT_ROWS: i32 = 8;
// Bytes of a cell in a tile are no more, unless one head needs them.
const CELL_BYTES: u32 = ATTN_CELL_BYTES;

/**
 * Parameters: scale, max bias, soft cap, precision (ignored), window, whether it looks both ways. `claim`: where threads take
 * their parts, 0 for one thread alone (share.ts).
 */
export function flashAttnExt(n: Node, ith: i32, nth: i32, claim: usize): void {
  const heads = max(n.src1!.ne2, n.src2!.ne2);
  const live = n.live;
  const tokens = live == null ? n.ne2 : max(0, min(n.ne2, load<i32>(live.data)));
  const perHead = tokens * (n.ne1 / heads);
  const total = <i64>perHead * heads * n.ne3;
  if (total <= 0 || n.ne0 == 0) return;
  const w = layOut(n, n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith);
  w.heads = heads;
  const blocks = <i32>((total + ROWS - 1) / ROWS);
  if (claim == 0 || blocks < SHARED_BLOCKS * nth) {
    return attendRows(n, w, <i32>((total * ith) / nth), <i32>((total * (ith + 1)) / nth), tokens, perHead);
  }
  let end = 0;
  for (let u = 0; (u = nextPart(claim, end, blocks, nth, 1)) < blocks;) {
    end = partEnd(claim, u, blocks, nth, 1);
    attendRows(n, w, u * ROWS, <i32>min<i64>(total, <i64>end * ROWS), tokens, perHead);
  }
}

// Rows [r, end) of all, `perHead` to a KV head.
function attendRows(n: Node, w: Work, r: i32, end: i32, tokens: i32, perHead: i32): void {
  const heads = w.heads;
  const most = <i32>max(1, min(<usize>heads, <usize>CELL_BYTES / max(w.nbd, w.nbv)));
  while (r < end) {
    const unit = r / perHead;
    const first = r % perHead;
    w.origin = originOf(n, first / (perHead / tokens));
    w.sequence = unit / heads;
    w.head = unit % heads;
    w.units = tokens == 1 ? min(most, heads - w.head) : 1;
    w.count = min(ROWS, min(perHead * w.units - first, end - r));
    if (tokens > 1) w.count = alike(n, w.origin, first, w.count, perHead / tokens);
    w.units = (first + w.count - 1) / perHead + 1;
    attend(n, w, first, perHead);
    r += w.count;
  }
}

// First cell of the span of token t.
function originOf(n: Node, t: i32): i32 {
  const spans = n.src6;
  return spans == null ? 0 : max(0, load<i32>(rowAt(spans, t, 0, 0)));
}

// How many of `count` rows, `group` to a token, have spans with the same first cell.
function alike(n: Node, origin: i32, first: i32, count: i32, group: i32): i32 {
  if (n.src6 == null) return count;
  let i = 1;
  while (i < count && originOf(n, (first + i) / group) == origin) i++;
  return i;
}

// Takes w.count rows through all tiles, from row `first` of the KV head w.head on, `perHead` to a KV head and there
// token by token.
function attend(n: Node, w: Work, first: i32, perHead: i32): void {
  w.lo = i32.MAX_VALUE;
  w.hi = 0;
  w.shift = perHead <= SHIFT_ROWS && readsHalves(n.src1!) && readsHalves(n.src2!);
  beginAll(n, w, first, perHead);
  if (w.shift && !allFinite(w.q, <usize>w.count * w.nbd)) {
    w.shift = false;
    beginAll(n, w, first, perHead);
  }
  const start = w.origin + (max(0, w.lo - w.origin) & ~(STRETCH - 1));
  for (let j = start; j < w.hi; j += STRETCH) {
    show(w, j);
    const from = max(0, w.lo - j);
    const to = min(STRETCH, w.hi - j);
    touch(n, w, n.src1!, j, from, to);
    for (let c = from; c < to; c = w.to) {
      open(n, w, n.src1!, w.nbd, j, c, to);
      scoreAll(w, j);
    }
    weighAll(n, w, j);
    touch(n, w, n.src2!, j, from, to);
    for (let c = from; c < to; c = w.to) {
      open(n, w, n.src2!, w.nbv, j, c, to);
      addValues(w, j);
    }
  }
  for (let i = 0; i < w.count; i++) finish(w, rowOf(w, i), n.ne0);
}

// Sets up w.count rows from row `first` of the KV head w.head on.
function beginAll(n: Node, w: Work, first: i32, perHead: i32): void {
  const group = n.ne1 / w.heads;
  for (let i = 0; i < w.count; i++) {
    const own = (first + i) % perHead;
    const head = w.head + (first + i) / perHead;
    rowOf(w, i).head = head;
    begin(n, w, i, own / group, head * group + (own % group), w.sequence);
  }
}

// Whether cells can be read as f16 where they are; not one that a view repeats: inner loops end where memory does. The
// baseline build is to stay small.
@inline
function readsHalves(x: Node): bool {
  return ASC_FEATURE_RELAXED_SIMD && x.type == Type.F16 && (x.ne0 & 15) == 0 && x.nb1 > 0;
}

// Opens the tile of keys or values from cell c on of the stretch that starts at cell j, rows of nbs bytes: where they
// are, or converted to f32 in the order of memory.
function open(n: Node, w: Work, x: Node, nbs: usize, j: i32, c: i32, end: i32): void {
  w.shared = w.heads / x.ne2;
  const head = w.head / w.shared;
  const heads = (w.head + w.units - 1) / w.shared + 1 - head;
  const p = rowAt(x, j + c, head, w.sequence / (n.ne3 / x.ne3));
  const bytes = offsetOf(x.type, x.nb0, x.ne0);
  let count = end - c;
  w.half = ASC_FEATURE_RELAXED_SIMD && w.shift && finite(x, p, heads, bytes, count);
  if (!w.half) count = min(count, CELLS); // the buffer holds no more
  w.from = c;
  w.to = c + count;
  const padded = (<usize>x.ne0) << 2 != nbs;
  // far rows of a tile would share few lines of the cache; a repeated one is no row of it
  const there = w.half || (x.type == Type.F32 && !padded && x.nb1 > 0 && x.nb1 < CELL_BYTES);
  w.step = there ? <usize>x.nb1 : <usize>heads * nbs;
  w.apart = there ? <usize>x.nb2 : nbs;
  w.tile = (there ? p : w.buffer) - <usize>c * w.step;
  if (there) return;
  if (padded) memory.fill(w.buffer, 0, <usize>count * w.step);
  else if (heads == 1 || <usize>x.nb2 == bytes) return convertRows(w, x, p, w.buffer, x.ne0 * heads, count);
  for (let h: usize = 0; h < <usize>heads; h++) {
    convertRows(w, x, p + h * x.nb2, w.buffer + h * nbs, x.ne0, count);
  }
}

// `rows` rows of n elements of x at px to f32 at py, w.step bytes apart.
function convertRows(w: Work, x: Node, px: usize, py: usize, n: i32, rows: i32): void {
  if (x.type == Type.F16 && !w.shift && (n & 7) == 0 && f16RowsToF32(px, x.nb1, py, w.step, n, rows)) return;
  for (; rows > 0; rows--, px += x.nb1, py += w.step) {
    dequantizeRow(x.type, px, py, n);
    if (w.shift) scaleRow(py, py, n, 1, 1 / F16_SHIFT);
  }
}

// Brings the stretch that starts at cell j into the cache, in the order of memory, unless what reads it first will do.
function touch(n: Node, w: Work, x: Node, j: i32, from: i32, to: i32): void {
  const head = w.head / (w.heads / x.ne2);
  const heads = (w.head + w.units - 1) / (w.heads / x.ne2) + 1 - head;
  const bytes = <usize>(heads - 1) * x.nb2 + offsetOf(x.type, x.nb0, x.ne0);
  if (w.shift || bytes > <usize>x.nb1) return;
  let p = rowAt(x, j + from, head, w.sequence / (n.ne3 / x.ne3));
  let seen: u32 = 0;
  for (; from < to; from++, p += x.nb1) {
    for (let o: usize = 0; o < bytes; o += 64) seen ^= load<u8>(p + o);
  }
  w.seen = seen; // so that the reads stay
}

// Whether `rows` cells of some heads at p are finite f16. That brings them into the cache, too.
function finite(x: Node, p: usize, heads: i32, bytes: usize, rows: i32): bool {
  if (<usize>x.nb2 == bytes) return f16RowsFinite(p, x.nb1, bytes * heads, rows);
  let all = true;
  for (; heads > 0; heads--, p += x.nb2) all = f16RowsFinite(p, x.nb1, bytes, rows) && all;
  return all;
}

// Cell 0 of the stretch for a row, as the open tile has it.
@inline
function tileOf(w: Work, r: Row): usize {
  return w.tile + <usize>(r.head / w.shared - w.head / w.shared) * w.apart;
}

// Sets up row i of the block: token t, head h, sequence s.
function begin(n: Node, w: Work, i: i32, t: i32, h: i32, s: i32): void {
  const q = n.src0!;
  const mask = n.src3;
  const r = rowOf(w, i);
  r.q = w.q + <usize>i * w.nbd;
  r.acc = w.acc + <usize>i * w.nbv;
  r.p = w.p + <usize>i * WEIGHTS;
  r.mask = mask == null ? 0 : rowAt(mask, t, h % mask.ne2, s % mask.ne3);
  r.out = rowAt(n, h, t, s);
  r.slope = alibiSlope(paramF(n, AttnParam.MAX_BIAS), h, n.ne1);
  r.sink = n.src4 == null ? -Infinity : load<f32>(n.src4!.data + <usize>h * n.src4!.nb0);
  r.top = -Infinity;
  r.sum = 0;
  setRange(n, r, t);
  if (r.lo < r.hi) {
    w.lo = min(w.lo, r.lo);
    w.hi = max(w.hi, r.hi);
  }
  if ((q.ne0 & 15) != 0) clear(r.q, w.nbd);
  scaleRow(rowAt(q, t, h, s), r.q, q.ne0, w.scale, w.shift ? F16_SHIFT : 1);
  clear(r.acc, w.nbv);
}

// Cells that token t may see: those of its span, or up to its position in a sequence, or all; inside the window.
function setRange(n: Node, r: Row, t: i32): void {
  const cells = n.src1!.ne1;
  const spans = n.src6;
  const length = n.src5;
  r.lo = 0;
  r.hi = cells;
  r.own = t;
  if (spans != null) {
    const p = rowAt(spans, t, 0, 0);
    r.lo = max(0, load<i32>(p));
    r.hi = min(cells, load<i32>(p + spans.nb0));
  } else if (length != null) {
    r.own = load<i32>(length.data + length.nb0) + t;
    r.hi = max(0, min(min(cells, load<i32>(length.data)), r.own + 1));
  }
  const window = paramI(n, AttnParam.WINDOW);
  if (window == 0) return;
  const both = paramI(n, AttnParam.TWO_SIDED) != 0;
  r.lo = max(r.lo, r.own - (both ? window / 2 : window - 1));
  if (both) r.hi = min(r.hi, r.own + window / 2 + 1);
}

// Cells that a row sees of the stretch that starts at cell j: [from, to), counted in the stretch.
@inline
function fromOf(r: Row, j: i32): i32 {
  return max(r.lo - j, 0);
}


@inline
function toOf(r: Row, j: i32): i32 {
  return min(r.hi - j, STRETCH);
}

// Which rows see something of the stretch that starts at cell j.
function show(w: Work, j: i32): void {
  for (let i = 0; i < w.count; i++) {
    const r = rowOf(w, i);
    r.shown = fromOf(r, j) < toOf(r, j);
  }
}

// How many rows from row i on go together through the open tile: shown ones of one KV head. None if row i is not shown.
function together(w: Work, i: i32): i32 {
  if (!rowOf(w, i).shown) return 0;
  const head = rowOf(w, i).head;
  const most = w.half ? ROWS_F16 : ROWS_F32;
  let n = 1;
  while (n < most && i + n < w.count && rowOf(w, i + n).shown && rowOf(w, i + n).head == head) n++;
  return n;
}

// Scores of the open tile of keys.
function scoreAll(w: Work, j: i32): void {
  for (let i = 0; i < w.count;) {
    const rows = together(w, i);
    if (rows > 0) scoreRows(w, i, rows, j);
    i += max(1, rows);
  }
}

// Products of `rows` rows from row i on with all cells that one of them sees.
function scoreRows(w: Work, i: i32, rows: i32, j: i32): void {
  const r = rowOf(w, i);
  let a = fromOf(r, j);
  let b = toOf(r, j);
  for (let k = 1; k < rows; k++) {
    a = min(a, fromOf(rowOf(w, i + k), j));
    b = max(b, toOf(rowOf(w, i + k), j));
  }
  b = min(b, w.to);
  for (a = max(a, w.from); a < b; a += CELLS) {
    const cells = min(CELLS, b - a);
    const pk = tileOf(w, r) + <usize>a * w.step;
    scores(w.half, rows, r.q, w.nbd, pk, w.step, cells, w.partials, r.p + ((<usize>a) << 2));
  }
}

// Weights of all rows in the stretch that starts at cell j.
function weighAll(n: Node, w: Work, j: i32): void {
  // one short step after the other for all rows: a row by itself would wait for each of its own results
  for (let i = 0; i < w.count; i++) {
    const r = rowOf(w, i);
    if (r.shown) r.shown = settle(n, w, r, j);
  }
  for (let i = 0; i < w.count; i++) {
    const r = rowOf(w, i);
    if (r.shown) r.sum += weigh(r.p, fromOf(r, j), toOf(r, j), r.top, w.shift ? F16_SHIFT : 1);
  }
}

// Adds the open tile of values to all rows that see something of it.
function addValues(w: Work, j: i32): void {
  for (let i = 0; i < w.count;) {
    const rows = together(w, i);
    if (rows > 0) addRows(w, i, rows, j);
    i += max(1, rows);
  }
}

// `rows` rows from row i on: what all of them see is taken for all at once, between what is before it and what is behind.
// Some may see nothing of the open tile.
function addRows(w: Work, i: i32, rows: i32, j: i32): void {
  let a = w.from;
  let b = w.to;
  for (let k = 0; k < rows; k++) {
    a = max(a, fromOf(rowOf(w, i + k), j));
    b = min(b, toOf(rowOf(w, i + k), j));
  }
  a = min(a, w.to);
  b = max(a, b);
  for (let k = 0; k < rows; k++) addCells(w, rowOf(w, i + k), 1, w.from, a, j);
  addCells(w, rowOf(w, i), rows, a, b, j);
  for (let k = 0; k < rows; k++) addCells(w, rowOf(w, i + k), 1, b, w.to, j);
}

// Those of cells [a, b) that row r sees, to `rows` rows from it on.
function addCells(w: Work, r: Row, rows: i32, a: i32, b: i32, j: i32): void {
  a = max(a, fromOf(r, j));
  b = min(b, toOf(r, j));
  if (a < b) accumulate(w.half, rows, r.acc, w.nbv, r.p, tileOf(w, r), w.step, a, b);
}

// Products of a row with keys to scores; moves it to their maximum. False when all of them are hidden.
function settle(n: Node, w: Work, r: Row, j: i32): bool {
  const p = r.p;
  const from = fromOf(r, j);
  const to = toOf(r, j);
  if (w.cap != 0) capScores(w.cap, p, from, to);
  for (let c = from & ~3; c < from; c++) store<f32>(p + ((<usize>c) << 2), -Infinity);
  const end = p + ((<usize>to) << 2);
  v128.store(end, f32x4.splat(-Infinity));
  v128.store(end, f32x4.splat(-Infinity), 16);
  if (r.mask != 0) addMask(n.src3!, p, r, j, from, to);
  else if (paramF(n, AttnParam.MAX_BIAS) > 0) addDistance(p, r, j, from, to);
  const top = max<f32>(r.top, highest(p, from, to));
  if (top == -Infinity) return false;
  if (top != r.top) rescale(w, r, top);
  return true;
}

// Adds slope * mask; what is masked by -Infinity stays hidden whatever its score.
function addMask(mask: Node, p: usize, r: Row, j: i32, a: i32, b: i32): void {
  for (let c = a; c < b; c++) {
    const pm = r.mask + <usize>(j + c) * mask.nb0;
    const m = mask.type == Type.F16 ? f16ToF32(load<u16>(pm)) : load<f32>(pm);
    const pc = p + ((<usize>c) << 2);
    store<f32>(pc, m == -Infinity ? m : load<f32>(pc) + r.slope * m);
  }
}

// ALiBi without a mask: less slope for each cell of distance.
function addDistance(p: usize, r: Row, j: i32, a: i32, b: i32): void {
  for (let c = a; c < b; c++) {
    const pc = p + ((<usize>c) << 2);
    store<f32>(pc, load<f32>(pc) - r.slope * <f32>abs(j + c - r.own));
  }
}

// Moves a row to a new maximum.
function rescale(w: Work, r: Row, top: f32): void {
  const before = r.top;
  r.top = top;
  if (before == -Infinity) return; // nothing was summed yet
  const f = exp4(f32x4.splat(before - top));
  r.sum *= f32x4.extract_lane(f, 0);
  for (let p = r.acc, end = r.acc + w.nbv; p < end; p += 16) v128.store(p, f32x4.mul(v128.load(p), f));
}

// The sink joins the sum, then the row is divided by it. A row that saw nothing is zero.
function finish(w: Work, r: Row, dv: i32): void {
  if (r.sink > r.top) rescale(w, r, r.sink);
  if (r.sink != -Infinity) r.sum += f32x4.extract_lane(exp4(f32x4.splat(r.sink - r.top)), 0);
  const f: f32 = r.sum == 0 ? 0 : 1 / r.sum;
  if ((dv & 3) == 0) return scaleRow(r.acc, r.out, dv, f, 1);
  scaleRow(r.acc, r.acc, dv, f, 1);
  memory.copy(r.out, r.acc, (<usize>dv) << 2);
}
