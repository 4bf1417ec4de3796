// F32, F16 and BF16 weights times activations: a packed panel of eight rows times a packed panel of columns.
//
// An output element is made of sixteen partial sums, one for each k modulo 16. c and c + 8 are added, and those eight as
// ((0+4)+(2+6))+((1+5)+(3+7)). A row (float_rows.ts) keeps them in the lanes of four vectors; a panel makes them one after the
// other, each with madd() and from k = c on, so both ways give the same bits.

import { FLOAT_PARTIAL_BYTES, Type } from "../abi";
import { madd, storeTransposed } from "../math/dot";
import { bf16ToF32, bf16x4ToF32, f16High, f16Low, f16ToF32, f16Upper } from "../math/f16";
import { PANEL_ROWS } from "./blocks";

/** Bytes of a tile of a panel times six columns: sixteen partial ones of two panels take FLOAT_PARTIAL_BYTES. */
export const SIX_BYTES: usize = 192;
/** Bytes of the partial tiles. */
export const PARTIAL_BYTES: usize = FLOAT_PARTIAL_BYTES;

// Partial sums of an element.
const PARTS: i32 = 16;
// Bytes from which the parts of a panel have gaps between them.
const LONG: usize = 512;

// Eight weights at a time: a = first(p) and b = second(p, a) hold them, low(a, b) and high(a, b) are four each as f32.

@unmanaged
class WeightF32 {

  @inline
  bytes(): usize {
    return 4;
  }


  @inline
  one(p: usize): f32 {
    return load<f32>(p);
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p);
  }


  @inline
  second(p: usize, a: v128): v128 {
    return v128.load(p, 16);
  }


  @inline
  low(a: v128, b: v128): v128 {
    return a;
  }


  @inline
  high(a: v128, b: v128): v128 {
    return b;
  }
}


@unmanaged
class WeightF16 {

  @inline
  bytes(): usize {
    return 2;
  }


  @inline
  one(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p);
  }


  @inline
  second(p: usize, a: v128): v128 {
    return f16Upper(a);
  }


  @inline
  low(a: v128, b: v128): v128 {
    return f16Low(a, b);
  }


  @inline
  high(a: v128, b: v128): v128 {
    return f16High(a, b);
  }
}


@unmanaged
class WeightBF16 {

  @inline
  bytes(): usize {
    return 2;
  }


  @inline
  one(p: usize): f32 {
    return bf16ToF32(load<u16>(p));
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p);
  }


  @inline
  second(p: usize, a: v128): v128 {
    return a;
  }


  @inline
  low(a: v128, b: v128): v128 {
    return bf16x4ToF32(i32x4.extend_low_i16x8_u(a));
  }


  @inline
  high(a: v128, b: v128): v128 {
    return bf16x4ToF32(i32x4.extend_high_i16x8_u(a));
  }
}

/**
 * Bytes of a panel of eight rows of k. Its sixteen parts, unless they are short, lie a cache line further apart than they are long,
 * because at powers of two all of them, written in turn, would fall into the same set of the cache.
 */
export function panelBytesF(k: i32): usize {
  return panelStep(k) << 4;
}

// Bytes from one part of a panel to the next.
@inline
function panelStep(k: i32): usize {
  const part = (<usize>((k + 15) >> 4)) << 5;
  return part < LONG ? part : part + 64;
}

/** Packs eight rows, or columns, as f32, [k % 16][k / 16 and a gap][row]. Rows past `rows` repeat the last one. */
export function packPanel(type: i32, pw: usize, nbw: usize, rows: i32, k: i32, pp: usize): void {
  const last = pw + <usize>(rows - 1) * nbw;
  for (let r = 0; r < PANEL_ROWS; r += 4, pp += 16) {
    const p0 = min(pw + <usize>r * nbw, last);
    const p1 = min(p0 + nbw, last);
    const p2 = min(p1 + nbw, last);
    const p3 = min(p2 + nbw, last);
    if (type == Type.F16) packFour<WeightF16>(p0, p1, p2, p3, k, pp);
    else if (type == Type.BF16) packFour<WeightBF16>(p0, p1, p2, p3, k, pp);
    else packFour<WeightF32>(p0, p1, p2, p3, k, pp);
  }
}

function packFour<T>(p0: usize, p1: usize, p2: usize, p3: usize, k: i32, pp: usize): void {
  const t = changetype<T>(<usize>0);
  const bytes = t.bytes();
  const step = panelStep(k);
  let i = 0;
  for (; i + 8 <= k; i += 8, pp += (i & 8) == 0 ? 32 - 8 * step : 8 * step) {
    const o = <usize>i * bytes;
    const a0 = t.first(p0 + o);
    const a1 = t.first(p1 + o);
    const a2 = t.first(p2 + o);
    const a3 = t.first(p3 + o);
    const b0 = t.second(p0 + o, a0);
    const b1 = t.second(p1 + o, a1);
    const b2 = t.second(p2 + o, a2);
    const b3 = t.second(p3 + o, a3);
    storeTransposed(pp, step, t.low(a0, b0), t.low(a1, b1), t.low(a2, b2), t.low(a3, b3));
    storeTransposed(pp + 4 * step, step, t.high(a0, b0), t.high(a1, b1), t.high(a2, b2), t.high(a3, b3));
  }
  for (; i < k; i++, pp += step) {
    const o = <usize>i * bytes;
    store<f32>(pp, t.one(p0 + o));
    store<f32>(pp, t.one(p1 + o), 4);
    store<f32>(pp, t.one(p2 + o), 8);
    store<f32>(pp, t.one(p3 + o), 12);
  }
}

/** Packed panel at pw times four of the packed columns at px; the tile [4 columns][8 rows] to py, which has PARTIAL_BYTES. */
export function tileF(pw: usize, px: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  for (let c = 0; c < PARTS; c++, pw += step, px += step) {
    partialTile(pw, pw + partBytes(k, c), px, py + ((<usize>c) << 7));
  }
  addPartials(py, 128);
}

/**
 * The same of six columns, two from each of x0, x1 and x2: twelve sums at a time, where eight are barely as many as fused
 * operations take turns. The tile [6 columns][8 rows] to py.
 */
export function tileSixF(pw: usize, x0: usize, x1: usize, x2: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  for (let c = 0; c < PARTS; c++, pw += step, x0 += step, x1 += step, x2 += step) {
    partialSix(pw, pw + partBytes(k, c), x0, x1, x2, py + <usize>c * SIX_BYTES);
  }
  addPartials(py, SIX_BYTES);
}

/**
 * The same of two panels, for engines that pairsVectors() (math/dot.ts) says so of: the second stands behind the first, and so
 * does its tile.
 */
export function tileTwoF(pw: usize, x0: usize, x1: usize, x2: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  const second = panelBytesF(k);
  for (let c = 0; c < PARTS; c++, pw += step, x0 += step, x1 += step, x2 += step) {
    partialTwo(pw, pw + second, pw + partBytes(k, c), x0, x1, x2, py + <usize>c * (2 * SIX_BYTES));
  }
  addPartials(py, 2 * SIX_BYTES);
}

// Bytes of part c of a panel.
@inline
function partBytes(k: i32, c: i32): usize {
  return (<usize>((k + 15 - c) >> 4)) << 5;
}

// The partial tiles, `bytes` each, to one; two vectors side by side, for V8 to pack.
@inline
function addPartials(py: usize, bytes: usize): void {
  for (const end = py + bytes; py < end; py += 32) {
    const v = sixteenParts(py, true, bytes);
    v128.store(py, sixteenParts(py, false, bytes));
    v128.store(py, v, 16);
  }
}


@inline
function sixteenParts(p: usize, second: bool, bytes: usize): v128 {
  const even = f32x4.add(fourParts(p, second, bytes), fourParts(p + 2 * bytes, second, bytes));
  const odd = f32x4.add(fourParts(p + bytes, second, bytes), fourParts(p + 3 * bytes, second, bytes));
  return f32x4.add(even, odd);
}

// Partial sums c and c + 8, c + 4 and c + 12; of c the first or the second vector at p.
@inline
function fourParts(p: usize, second: bool, bytes: usize): v128 {
  const low = f32x4.add(partAt(p, second), partAt(p + 8 * bytes, second));
  return f32x4.add(low, f32x4.add(partAt(p + 4 * bytes, second), partAt(p + 12 * bytes, second)));
}


@inline
function partAt(p: usize, second: bool): v128 {
  return second ? v128.load(p, 16) : v128.load(p);
}

// A part of a panel, [pw, end), times the same part of four columns.
function partialTile(pw: usize, end: usize, px: usize, py: usize): void {
  let a0 = f32x4.splat(0);
  let a1 = a0;
  let b0 = a0;
  let b1 = a0;
  let c0 = a0;
  let c1 = a0;
  let d0 = a0;
  let d1 = a0;
  for (; pw < end; pw += 32, px += 32) {
    const w0 = v128.load(pw);
    const w1 = v128.load(pw, 16);
    let x = v128.load32_splat(px);
    a0 = madd(w0, x, a0);
    a1 = madd(w1, x, a1);
    x = v128.load32_splat(px, 4);
    b0 = madd(w0, x, b0);
    b1 = madd(w1, x, b1);
    x = v128.load32_splat(px, 8);
    c0 = madd(w0, x, c0);
    c1 = madd(w1, x, c1);
    x = v128.load32_splat(px, 12);
    d0 = madd(w0, x, d0);
    d1 = madd(w1, x, d1);
  }
  v128.store(py, a1, 16);
  v128.store(py, a0);
  v128.store(py, b1, 48);
  v128.store(py, b0, 32);
  v128.store(py, c1, 80);
  v128.store(py, c0, 64);
  v128.store(py, d1, 112);
  v128.store(py, d0, 96);
}

function partialSix(pw: usize, end: usize, x0: usize, x1: usize, x2: usize, py: usize): void {
  sixOf(false, pw, pw, end, x0, x1, x2, py);
}

function partialTwo(pw: usize, pv: usize, end: usize, x0: usize, x1: usize, x2: usize, py: usize): void {
  sixOf(true, pw, pv, end, x0, x1, x2, py);
}

// A part of a panel, [pw, end), and of another, `two`, at pv, times the same part of two columns from each of x0, x1 and x2.
@inline
function sixOf(
  two: bool,
  pw: usize,
  pv: usize,
  end: usize,
  x0: usize,
  x1: usize,
  x2: usize,
  py: usize,
): void {
  let a0 = f32x4.splat(0);
  let b0 = a0;
  let c0 = a0;
  let d0 = a0;
  let e0 = a0;
  let f0 = a0;
  let a1 = a0;
  let b1 = a0;
  let c1 = a0;
  let d1 = a0;
  let e1 = a0;
  let f1 = a0;
  let a2 = a0;
  let b2 = a0;
  let c2 = a0;
  let d2 = a0;
  let e2 = a0;
  let f2 = a0;
  let a3 = a0;
  let b3 = a0;
  let c3 = a0;
  let d3 = a0;
  let e3 = a0;
  let f3 = a0;
  for (; pw < end; pw += 32, pv += 32, x0 += 32, x1 += 32, x2 += 32) {
    const w0 = v128.load(pw);
    const w1 = v128.load(pw, 16);
    const w2 = two ? v128.load(pv) : w0;
    const w3 = two ? v128.load(pv, 16) : w1;
    let x = v128.load32_splat(x0);
    a0 = madd(w0, x, a0);
    a1 = madd(w1, x, a1);
    if (two) a2 = madd(w2, x, a2);
    if (two) a3 = madd(w3, x, a3);
    x = v128.load32_splat(x0, 4);
    b0 = madd(w0, x, b0);
    b1 = madd(w1, x, b1);
    if (two) b2 = madd(w2, x, b2);
    if (two) b3 = madd(w3, x, b3);
    x = v128.load32_splat(x1);
    c0 = madd(w0, x, c0);
    c1 = madd(w1, x, c1);
    if (two) c2 = madd(w2, x, c2);
    if (two) c3 = madd(w3, x, c3);
    x = v128.load32_splat(x1, 4);
    d0 = madd(w0, x, d0);
    d1 = madd(w1, x, d1);
    if (two) d2 = madd(w2, x, d2);
    if (two) d3 = madd(w3, x, d3);
    x = v128.load32_splat(x2);
    e0 = madd(w0, x, e0);
    e1 = madd(w1, x, e1);
    if (two) e2 = madd(w2, x, e2);
    if (two) e3 = madd(w3, x, e3);
    x = v128.load32_splat(x2, 4);
    f0 = madd(w0, x, f0);
    f1 = madd(w1, x, f1);
    if (two) f2 = madd(w2, x, f2);
    if (two) f3 = madd(w3, x, f3);
  }
  v128.store(py, a1, 16);
  v128.store(py, a0);
  v128.store(py, b1, 48);
  v128.store(py, b0, 32);
  v128.store(py, c1, 80);
  v128.store(py, c0, 64);
  v128.store(py, d1, 112);
  v128.store(py, d0, 96);
  v128.store(py, e1, 144);
  v128.store(py, e0, 128);
  v128.store(py, f1, 176);
  v128.store(py, f0, 160);
  if (!two) return;
  v128.store(py, a3, 208);
  v128.store(py, a2, 192);
  v128.store(py, b3, 240);
  v128.store(py, b2, 224);
  v128.store(py, c3, 272);
  v128.store(py, c2, 256);
  v128.store(py, d3, 304);
  v128.store(py, d2, 288);
  v128.store(py, e3, 336);
  v128.store(py, e2, 320);
  v128.store(py, f3, 368);
  v128.store(py, f2, 352);
}
