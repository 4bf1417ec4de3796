// FLASH_ATTN_EXT: attention in one pass over the cells, with a running maximum and sum per row.
//
//   q [D, N, H, S] f32, k [D, KV, Hk, S], v [Dv, KV, Hv, S] -> dst [Dv, H, N, S]
//   mask F16 or F32 [KV, >= N, Hm, Sm], sinks F32 [H], length I32 [2] = {live cells, position of token 0},
//   spans I32 [2, >= N] = {first cell, end} that a token may see; the token's own cell has its index
//
// A row is one token of one head. Rows that share a KV head are taken up to ROWS at a time through tiles of CELLS cells
// that are converted to f32 once; tiles start at multiples of CELLS, counted from the first cell of a span. A row's
// result depends on its own cells only, so a batch, a single token and any number of threads give the same bits. Cells
// that a row does not see are never read for it; cells that no row sees are never read at all.
//
// Of a single token, rows of several KV heads go through a tile together: a cache keeps the heads of a cell side by
// side, and is read as one stream then. Head by head, every cell of every head would be a cache miss.
//
// Scratch of a thread, with `rows` the least of ROWS and all rows:
// Work | Row[rows] | scores | q [rows] | accumulators [rows] | k tile | v tile

import { AttnParam, Type } from "../abi";
import { f16ToF32 } from "../math/f16";
import { exp4, tanh4 } from "../math/exp";
import { loadLanes } from "../math/lanes";
import { accumulate, accumulateTwo, highest, scores, scoresOfTwo, weigh } from "../matmul/attention";
import { Node, nrows, paramF, paramI, rowAt } from "../node";
import { dequantizeRow } from "../quants/index";
import { alibiSlope } from "./soft_max";

// ts/ops/flash_attn_ext.ts counts scratch with the same numbers.
const ROWS: i32 = 64;
const CELLS: i32 = 32;
// Bytes of the scores of a row, with four to spare.
const P_BYTES: usize = 4 * 36;

/** What all rows of a call share. Pointers to the parts of the scratch. */
@unmanaged
class Work {
  rows: usize;
  /** scores of two rows in a tile */
  p: usize;
  q: usize;
  acc: usize;
  k: usize;
  v: usize;
  /** bytes of a padded q or k row, and of an accumulator or v row */
  nbd: usize;
  nbv: usize;
  /** of query rows: products with keys are scores then, or what the cap takes */
  scale: f32;
  cap: f32;
  count: i32;
  /** cells that some row sees */
  lo: i32;
  hi: i32;
  /** where tiles are counted from */
  origin: i32;
}

/** One token of one head. */
@unmanaged
class Row {
  q: usize;
  acc: usize;
  /** its mask row, or 0 */
  mask: usize;
  out: usize;
  /** cells it may see, and its own */
  lo: i32;
  hi: i32;
  own: i32;
  slope: f32;
  sink: f32;
  top: f32;
  sum: f32;
}


@inline
function rowOf(w: Work, i: i32): Row {
  return changetype<Row>(w.rows + ((<usize>i) << 6));
}

/** Parameters: scale, max bias, soft cap, precision (ignored), window, whether it looks both ways. */
export function flashAttnExt(n: Node, ith: i32, nth: i32): void {
  const k = n.src1!;
  const live = n.live;
  const tokens = live == null ? n.ne2 : max(0, min(n.ne2, load<i32>(live.data)));
  const heads = max(k.ne2, n.src2!.ne2);
  const perHead = tokens * (n.ne1 / heads);
  const total = <i64>perHead * heads * n.ne3;
  let r = <i32>((total * ith) / nth);
  const end = <i32>((total * (ith + 1)) / nth);
  if (r >= end) return;
  const w = layOut(n, n.scratchData + ((<usize>(n.scratch / nth)) & ~63) * <usize>ith);
  while (r < end) {
    const first = r % perHead;
    w.origin = originOf(n, first / (perHead / tokens));
    if (tokens == 1) w.count = min(ROWS, end - r);
    else w.count = alike(n, w.origin, first, min(ROWS, min(perHead - first, end - r)), perHead / tokens);
    attend(n, w, r, perHead);
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

function layOut(n: Node, scratch: usize): Work {
  const w = changetype<Work>(scratch);
  w.cap = paramF(n, AttnParam.SOFTCAP);
  w.scale = paramF(n, AttnParam.SCALE);
  if (w.cap != 0) w.scale /= w.cap;
  w.nbd = (<usize>((n.src0!.ne0 + 3) & ~3)) << 2;
  w.nbv = (<usize>((n.ne0 + 3) & ~3)) << 2;
  w.rows = scratch + 64;
  const rows = <usize>min(ROWS, nrows(n));
  w.p = w.rows + (rows << 6);
  w.q = w.p + 2 * P_BYTES;
  w.acc = w.q + rows * w.nbd;
  w.k = w.acc + rows * w.nbv;
  w.v = w.k + <usize>CELLS * w.nbd;
  // padding at the end of rows counts as zero
  if (((n.src0!.ne0 | n.ne0) & 3) != 0) memory.fill(w.k, 0, <usize>CELLS * (w.nbd + w.nbv));
  return w;
}

// Rows [r, r + w.count), `perHead` to a KV head, numbered head by head and there token by token.
function attend(n: Node, w: Work, r: i32, perHead: i32): void {
  const heads = max(n.src1!.ne2, n.src2!.ne2);
  const group = n.ne1 / heads;
  w.lo = i32.MAX_VALUE;
  w.hi = 0;
  for (let i = 0; i < w.count; i++) {
    const unit = (r + i) / perHead;
    const own = (r + i) % perHead;
    begin(n, w, i, own / group, (unit % heads) * group + (own % group), unit / heads);
  }
  const start = w.origin + (max(0, w.lo - w.origin) & ~(CELLS - 1));
  const units = (r + w.count - 1) / perHead + 1 - r / perHead;
  for (let j = start; j < w.hi; j += CELLS) {
    if (units > 1) {
      touch(n.src1!, j, w, heads, r / perHead, units);
      touch(n.src2!, j, w, heads, r / perHead, units);
    }
    for (let i = 0; i < w.count;) {
      const unit = (r + i) / perHead;
      const last = min(w.count, (unit + 1) * perHead - r);
      headStep(n, w, j, unit % heads, unit / heads, i, last);
      i = last;
    }
  }
  for (let i = 0; i < w.count; i++) finish(w, rowOf(w, i), n.ne0);
}

// Reads a tile of keys or values of the first heads, in the order of memory where those of a cell lie side by side.
function touch(x: Node, j: i32, w: Work, heads: i32, unit: i32, units: i32): void {
  if (x.nb2 >= x.nb1 || x.ne3 > 1) return;
  const head = (unit % heads) / (heads / x.ne2);
  const bytes = min<usize>(x.nb1, <usize>min(units, x.ne2 - head) * x.nb2);
  let seen: u32 = 0;
  for (let c = max(j, w.lo), to = min(j + CELLS, w.hi); c < to; c++) {
    const p = rowAt(x, c, head, 0);
    for (let o: usize = 0; o < bytes; o += 64) seen ^= load<u8>(p + o);
  }
  store<u32>(w.p, seen); // so that the reads stay
}

// Takes rows [first, last), all of KV head `head` of sequence s, through the tile that starts at cell j.
function headStep(n: Node, w: Work, j: i32, head: i32, s: i32, first: i32, last: i32): void {
  const k = n.src1!;
  const v = n.src2!;
  const heads = max(k.ne2, v.ne2);
  const from = max(j, w.lo) - j;
  const to = min(j + CELLS, w.hi) - j;
  const k0 = rowAt(k, j, head / (heads / k.ne2), s / (n.ne3 / k.ne3));
  const v0 = rowAt(v, j, head / (heads / v.ne2), s / (n.ne3 / v.ne3));
  const pk = tileOf(k, k0, from, to, w.k, w.nbd);
  const pv = tileOf(v, v0, from, to, w.v, w.nbv);
  const nbk: usize = pk == w.k ? w.nbd : <usize>k.nb1;
  const nbv: usize = pv == w.v ? w.nbv : <usize>v.nb1;
  tileStep(n, w, first, last, j, pk, nbk, pv, nbv);
}

// Sets up row i of the block: token t, head h, sequence s.
function begin(n: Node, w: Work, i: i32, t: i32, h: i32, s: i32): void {
  const q = n.src0!;
  const mask = n.src3;
  const r = rowOf(w, i);
  r.q = w.q + <usize>i * w.nbd;
  r.acc = w.acc + <usize>i * w.nbv;
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
  scaleRow(rowAt(q, t, h, s), r.q, q.ne0, w.scale);
  clear(r.acc, w.nbv);
}

// `n` f32 at px times f to py, zeros up to the next multiple of four.
function scaleRow(px: usize, py: usize, n: i32, f: f32): void {
  const s = f32x4.splat(f);
  for (; n >= 4; n -= 4, px += 16, py += 16) v128.store(py, f32x4.mul(v128.load(px), s));
  if (n > 0) v128.store(py, f32x4.mul(loadLanes(Type.F32, px, 4, n), s));
}

function clear(p: usize, bytes: usize): void {
  for (const end = p + bytes; p < end; p += 16) v128.store(p, f32x4.splat(0));
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

// Rows [from, to) of a tile as f32: where they are, or converted to `scratch` with stride nbs. p: row 0 of the tile.
function tileOf(x: Node, p: usize, from: i32, to: i32, scratch: usize, nbs: usize): usize {
  if (x.type == Type.F32 && (x.ne0 & 3) == 0) return p;
  for (let i = from; i < to; i++) {
    dequantizeRow(x.type, p + <usize>i * x.nb1, scratch + <usize>i * nbs, x.ne0);
  }
  return scratch;
}

// Takes rows [first, last) through the tile, two at a time where both see cells of it.
function tileStep(
  n: Node,
  w: Work,
  first: i32,
  last: i32,
  j: i32,
  pk: usize,
  nbk: usize,
  pv: usize,
  nbv: usize,
): void {
  for (let i = first; i < last;) {
    const r = rowOf(w, i);
    i++;
    if (fromOf(r, j) >= toOf(r, j)) continue;
    const s = rowOf(w, i);
    if (i == last || fromOf(s, j) >= toOf(s, j)) stepOne(n, w, r, j, pk, nbk, pv, nbv);
    else {
      stepTwo(n, w, r, s, j, pk, nbk, pv, nbv);
      i++;
    }
  }
}

// Cells that a row sees of the tile that starts at cell j: [from, to), counted in the tile.
@inline
function fromOf(r: Row, j: i32): i32 {
  return max(r.lo - j, 0);
}


@inline
function toOf(r: Row, j: i32): i32 {
  return min(r.hi - j, CELLS);
}

function stepOne(n: Node, w: Work, r: Row, j: i32, pk: usize, nbk: usize, pv: usize, nbv: usize): void {
  const a = fromOf(r, j);
  const b = toOf(r, j);
  scores(r.q, w.nbd, pk, nbk, a, b, w.p);
  if (soften(n, w, r, w.p, j, a, b)) accumulate(r.acc, w.nbv, w.p, pv, nbv, a, b);
}

// What only one of the two sees is hidden from the other.
function stepTwo(
  n: Node,
  w: Work,
  r: Row,
  s: Row,
  j: i32,
  pk: usize,
  nbk: usize,
  pv: usize,
  nbv: usize,
): void {
  const a = min(fromOf(r, j), fromOf(s, j));
  const b = max(toOf(r, j), toOf(s, j));
  const p = w.p;
  const q = p + P_BYTES;
  scoresOfTwo(r.q, s.q, w.nbd, pk, nbk, a, b, p, q);
  const first = soften(n, w, r, p, j, a, b);
  const second = soften(n, w, s, q, j, a, b);
  if (first && second) accumulateTwo(r.acc, s.acc, w.nbv, p, q, pv, nbv, a, b);
  else if (first) accumulate(r.acc, w.nbv, p, pv, nbv, a, b);
  else if (second) accumulate(s.acc, w.nbv, q, pv, nbv, a, b);
}

// Products of cells [a, b) at p to scores to weights; false when all of them are hidden.
function soften(n: Node, w: Work, r: Row, p: usize, j: i32, a: i32, b: i32): bool {
  const from = fromOf(r, j);
  const to = toOf(r, j);
  if (w.cap != 0) capScores(w.cap, p, from, to);
  for (let c = a & ~3; c < from; c++) store<f32>(p + ((<usize>c) << 2), -Infinity);
  for (let c = to; c < b; c++) store<f32>(p + ((<usize>c) << 2), -Infinity);
  v128.store(p + ((<usize>b) << 2), f32x4.splat(-Infinity));
  if (r.mask != 0) addMask(n.src3!, p, r, j, from, to);
  else if (paramF(n, AttnParam.MAX_BIAS) > 0) addDistance(p, r, j, from, to);
  const top = max<f32>(r.top, highest(p, a, b));
  if (top == -Infinity) return false;
  if (top != r.top) rescale(w, r, top);
  r.sum += weigh(p, a, b, top);
  return true;
}

// cap tanh(z) for cells [a, b).
function capScores(cap: f32, p: usize, a: i32, b: i32): void {
  const end = p + ((<usize>b) << 2);
  for (p += (<usize>a) << 2; p < end; p += 16) {
    v128.store(p, f32x4.mul(tanh4(v128.load(p)), f32x4.splat(cap)));
  }
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
  const f = exp4(f32x4.splat(r.top - top));
  r.top = top;
  r.sum *= f32x4.extract_lane(f, 0);
  for (let p = r.acc, end = r.acc + w.nbv; p < end; p += 16) v128.store(p, f32x4.mul(v128.load(p), f));
}

// The sink joins the sum, then the row is divided by it. A row that saw nothing is zero.
function finish(w: Work, r: Row, dv: i32): void {
  if (r.sink > r.top) rescale(w, r, r.sink);
  if (r.sink != -Infinity) r.sum += f32x4.extract_lane(exp4(f32x4.splat(r.sink - r.top)), 0);
  const f: f32 = r.sum == 0 ? 0 : 1 / r.sum;
  if ((dv & 3) == 0) return scaleRow(r.acc, r.out, dv, f);
  scaleRow(r.acc, r.acc, dv, f);
  memory.copy(r.out, r.acc, (<usize>dv) << 2);
}
