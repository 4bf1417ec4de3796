// One to four elements of a float type as f32 lanes.
//
// Computing always happens in f32; a narrower result is rounded once, when stored.

import { Type } from "../abi";
import {
  bf16ToF32,
  bf16x4ToF32,
  f16ToF32,
  f16x4ToF32,
  f32ToBf16,
  f32ToF16,
  f32x4ToBf16,
  f32x4ToF16,
} from "./f16";

// Four set lanes, then four clear ones.
// prettier-ignore
const MASK = memory.data<u32>([0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0, 0, 0, 0], 16);

/** Vector whose first `k` lanes (0 to 4) are all ones, the others zero. */
@inline
export function laneMask(k: i32): v128 {
  return v128.load(MASK + ((<usize>(4 - k)) << 2));
}

/** One element of type F32, F16 or BF16. */
export function loadFloat(type: i32, p: usize): f32 {
  if (type == Type.F32) return load<f32>(p);
  const h = <u32>load<u16>(p);
  return type == Type.F16 ? f16ToF32(h) : bf16ToF32(h);
}

/** Stores one element as F32, F16 or BF16. */
export function storeFloat(type: i32, p: usize, x: f32): void {
  if (type == Type.F32) store<f32>(p, x);
  else store<u16>(p, <u16>(type == Type.F16 ? f32ToF16(x) : f32ToBf16(x)));
}

/** Four neighbouring elements. */
export function load4(type: i32, p: usize): v128 {
  if (type == Type.F32) return v128.load(p);
  const h = v128.load16x4_u(p);
  return type == Type.F16 ? f16x4ToF32(h) : bf16x4ToF32(h);
}

/** Stores four neighbouring elements. */
export function store4(type: i32, p: usize, x: v128): void {
  if (type == Type.F32) return v128.store(p, x);
  const h = type == Type.F16 ? f32x4ToF16(x) : f32x4ToBf16(x);
  v128.store64_lane(p, i16x8.narrow_i32x4_u(h, h), 0);
}

/** `k` elements (1 to 4) that lie `stride` bytes apart; missing lanes are 0. */
export function loadLanes(type: i32, p: usize, stride: usize, k: i32): v128 {
  if (k == 4 && stride == floatBytes(type)) return load4(type, p);
  let x = f32x4.replace_lane(f32x4.splat(0), 0, loadFloat(type, p));
  if (k > 1) x = f32x4.replace_lane(x, 1, loadFloat(type, p + stride));
  if (k > 2) x = f32x4.replace_lane(x, 2, loadFloat(type, p + 2 * stride));
  if (k > 3) x = f32x4.replace_lane(x, 3, loadFloat(type, p + 3 * stride));
  return x;
}

/** Stores the first `k` lanes (1 to 4), `stride` bytes apart. */
export function storeLanes(type: i32, p: usize, stride: usize, k: i32, x: v128): void {
  if (k == 4 && stride == floatBytes(type)) return store4(type, p, x);
  storeFloat(type, p, f32x4.extract_lane(x, 0));
  if (k > 1) storeFloat(type, p + stride, f32x4.extract_lane(x, 1));
  if (k > 2) storeFloat(type, p + 2 * stride, f32x4.extract_lane(x, 2));
  if (k > 3) storeFloat(type, p + 3 * stride, f32x4.extract_lane(x, 3));
}

/** Bytes of an element of F32, F16 or BF16. */
@inline
export function floatBytes(type: i32): usize {
  return type == Type.F32 ? 4 : 2;
}
