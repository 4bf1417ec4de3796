// GLU: act(x) * g, where x and g are the halves of each row of src0, or src0 and src1.
//
// F32, F16 and BF16; computed in f32, rounded once. In the form with two sources dst may be either of them.

import { Glu, Type } from "../abi";
import { geluErf4, gelu4, geluQuick4, mulAdd, sigmoid4, silu4 } from "../math/exp";
import { floatBytes, loadLanes, storeLanes } from "../math/lanes";
import { isPacked, liveRows, Node, paramI, paramPtr, rowPtr, share, shareFlat } from "../node";

if (Glu.COUNT != 6) ERROR("glu.ts: new function without a case in gluRow()");


@unmanaged
class Reglu {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    return f32x4.mul(v128.and(x, f32x4.gt(x, f32x4.splat(0))), g);
  }
}


@unmanaged
class Geglu {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    return f32x4.mul(gelu4(x), g);
  }
}


@unmanaged
class Swiglu {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    return f32x4.mul(silu4(x), g);
  }
}

/** Parameters alpha, limit: x <= limit, |g| <= limit; x sigmoid(alpha x) (g + 1) */
@unmanaged
class SwigluOai {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    const alpha = v128.load32_splat(pp);
    const limit = v128.load32_splat(pp, 4);
    const a = f32x4.min(x, limit);
    const b = f32x4.min(f32x4.max(g, f32x4.neg(limit)), limit);
    const sig = f32x4.mul(a, sigmoid4(f32x4.mul(alpha, a)));
    return mulAdd(sig, b, sig);
  }
}


@unmanaged
class GegluErf {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    return f32x4.mul(geluErf4(x), g);
  }
}


@unmanaged
class GegluQuick {

  @inline
  apply(x: v128, g: v128, pp: usize): v128 {
    return f32x4.mul(geluQuick4(x), g);
  }
}

/** Parameters: function, swapped (0 or 1: the second half is activated), alpha, limit. */
export function glu(n: Node, ith: i32, nth: i32): void {
  const x = n.src0!;
  const g = n.src1 == null ? x : n.src1!;
  // offsets of the halves when both stand in one row
  const half: usize = n.src1 == null ? <usize>n.ne0 * x.nb0 : 0;
  const swapped = half != 0 && paramI(n, 1) != 0;
  const ox = swapped ? half : 0;
  const og = half - ox;
  const rows = liveRows(n);
  if (rows == 1 || (half == 0 && isPacked(x) && isPacked(g) && isPacked(n))) {
    const total = <usize>rows * n.ne0;
    const i = shareFlat(total, ith, nth);
    const count = shareFlat(total, ith + 1, nth) - i;
    return gluRow(n, x.data + ox + i * x.nb0, g.data + og + i * g.nb0, n.data + i * n.nb0, count);
  }
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    gluRow(n, rowPtr(x, r) + ox, rowPtr(g, r) + og, rowPtr(n, r), n.ne0);
  }
}

// `count` elements of x, g and the result.
// prettier-ignore
function gluRow(n: Node, px: usize, pg: usize, py: usize, count: usize): void {
  switch (paramI(n, 0)) {
    case Glu.REGLU: return row<Reglu>(n, px, pg, py, count);
    case Glu.GEGLU: return row<Geglu>(n, px, pg, py, count);
    case Glu.SWIGLU: return row<Swiglu>(n, px, pg, py, count);
    case Glu.SWIGLU_OAI: return row<SwigluOai>(n, px, pg, py, count);
    case Glu.GEGLU_ERF: return row<GegluErf>(n, px, pg, py, count);
    case Glu.GEGLU_QUICK: return row<GegluQuick>(n, px, pg, py, count);
    default: unreachable();
  }
}

// All three have the type of n and no gaps inside a row.
function row<F>(n: Node, px: usize, pg: usize, py: usize, count: usize): void {
  const f = changetype<F>(<usize>0);
  const pp = paramPtr(n, 2);
  const type = n.type;
  if (type == Type.F32) {
    for (; count >= 4; count -= 4) {
      v128.store(py, f.apply(v128.load(px), v128.load(pg), pp));
      px += 16;
      pg += 16;
      py += 16;
    }
  }
  const step = floatBytes(type);
  while (count > 0) {
    const k = <i32>min<usize>(count, 4);
    storeLanes(type, py, step, k, f.apply(loadLanes(type, px, step, k), loadLanes(type, pg, step, k), pp));
    px += 4 * step;
    pg += 4 * step;
    py += 4 * step;
    count -= k;
  }
}
