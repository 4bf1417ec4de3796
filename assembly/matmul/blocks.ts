// Block types of 32 weights times Q8_0 activations: one row times one column, and rows unpacked to panels.
//
// An output element is the f32 sum, in block order, of integer sum * (weight scale * activation scale). One product and
// one addition per block, neither fused, so a panel, a row and any split of the work give the same bits.

import { Type } from "../abi";
import { VECTORS, dotq, storeTransposed, sumI32, sums4 } from "../math/dot";
import { Q4_0 } from "../quants/q4_0";
import { Q8_0 } from "../quants/q8_0";

/** Rows of a panel. */
export const PANEL_ROWS: i32 = 8;

/** Zero point of the codes of a type. */
export function zeroPoint(type: i32): i32 {
  return type == Type.Q8_0 ? changetype<Q8_0>(<usize>0).zero() : changetype<Q4_0>(<usize>0).zero();
}

/** True when the activations must be split for this type (matmul/columns.ts). */
export function isSplit(type: i32): bool {
  if (!ASC_FEATURE_RELAXED_SIMD) return false;
  return type == Type.Q8_0;
}

/** `rows` rows at pw, stride nbw, times one column of `nb` blocks; results to f32 at py. */
export function dotRows(
  type: i32,
  pw: usize,
  nbw: usize,
  rows: i32,
  nb: i32,
  pq: usize,
  pd: usize,
  ps: usize,
  py: usize,
): void {
  if (type == Type.Q8_0) rowsOf<Q8_0>(pw, nbw, rows, nb, pq, pd, ps, py);
  else rowsOf<Q4_0>(pw, nbw, rows, nb, pq, pd, ps, py);
}

function rowsOf<T>(
  pw: usize,
  nbw: usize,
  rows: i32,
  nb: i32,
  pq: usize,
  pd: usize,
  ps: usize,
  py: usize,
): void {
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw) {
    store<f32>(py, dotRow<T>(pw, nb, pq, pd, ps));
  }
}

// Codes of a block times activations at pq; four lanes to be added.
@inline
function partial<T>(p: usize, pq: usize, m: v128): v128 {
  const t = changetype<T>(<usize>0);
  const zero = i32x4.splat(0);
  if (ASC_FEATURE_RELAXED_SIMD) {
    const c0 = t.codes(p, 0, m);
    const c1 = t.codes(p, 1, m);
    if (t.signed()) {
      const lo = dotq(c1, v128.load(pq, 16), dotq(c0, v128.load(pq), zero));
      const hi = dotq(c1, v128.load(pq, 48), dotq(c0, v128.load(pq, 32), zero));
      return i32x4.sub(lo, i32x4.shl(hi, 7));
    }
    return dotq(v128.load(pq, 16), c1, dotq(v128.load(pq), c0, zero));
  } else {
    const a = dotq(v128.load(pq, 16), t.codes(p, 1, m), i32x4.dot_i16x8_s(v128.load(pq), t.codes(p, 0, m)));
    const b = dotq(
      v128.load(pq, 48),
      t.codes(p, 3, m),
      i32x4.dot_i16x8_s(v128.load(pq, 32), t.codes(p, 2, m)),
    );
    return i32x4.add(a, b);
  }
}

// One row times one column.
@inline
function dotRow<T>(p: usize, nb: i32, pq: usize, pd: usize, ps: usize): f32 {
  const t = changetype<T>(<usize>0);
  const bytes = t.bytes();
  const step: usize = ((<usize>VECTORS) << 4) << (ASC_FEATURE_RELAXED_SIMD && t.signed() ? 1 : 0);
  const m = t.mask();
  let sum: f32 = 0;
  const end = pd + ((<usize>nb) << 2);
  for (const full = pd + ((<usize>(nb & ~3)) << 2); pd < full; pd += 16) {
    let i = sums4(
      partial<T>(p, pq, m),
      partial<T>(p + bytes, pq + step, m),
      partial<T>(p + 2 * bytes, pq + 2 * step, m),
      partial<T>(p + 3 * bytes, pq + 3 * step, m),
    );
    if (t.zero() != 0) i = i32x4.add(i, v128.load(ps));
    const v = f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(t.scales(p), v128.load(pd)));
    sum = sum + f32x4.extract_lane(v, 0);
    sum = sum + f32x4.extract_lane(v, 1);
    sum = sum + f32x4.extract_lane(v, 2);
    sum = sum + f32x4.extract_lane(v, 3);
    p += 4 * bytes;
    pq += 4 * step;
    ps += 16;
  }
  for (; pd < end; pd += 4, ps += 4, p += bytes, pq += step) {
    const i = sumI32(partial<T>(p, pq, m)) + (t.zero() != 0 ? load<i32>(ps) : 0);
    sum = sum + <f32>i * (t.scale(p) * load<f32>(pd));
  }
  return sum;
}

/**
 * Unpacks eight rows of `nb` blocks: codes in dot order to pq, per four bytes of a row [row 0] .. [row 7]; scales to
 * pd, eight per block. Rows past `rows` repeat the last one.
 */
export function unpackPanel(
  type: i32,
  pw: usize,
  nbw: usize,
  rows: i32,
  nb: i32,
  pq: usize,
  pd: usize,
): void {
  for (let r = 0; r < PANEL_ROWS; r += 4) {
    const last = pw + <usize>(rows - 1) * nbw;
    const p0 = min(pw + <usize>r * nbw, last);
    const p1 = min(p0 + nbw, last);
    const p2 = min(p1 + nbw, last);
    const p3 = min(p2 + nbw, last);
    if (type == Type.Q8_0) unpackFour<Q8_0>(p0, p1, p2, p3, nb, pq, pd);
    else unpackFour<Q4_0>(p0, p1, p2, p3, nb, pq, pd);
    pq += 16;
    pd += 16;
  }
}

function unpackFour<T>(p0: usize, p1: usize, p2: usize, p3: usize, nb: i32, pq: usize, pd: usize): void {
  const t = changetype<T>(<usize>0);
  const m = t.mask();
  for (const end = pd + ((<usize>nb) << 5); pd < end; pd += 32) {
    store<f32>(pd, t.scale(p0));
    store<f32>(pd, t.scale(p1), 4);
    store<f32>(pd, t.scale(p2), 8);
    store<f32>(pd, t.scale(p3), 12);
    storeTransposed(pq, 32, t.codes(p0, 0, m), t.codes(p1, 0, m), t.codes(p2, 0, m), t.codes(p3, 0, m));
    storeTransposed(pq + 128, 32, t.codes(p0, 1, m), t.codes(p1, 1, m), t.codes(p2, 1, m), t.codes(p3, 1, m));
    if (!ASC_FEATURE_RELAXED_SIMD) {
      storeTransposed(
        pq + 256,
        32,
        t.codes(p0, 2, m),
        t.codes(p1, 2, m),
        t.codes(p2, 2, m),
        t.codes(p3, 2, m),
      );
      storeTransposed(
        pq + 384,
        32,
        t.codes(p0, 3, m),
        t.codes(p1, 3, m),
        t.codes(p2, 3, m),
        t.codes(p3, 3, m),
      );
    }
    pq += (<usize>VECTORS) << 7;
    p0 += t.bytes();
    p1 += t.bytes();
    p2 += t.bytes();
    p3 += t.bytes();
  }
}
