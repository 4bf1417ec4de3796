// NORM RMS_NORM L2_NORM GROUP_NORM: each row, or group of channels, divided by a measure of its own size. Rows of f32; dst
// may be src0. The first three take src1, weights that are repeated over the rows and multiplied with them; dst may be it.

import { Type } from "../abi";
import { loadLanes, storeLanes } from "../math/lanes";
import { sumRow, sumSquares } from "../math/reduce";
import { liveRows, Node, paramF, paramI, repeatedRow, rowAt, rowPtr, share } from "../node";

/** x / sqrt(mean(x^2) + eps) */
export function rmsNorm(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const eps = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const mean = sumSquares(px, n.ne0, 0) / <f32>n.ne0;
    affineRow(px, rowPtr(n, r), n.ne0, 0, <f32>1 / sqrt<f32>(mean + eps), weightsOf(n, r));
  }
}

/** (x - mean) / sqrt(var + eps), var = mean((x - mean)^2) */
export function norm(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const eps = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const mean = <f32>(sumRow(Type.F32, px, 4, n.ne0) / n.ne0);
    const variance = sumSquares(px, n.ne0, mean) / <f32>n.ne0;
    affineRow(px, rowPtr(n, r), n.ne0, mean, <f32>1 / sqrt<f32>(variance + eps), weightsOf(n, r));
  }
}

/** x / max(sqrt(sum(x^2)), eps) */
export function l2Norm(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const eps = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const factor = <f32>1 / max<f32>(sqrt<f32>(sumSquares(px, n.ne0, 0)), eps);
    affineRow(px, rowPtr(n, r), n.ne0, 0, factor, weightsOf(n, r));
  }
}

/** Parameters: groups, eps. As norm(), over all rows of ceil(ne2 / groups) channels; threads split the groups. */
export function groupNorm(n: Node, ith: i32, nth: i32): void {
  const channels = max(1, (n.ne2 + paramI(n, 0) - 1) / paramI(n, 0));
  const groups = (n.ne2 + channels - 1) / channels;
  const total = groups * n.ne3;
  for (let g = share(total, ith, nth), end = share(total, ith + 1, nth); g < end; g++) {
    const first = (g % groups) * channels;
    normGroup(n, first, min(n.ne2, first + channels), g / groups);
  }
}

// Channels [first, last) of batch i3.
function normGroup(n: Node, first: i32, last: i32, i3: i32): void {
  const x = n.src0!;
  const count = <f64>n.ne0 * n.ne1 * (last - first);
  let sum: f64 = 0;
  for (let c = first; c < last; c++) {
    for (let i = 0; i < n.ne1; i++) sum += sumRow(Type.F32, rowAt(x, i, c, i3), 4, n.ne0);
  }
  const mean = <f32>(sum / count);
  sum = 0;
  for (let c = first; c < last; c++) {
    for (let i = 0; i < n.ne1; i++) sum += sumSquares(rowAt(x, i, c, i3), n.ne0, mean);
  }
  const factor = <f32>1 / sqrt<f32>(<f32>(sum / count) + paramF(n, 1));
  for (let c = first; c < last; c++) {
    for (let i = 0; i < n.ne1; i++) affineRow(rowAt(x, i, c, i3), rowAt(n, i, c, i3), n.ne0, mean, factor, 0);
  }
}

// Weights of row r, or 0.
function weightsOf(n: Node, r: i32): usize {
  const w = n.src1;
  return w == null ? 0 : repeatedRow(n, w, r);
}

// (x - shift) * factor, times the weights at pw if there are any
function affineRow(px: usize, py: usize, n: i32, shift: f32, factor: f32, pw: usize): void {
  const s = f32x4.splat(shift);
  const f = f32x4.splat(factor);
  for (; n >= 4; n -= 4, px += 16, py += 16) {
    let y = f32x4.mul(f32x4.sub(v128.load(px), s), f);
    if (pw != 0) {
      y = f32x4.mul(y, v128.load(pw));
      pw += 16;
    }
    v128.store(py, y);
  }
  if (n <= 0) return;
  const y = f32x4.mul(f32x4.sub(loadLanes(Type.F32, px, 4, n), s), f);
  storeLanes(Type.F32, py, 4, n, pw == 0 ? y : f32x4.mul(y, loadLanes(Type.F32, pw, 4, n)));
}
