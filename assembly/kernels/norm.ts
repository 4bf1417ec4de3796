// NORM RMS_NORM L2_NORM: each row divided by a measure of its own size. Rows of f32; dst may be src0.

import { Type } from "../abi";
import { loadLanes, storeLanes } from "../math/lanes";
import { sumRow, sumSquares } from "../math/reduce";
import { liveRows, Node, paramF, rowPtr, share } from "../node";

/** x / sqrt(mean(x^2) + eps) */
export function rmsNorm(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const eps = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    const mean = sumSquares(px, n.ne0, 0) / <f32>n.ne0;
    affineRow(px, rowPtr(n, r), n.ne0, 0, <f32>1 / sqrt<f32>(mean + eps));
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
    affineRow(px, rowPtr(n, r), n.ne0, mean, <f32>1 / sqrt<f32>(variance + eps));
  }
}

/** x / max(sqrt(sum(x^2)), eps) */
export function l2Norm(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const eps = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const px = rowPtr(x, r);
    affineRow(px, rowPtr(n, r), n.ne0, 0, <f32>1 / max<f32>(sqrt<f32>(sumSquares(px, n.ne0, 0)), eps));
  }
}

// (x - shift) * factor
function affineRow(px: usize, py: usize, n: i32, shift: f32, factor: f32): void {
  const s = f32x4.splat(shift);
  const f = f32x4.splat(factor);
  for (; n >= 4; n -= 4, px += 16, py += 16) {
    v128.store(py, f32x4.mul(f32x4.sub(v128.load(px), s), f));
  }
  if (n > 0) storeLanes(Type.F32, py, 4, n, f32x4.mul(f32x4.sub(loadLanes(Type.F32, px, 4, n), s), f));
}
