// F32, F16 and BF16 weights times activations: a packed panel of eight rows times a packed panel of columns.
//
// An output element is made of sixteen partial sums, one for each k modulo 16. c and c + 8 are added, and those eight as
// ((0+4)+(2+6))+((1+5)+(3+7)). A row (float_rows.ts) keeps them in the lanes of four vectors; a panel makes them one after the
// other, each with madd() and from k = c on, so both ways give the same bits.

import { Type } from "../abi";
import { madd, storeTransposed } from "../math/dot";
import { bf16ToF32, bf16x4ToF32, f16High, f16Low, f16ToF32, f16Upper } from "../math/f16";
import { PANEL_ROWS } from "./blocks";

/** Bytes for the partial tiles of a panel times four columns. */
export const PARTIAL_BYTES: usize = 2048;

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
 * The same of all eight columns, for engines that pairsVectors() (math/dot.ts) says so of; the tile [8 columns][8 rows] to py,
 * which has twice PARTIAL_BYTES.
 */
export function tilePairF(pw: usize, px: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  for (let c = 0; c < PARTS; c++, pw += step, px += step) {
    partialPair(pw, pw + partBytes(k, c), px, py + ((<usize>c) << 8));
  }
  addPartials(py, 256);
}

// Bytes of part c of a panel.
@inline
function partBytes(k: i32, c: i32): usize {
  return (<usize>((k + 15 - c) >> 4)) << 5;
}

// The partial tiles, `bytes` each, to one.
@inline
function addPartials(py: usize, bytes: usize): void {
  for (let i: usize = 0; i < bytes; i += 16) {
    const p = py + i;
    const even = f32x4.add(fourParts(p, 0, bytes), fourParts(p, 2, bytes));
    v128.store(p, f32x4.add(even, f32x4.add(fourParts(p, 1, bytes), fourParts(p, 3, bytes))));
  }
}

// Partial sums c and c + 8, c + 4 and c + 12.
@inline
function fourParts(p: usize, c: usize, bytes: usize): v128 {
  p += c * bytes;
  const low = f32x4.add(v128.load(p), v128.load(p + 8 * bytes));
  return f32x4.add(low, f32x4.add(v128.load(p + 4 * bytes), v128.load(p + 12 * bytes)));
}

function partialTile(pw: usize, end: usize, px: usize, py: usize): void {
  partialOf(false, pw, end, px, py);
}

function partialPair(pw: usize, end: usize, px: usize, py: usize): void {
  partialOf(true, pw, end, px, py);
}

// A part of a panel, [pw, end), times the same part of four columns or, `pair`, of eight.
@inline
function partialOf(pair: bool, pw: usize, end: usize, px: usize, py: usize): void {
  let a0 = f32x4.splat(0);
  let a1 = a0;
  let b0 = a0;
  let b1 = a0;
  let c0 = a0;
  let c1 = a0;
  let d0 = a0;
  let d1 = a0;
  let e0 = a0;
  let e1 = a0;
  let f0 = a0;
  let f1 = a0;
  let g0 = a0;
  let g1 = a0;
  let h0 = a0;
  let h1 = a0;
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
    if (pair) {
      x = v128.load32_splat(px, 16);
      e0 = madd(w0, x, e0);
      e1 = madd(w1, x, e1);
      x = v128.load32_splat(px, 20);
      f0 = madd(w0, x, f0);
      f1 = madd(w1, x, f1);
      x = v128.load32_splat(px, 24);
      g0 = madd(w0, x, g0);
      g1 = madd(w1, x, g1);
      x = v128.load32_splat(px, 28);
      h0 = madd(w0, x, h0);
      h1 = madd(w1, x, h1);
    }
  }
  v128.store(py, a1, 16);
  v128.store(py, a0);
  v128.store(py, b1, 48);
  v128.store(py, b0, 32);
  v128.store(py, c1, 80);
  v128.store(py, c0, 64);
  v128.store(py, d1, 112);
  v128.store(py, d0, 96);
  if (!pair) return;
  v128.store(py, e1, 144);
  v128.store(py, e0, 128);
  v128.store(py, f1, 176);
  v128.store(py, f0, 160);
  v128.store(py, g1, 208);
  v128.store(py, g0, 192);
  v128.store(py, h1, 240);
  v128.store(py, h0, 224);
}
