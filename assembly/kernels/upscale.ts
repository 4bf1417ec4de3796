// UPSCALE: an image in another size, f32, any strides. Positions are computed in f32, as ggml does.
//
// Per dimension: output i lies at (i + off) / f - off of the source, f = out / in, off = 1/2 (edges of pixels meet); with
// aligned corners f = (out - 1) / (in - 1), off = 0. Dimensions 2 and 3 take the nearest plane.

import { liveRows, Node, paramI, rowAt, rowPtr, share } from "../node";

// Shared with ts/ops/upscale.ts.
const BILINEAR = 1;
const BICUBIC = 2;
const ALIGN_CORNERS = 256;
const ANTIALIAS = 512;

/** Parameter: mode and flags. */
export function upscale(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const rows = liveRows(n);
  const f2 = <f32>n.ne2 / <f32>x.ne2;
  const f3 = <f32>n.ne3 / <f32>x.ne3;
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const q = r / n.ne1;
    const i2 = nearest(q % n.ne2, f2, x.ne2);
    const i3 = nearest(q / n.ne2, f3, x.ne3);
    row(n, rowAt(x, 0, i2, i3), r % n.ne1, rowPtr(n, r));
  }
}


@inline
function nearest(i: i32, f: f32, n: i32): i32 {
  return min(n - 1, <i32>floor<f32>(<f32>i / f));
}

function factor(out: i32, inner: i32, aligned: bool): f32 {
  return aligned && out > 1 && inner > 1 ? <f32>(out - 1) / <f32>(inner - 1) : <f32>out / <f32>inner;
}

// One row of the result out of the plane at px.
function row(n: Node, px: usize, i1: i32, py: usize): void {
  const x = n.src0!;
  const flags = paramI(n, 0);
  const mode = flags & 255;
  const aligned = (flags & ALIGN_CORNERS) != 0;
  const off: f32 = aligned ? 0 : 0.5;
  const f0 = factor(n.ne0, x.ne0, aligned);
  const f1 = factor(n.ne1, x.ne1, aligned);
  for (let i = 0; i < n.ne0; i++, py += n.nb0) {
    let y: f32;
    if (mode == BILINEAR && (flags & ANTIALIAS) != 0) y = smooth(x, px, f0, f1, off, i, i1);
    else if (mode == BILINEAR) y = bilinear(x, px, (<f32>i + off) / f0 - off, (<f32>i1 + off) / f1 - off);
    else if (mode == BICUBIC) y = bicubic(x, px, (<f32>i + off) / f0 - off, (<f32>i1 + off) / f1 - off);
    else y = pixel(x, px, nearest(i, f0, x.ne0), nearest(i1, f1, x.ne1));
    store<f32>(py, y);
  }
}


@inline
function clamped(i: i32, n: i32): i32 {
  return max(0, min(n - 1, i));
}

// Pixel (i, j); coordinates outside take the edge.
function pixel(x: Node, px: usize, i: i32, j: i32): f32 {
  return load<f32>(px + <usize>clamped(i, x.ne0) * x.nb0 + <usize>clamped(j, x.ne1) * x.nb1);
}

function bilinear(x: Node, px: usize, u: f32, v: f32): f32 {
  const i = clamped(<i32>floor<f32>(u), x.ne0);
  const j = clamped(<i32>floor<f32>(v), x.ne1);
  const i1 = <i32>floor<f32>(u) + 1;
  const j1 = <i32>floor<f32>(v) + 1;
  const s = max<f32>(0, min<f32>(1, u - <f32>i));
  const t = max<f32>(0, min<f32>(1, v - <f32>j));
  const top = pixel(x, px, i, j) * (1 - s) + pixel(x, px, i1, j) * s;
  const bottom = pixel(x, px, i, j1) * (1 - s) + pixel(x, px, i1, j1) * s;
  return top * (1 - t) + bottom * t;
}

// Weights of the four neighbours at distances t + 1, t, 1 - t, 2 - t: Keys' kernel with a = -3/4.
@inline
function inner(t: f32): f32 {
  const a: f32 = -0.75;
  return ((a + 2) * t - (a + 3)) * t * t + 1;
}


@inline
function outer(t: f32): f32 {
  const a: f32 = -0.75;
  return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

function bicubic(x: Node, px: usize, u: f32, v: f32): f32 {
  const j = <i32>floor<f32>(v);
  const t = v - floor<f32>(v);
  const a = cubicLine(x, px, u, j - 1);
  const b = cubicLine(x, px, u, j);
  const c = cubicLine(x, px, u, j + 1);
  const d = cubicLine(x, px, u, j + 2);
  return a * outer(t + 1) + b * inner(t) + c * inner(1 - t) + d * outer(2 - t);
}

function cubicLine(x: Node, px: usize, u: f32, j: i32): f32 {
  const i = <i32>floor<f32>(u);
  const t = u - floor<f32>(u);
  const left = pixel(x, px, i - 1, j) * outer(t + 1) + pixel(x, px, i, j) * inner(t);
  return left + pixel(x, px, i + 1, j) * inner(1 - t) + pixel(x, px, i + 2, j) * outer(2 - t);
}

// Weighted mean under a tent that widens as the image shrinks.
function smooth(x: Node, px: usize, f0: f32, f1: f32, off: f32, i0: i32, i1: i32): f32 {
  const r0 = max<f32>(1, <f32>1 / f0);
  const r1 = max<f32>(1, <f32>1 / f1);
  const u = (<f32>i0 + off) / f0;
  const v = (<f32>i1 + off) / f1;
  let y: f32 = 0;
  let sum: f32 = 0;
  for (let j = max(0, <i32>(v - r1 + off)), jEnd = min(x.ne1, <i32>(v + r1 + off)); j < jEnd; j++) {
    const wy = max<f32>(0, 1 - abs<f32>((<f32>j - v + off) / r1));
    for (let i = max(0, <i32>(u - r0 + off)), end = min(x.ne0, <i32>(u + r0 + off)); i < end; i++) {
      const w = wy * max<f32>(0, 1 - abs<f32>((<f32>i - u + off) / r0));
      y += pixel(x, px, i, j) * w;
      sum += w;
    }
  }
  return sum > 0 ? y / sum : 0;
}
