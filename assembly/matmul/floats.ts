// F32, F16 and BF16 weights times f32 activations: a packed panel times four columns.
//
// An output element is made of eight partial sums, one for each k modulo 8, added as ((0+4)+(2+6))+((1+5)+(3+7)). A row
// (float_rows.ts) keeps them in the lanes of two vectors; a panel makes them one after the other. No operation is fused,
// so both ways give the same bits.

import { Type } from "../abi";
import { storeTransposed } from "../math/dot";
import { bf16ToF32, bf16x4ToF32, f16High, f16Low, f16ToF32, f16Upper } from "../math/f16";
import { PANEL_ROWS } from "./blocks";

/** Bytes for the eight partial tiles of a panel. */
export const PARTIAL_BYTES: usize = 1024;

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
 * Bytes of a panel of `k` columns. Its eight parts lie a cache line further apart than they are long, because at powers of
 * two all of them, written in turn, would fall into the same set of the cache.
 */
export function panelBytesF(k: i32): usize {
  return panelStep(k) << 3;
}

// Bytes from one part of a panel to the next.
@inline
function panelStep(k: i32): usize {
  return ((<usize>((k + 7) >> 3)) << 5) + 64;
}

/** Packs eight rows as f32, [k % 8][k / 8 and a gap][row]. Rows past `rows` repeat the last one. */
export function packPanel(type: i32, pw: usize, nbw: usize, rows: i32, k: i32, pp: usize): void {
  for (let r = 0; r < PANEL_ROWS; r += 4, pp += 16) {
    const last = pw + <usize>(rows - 1) * nbw;
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
  for (; i + 8 <= k; i += 8, pp += 32) {
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

/** Packed panel at pp times the columns at x0..x3; the tile [4 columns][8 rows] to py, which has PARTIAL_BYTES. */
export function tileF(pp: usize, x0: usize, x1: usize, x2: usize, x3: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  for (let c = 0; c < 8; c++, pp += step) {
    const n = (k + 7 - c) >> 3;
    partialTile(pp, pp + ((<usize>n) << 5), x0, x1, x2, x3, py + ((<usize>c) << 7));
    x0 += 4;
    x1 += 4;
    x2 += 4;
    x3 += 4;
  }
  addPartials(py, 128);
}

/**
 * Packed panel at pp times eight columns `nbx` bytes apart, for engines that pairsVectors() (math/dot.ts) says so of; the tile
 * [8 columns][8 rows] to py, which has twice PARTIAL_BYTES.
 */
export function tilePairF(pp: usize, px: usize, nbx: usize, k: i32, py: usize): void {
  const step = panelStep(k);
  for (let c = 0; c < 8; c++, pp += step, px += 4) {
    const n = (k + 7 - c) >> 3;
    partialPair(pp, pp + ((<usize>n) << 5), px, nbx, py + ((<usize>c) << 8));
  }
  addPartials(py, 256);
}

// The partial tiles, `bytes` each, to one.
@inline
function addPartials(py: usize, bytes: usize): void {
  for (let i: usize = 0; i < bytes; i += 16) {
    const p = py + i;
    const even = f32x4.add(pair(p, 0, bytes), pair(p, 2, bytes));
    v128.store(p, f32x4.add(even, f32x4.add(pair(p, 1, bytes), pair(p, 3, bytes))));
  }
}

// Partial sums c and c + 4.
@inline
function pair(p: usize, c: usize, bytes: usize): v128 {
  return f32x4.add(v128.load(p + c * bytes), v128.load(p + (c + 4) * bytes));
}

// Every eighth k of a panel, [pw, end), times the same k of four columns.
function partialTile(pw: usize, end: usize, x0: usize, x1: usize, x2: usize, x3: usize, py: usize): void {
  partialOf(false, pw, end, x0, x1, x2, x3, 0, py);
}

// The same of eight columns: four at px, nbx bytes apart, and the four behind them.
function partialPair(pw: usize, end: usize, px: usize, nbx: usize, py: usize): void {
  const x1 = px + nbx;
  const x2 = x1 + nbx;
  partialOf(true, pw, end, px, x1, x2, x2 + nbx, nbx << 2, py);
}

// Four columns or, `pair`, as many again `step` bytes further on.
@inline
function partialOf(
  pair: bool,
  pw: usize,
  end: usize,
  x0: usize,
  x1: usize,
  x2: usize,
  x3: usize,
  step: usize,
  py: usize,
): void {
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
  let z0 = x0 + step;
  let z1 = x1 + step;
  let z2 = x2 + step;
  let z3 = x3 + step;
  for (; pw < end; pw += 32) {
    const w0 = v128.load(pw);
    const w1 = v128.load(pw, 16);
    let x = v128.load32_splat(x0);
    a0 = f32x4.add(a0, f32x4.mul(w0, x));
    a1 = f32x4.add(a1, f32x4.mul(w1, x));
    x = v128.load32_splat(x1);
    b0 = f32x4.add(b0, f32x4.mul(w0, x));
    b1 = f32x4.add(b1, f32x4.mul(w1, x));
    x = v128.load32_splat(x2);
    c0 = f32x4.add(c0, f32x4.mul(w0, x));
    c1 = f32x4.add(c1, f32x4.mul(w1, x));
    x = v128.load32_splat(x3);
    d0 = f32x4.add(d0, f32x4.mul(w0, x));
    d1 = f32x4.add(d1, f32x4.mul(w1, x));
    x0 += 32;
    x1 += 32;
    x2 += 32;
    x3 += 32;
    if (pair) {
      x = v128.load32_splat(z0);
      e0 = f32x4.add(e0, f32x4.mul(w0, x));
      e1 = f32x4.add(e1, f32x4.mul(w1, x));
      x = v128.load32_splat(z1);
      f0 = f32x4.add(f0, f32x4.mul(w0, x));
      f1 = f32x4.add(f1, f32x4.mul(w1, x));
      x = v128.load32_splat(z2);
      g0 = f32x4.add(g0, f32x4.mul(w0, x));
      g1 = f32x4.add(g1, f32x4.mul(w1, x));
      x = v128.load32_splat(z3);
      h0 = f32x4.add(h0, f32x4.mul(w0, x));
      h1 = f32x4.add(h1, f32x4.mul(w1, x));
      z0 += 32;
      z1 += 32;
      z2 += 32;
      z3 += 32;
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
