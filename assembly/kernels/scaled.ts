// What the convolutions share: a row of f32 that grows by scaled rows, and the range of a window.

import { Type } from "../abi";
import { loadLanes, storeLanes } from "../math/lanes";

/** y += w x over `n` elements; x of type F32 or F16, sx bytes apart, y of f32, sy bytes apart. */
export function addScaled(w: f32, type: i32, px: usize, sx: usize, py: usize, sy: usize, n: i32): void {
  const f = f32x4.splat(w);
  if (type == Type.F32 && sx == 4 && sy == 4) {
    for (; n >= 4; n -= 4, px += 16, py += 16) {
      v128.store(py, f32x4.add(v128.load(py), f32x4.mul(f, v128.load(px))));
    }
  }
  for (; n > 0; n -= 4, px += 4 * sx, py += 4 * sy) {
    const k = min(n, 4);
    const y = f32x4.add(loadLanes(Type.F32, py, sy, k), f32x4.mul(f, loadLanes(type, px, sx, k)));
    storeLanes(Type.F32, py, sy, k, y);
  }
}

/** `n` zeros of f32, `stride` bytes apart. */
export function clearRow(p: usize, stride: usize, n: i32): void {
  if (stride == 4) return memory.fill(p, 0, (<usize>n) << 2);
  for (; n > 0; n--, p += stride) store<f32>(p, 0);
}

/** The first o >= 0 with o * step >= x. */
@inline
export function firstFrom(x: i32, step: i32): i32 {
  return x <= 0 ? 0 : (x + step - 1) / step;
}
