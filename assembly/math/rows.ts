// Rows of f32: times factors, zeros, and whether all are finite.

import { Type } from "../abi";
import { loadLanes } from "./lanes";

/** `n` f32 at px times f times g to py, zeros up to the next multiple of four. */
export function scaleRow(px: usize, py: usize, n: i32, f: f32, g: f32): void {
  const s = f32x4.splat(f);
  const t = f32x4.splat(g);
  for (; n >= 4; n -= 4, px += 16, py += 16) v128.store(py, f32x4.mul(f32x4.mul(v128.load(px), s), t));
  if (n > 0) v128.store(py, f32x4.mul(f32x4.mul(loadLanes(Type.F32, px, 4, n), s), t));
}

/** `bytes` of zeros, a multiple of 16. */
export function clear(p: usize, bytes: usize): void {
  for (const end = p + bytes; p < end; p += 16) v128.store(p, f32x4.splat(0));
}

/** Whether `bytes` of f32 at p are finite. */
export function allFinite(p: usize, bytes: usize): bool {
  let most = i32x4.splat(0);
  for (const end = p + bytes; p < end; p += 16) most = i32x4.max_u(most, i32x4.shl(v128.load(p), 1));
  return !v128.any_true(i32x4.ge_u(most, i32x4.splat(0xff000000)));
}
