// ADD SUB MUL DIV: src0 with src1, which is repeated over src0 in every dimension where it is shorter.
//
// F32, F16 and BF16 in any mixture, computed in f32 and rounded once; ADD also to a src0 of a block type. An element is
// read before its result is written, so dst may be src0, or src1 when nothing is repeated.

import { Type } from "../abi";
import { loadFloat, loadLanes, storeLanes } from "../math/lanes";
import { isPacked, liveRows, Node, repeatedRow, rowPtr, sameShape, share, shareFlat } from "../node";
import { dequantizeRow, quantizeRow } from "../quants/index";
import { elementBytes } from "./convert";


@unmanaged
class Add {

  @inline
  apply(a: v128, b: v128): v128 {
    return f32x4.add(a, b);
  }
}


@unmanaged
class Sub {

  @inline
  apply(a: v128, b: v128): v128 {
    return f32x4.sub(a, b);
  }
}


@unmanaged
class Mul {

  @inline
  apply(a: v128, b: v128): v128 {
    return f32x4.mul(a, b);
  }
}


@unmanaged
class Div {

  @inline
  apply(a: v128, b: v128): v128 {
    return f32x4.div(a, b);
  }
}

/** a + b; a may be of a block type */
export function add(n: Node, ith: i32, nth: i32): void {
  if (elementBytes(n.type) == 0) return addToBlocks(n, ith, nth);
  binary<Add>(n, ith, nth);
}

/** a - b */
export function sub(n: Node, ith: i32, nth: i32): void {
  binary<Sub>(n, ith, nth);
}

/** a * b */
export function mul(n: Node, ith: i32, nth: i32): void {
  binary<Mul>(n, ith, nth);
}

/** a / b */
export function div(n: Node, ith: i32, nth: i32): void {
  binary<Div>(n, ith, nth);
}

// src0 and dst of a block type: each row through one row of f32 in scratch.
function addToBlocks(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const b = n.src1!;
  const px = n.scratchData + <usize>ith * ((<usize>n.ne0) << 2);
  const rows = liveRows(n);
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    const pb = repeatedRow(n, b, r);
    if (!dequantizeRow(a.type, rowPtr(a, r), px, n.ne0)) unreachable();
    for (let i = 0; i < n.ne0; i++) {
      const p = px + ((<usize>i) << 2);
      store<f32>(p, load<f32>(p) + loadFloat(b.type, pb + <usize>(i % b.ne0) * b.nb0));
    }
    if (!quantizeRow(n.type, px, rowPtr(n, r), n.ne0, 0, 0)) unreachable();
  }
}

// This thread's share: a stretch of elements when the shapes agree and nothing has gaps, else rows of dst.
function binary<F>(n: Node, ith: i32, nth: i32): void {
  const a = n.src0!;
  const b = n.src1!;
  const rows = liveRows(n);
  if (sameShape(a, b) && isPacked(a) && isPacked(b) && isPacked(n)) {
    const total = <usize>rows * n.ne0;
    const i = shareFlat(total, ith, nth);
    const count = shareFlat(total, ith + 1, nth) - i;
    return row<F>(n, n.data + i * n.nb0, a.data + i * a.nb0, b.data + i * b.nb0, b.nb0, count);
  }
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    repeatRow<F>(n, rowPtr(n, r), rowPtr(a, r), repeatedRow(n, b, r));
  }
}

// One row, src1's elements repeated along it.
function repeatRow<F>(n: Node, py: usize, pa: usize, pb: usize): void {
  const a = n.src0!;
  const b = n.src1!;
  if (b.ne0 == 1) return row<F>(n, py, pa, pb, 0, n.ne0);
  for (let i = 0; i < n.ne0; i += b.ne0) {
    row<F>(n, py, pa, pb, b.nb0, b.ne0);
    py += <usize>b.ne0 * n.nb0;
    pa += <usize>b.ne0 * a.nb0;
  }
}

// `count` elements; those of src1 lie `sb` bytes apart, 0 = one element for all.
function row<F>(n: Node, py: usize, pa: usize, pb: usize, sb: usize, count: usize): void {
  const f = changetype<F>(<usize>0);
  const a = n.src0!;
  const ta = a.type;
  const tb = n.src1!.type;
  const ty = n.type;
  const sa: usize = a.nb0;
  const sy: usize = n.nb0;
  if (ta == Type.F32 && tb == Type.F32 && ty == Type.F32 && sa == 4 && sy == 4) {
    if (sb == 4) {
      for (; count >= 4; count -= 4) {
        v128.store(py, f.apply(v128.load(pa), v128.load(pb)));
        pa += 16;
        pb += 16;
        py += 16;
      }
    } else if (sb == 0) {
      const b = v128.load32_splat(pb);
      for (; count >= 4; count -= 4) {
        v128.store(py, f.apply(v128.load(pa), b));
        pa += 16;
        py += 16;
      }
    }
  }
  while (count > 0) {
    const k = <i32>min<usize>(count, 4);
    storeLanes(ty, py, sy, k, f.apply(loadLanes(ta, pa, sa, k), loadLanes(tb, pb, sb, k)));
    pa += <usize>k * sa;
    pb += <usize>k * sb;
    py += <usize>k * sy;
    count -= k;
  }
}
