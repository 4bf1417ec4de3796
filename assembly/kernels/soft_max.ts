// SOFT_MAX over rows of f32: softmax(scale x + slope mask), slope from ALiBi, with an optional extra logit per head.
//
//   x [n, rows, heads, batch], mask F16 or F32 [n, >= rows, heads or a divisor, batch or a divisor], sinks F32 [heads]
//
// A row in which everything is masked gives zeros. dst may be x: each element is read before it is written.

import { Type } from "../abi";
import { exp4 } from "../math/exp";
import { floatBytes, laneMask, load4, loadLanes, storeLanes } from "../math/lanes";
import { hmax, hsum2, widenSum } from "../math/round";
import { liveRows, Node, paramF, rowAt, rowPtr, share } from "../node";

/** ALiBi slope of head `h` of `heads`; 1 without a bias. */
export function alibiSlope(maxBias: f32, h: i32, heads: i32): f32 {
  if (maxBias <= 0) return 1;
  const n = 1 << (31 - clz(heads));
  const base = Mathf.pow(2, -maxBias / <f32>n);
  if (h < n) return Mathf.pow(base, <f32>(h + 1));
  return Mathf.pow(Mathf.sqrt(base), <f32>((h - n) * 2 + 1));
}

/** Parameters: scale, max bias. */
export function softMax(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const scale = paramF(n, 0);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const i2 = (r / n.ne1) % n.ne2;
    const slope = alibiSlope(paramF(n, 1), i2, n.ne2);
    const sink: f32 = n.src2 == null ? <f32>-Infinity : load<f32>(n.src2!.data + <usize>i2 * n.src2!.nb0);
    const py = rowPtr(n, r);
    const top = max<f32>(logits(n, r, rowPtr(x, r), py, scale, slope), sink);
    normalise(py, n.ne0, top, sink);
  }
}

// scale x + slope mask into py; returns the largest.
function logits(n: Node, r: i32, px: usize, py: usize, scale: f32, slope: f32): f32 {
  const mask = n.src1;
  const s = f32x4.splat(scale);
  const b = f32x4.splat(slope);
  const low = f32x4.splat(-Infinity);
  let type: i32 = Type.F32;
  let pm: usize = 0;
  if (mask != null) {
    const q = r / n.ne1;
    type = mask.type;
    pm = rowAt(mask, r % n.ne1, (q % n.ne2) % mask.ne2, (q / n.ne2) % mask.ne3);
  }
  const step = floatBytes(type) << 2;
  let top = low;
  let i = n.ne0;
  for (; i >= 4; i -= 4, px += 16, py += 16) {
    let z = f32x4.mul(v128.load(px), s);
    if (pm != 0) {
      z = f32x4.add(z, f32x4.mul(load4(type, pm), b));
      pm += step;
    }
    top = f32x4.pmax(top, z);
    v128.store(py, z);
  }
  if (i > 0) {
    let z = f32x4.mul(loadLanes(Type.F32, px, 4, i), s);
    if (pm != 0) z = f32x4.add(z, f32x4.mul(loadLanes(type, pm, step >> 2, i), b));
    top = f32x4.pmax(top, v128.bitselect(z, low, laneMask(i)));
    storeLanes(Type.F32, py, 4, i, z);
  }
  return hmax(top);
}

// e^(z - top) over the sum of all, that of the sink included.
function normalise(py: usize, n: i32, top: f32, sink: f32): void {
  if (top == -Infinity) return clearRow(py, n);
  const t = f32x4.splat(top);
  let sum = f64x2.splat(0);
  let p = py;
  let i = n;
  for (; i >= 4; i -= 4, p += 16) {
    const e = exp4(f32x4.sub(v128.load(p), t));
    v128.store(p, e);
    sum = f64x2.add(sum, widenSum(e));
  }
  if (i > 0) {
    const e = v128.and(exp4(f32x4.sub(loadLanes(Type.F32, p, 4, i), t)), laneMask(i));
    storeLanes(Type.F32, p, 4, i, e);
    sum = f64x2.add(sum, widenSum(e));
  }
  const total = hsum2(sum) + f32x4.extract_lane(exp4(f32x4.splat(sink - top)), 0);
  multiply(py, n, <f32>(1 / total));
}

// Zeros for what is masked; a NaN stays, so that it is not lost in a masked row.
function clearRow(p: usize, n: i32): void {
  for (; n > 0; n--, p += 4) if (load<f32>(p) == load<f32>(p)) store<f32>(p, 0);
}

// Row times factor, in place.
function multiply(p: usize, n: i32, factor: f32): void {
  const f = f32x4.splat(factor);
  for (; n >= 4; n -= 4, p += 16) v128.store(p, f32x4.mul(v128.load(p), f));
  if (n > 0) storeLanes(Type.F32, p, 4, n, f32x4.mul(loadLanes(Type.F32, p, 4, n), f));
}
