// Sums over a row of f32, always in the same order: eight f32 partial sums, or two in f64.

import { sumF32 } from "./dot";
import { laneMask, loadLanes } from "./lanes";
import { hsum2, widenSum } from "./round";
import { Type } from "../abi";

/** Sum of (x - c)^2 over `n` elements. */
export function sumSquares(p: usize, n: i32, c: f32): f32 {
  const m = f32x4.splat(c);
  let a = f32x4.splat(0);
  let b = a;
  for (; n >= 8; n -= 8, p += 32) {
    const x = f32x4.sub(v128.load(p), m);
    const y = f32x4.sub(v128.load(p, 16), m);
    a = f32x4.add(a, f32x4.mul(x, x));
    b = f32x4.add(b, f32x4.mul(y, y));
  }
  for (; n > 0; n -= 4, p += 16) {
    const k = min(n, 4);
    const x = v128.and(f32x4.sub(loadLanes(Type.F32, p, 4, k), m), laneMask(k));
    a = f32x4.add(a, f32x4.mul(x, x));
  }
  return sumF32(f32x4.add(a, b));
}

/** Sum of `n` elements of type F32, F16 or BF16, `stride` bytes apart. */
export function sumRow(type: i32, p: usize, stride: usize, n: i32): f64 {
  let a = f64x2.splat(0);
  if (type == Type.F32 && stride == 4) {
    for (; n >= 4; n -= 4, p += 16) a = f64x2.add(a, widenSum(v128.load(p)));
  }
  for (; n > 0; n -= 4, p += 4 * stride) {
    a = f64x2.add(a, widenSum(loadLanes(type, p, stride, min(n, 4))));
  }
  return hsum2(a);
}
