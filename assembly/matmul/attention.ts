// The inner loops of attention over a tile of cells: scores, weights, and the weighted sum of values.
//
// Cells are counted from the start of the tile, [a, b); scores stand at p + 4 * cell. Rows that go together follow each
// other in memory. An element's sums run in the same order for one row and for several, and whatever the tile's bounds: a
// score is eight partial sums over k modulo 8, added as i + (i + 4), then (0 + 2) + (1 + 3); a value is summed cell by cell.
//
// Cells are f32, or f16 as they stand in a cache. Those are read as f32 numbers that are 2^-112 times as large, which takes
// no more than a shift and a mask; the other factor is 2^112 times as large, so that products have the same bits. What is
// infinite or no number in f16 is read wrongly.

import { ATTN_WEIGHT_BYTES } from "../abi";
import { pairsVectors } from "../math/dot";
import { f16Shifted, f16ShiftMask } from "../math/f16";
import { expDown4, tanh4 } from "../math/exp";
import { hmax } from "../math/round";

/** Bytes of the partial sums of a score. */
export const PARTIAL: usize = 32;
/** Bytes of the weights of a row, with eight to spare. */
export const WEIGHTS: usize = ATTN_WEIGHT_BYTES;
/** Rows that go together at most, through cells of F16 and of F32: as many as registers hold beside what they need. */
export const ROWS_F16: i32 = 3;
export const ROWS_F32: i32 = 2;
/** Bytes from the partial sums of a row to those of the next: of ROWS_F16 rows ATTN_PARTIAL_BYTES. */
export const PARTIALS: usize = PARTIAL << 5;

// Eight elements of a cell at p: the first and the last four. m is mask().

@unmanaged
class CellF32 {

  @inline
  mask(): v128 {
    return i32x4.splat(0);
  }


  @inline
  bytes(): usize {
    return 4;
  }


  @inline
  low(p: usize, m: v128): v128 {
    return v128.load(p);
  }


  @inline
  high(p: usize, m: v128): v128 {
    return v128.load(p, 16);
  }


  @inline
  low2(p: usize, m: v128): v128 {
    return v128.load(p, 32);
  }


  @inline
  high2(p: usize, m: v128): v128 {
    return v128.load(p, 48);
  }
}


@unmanaged
class CellF16 {

  @inline
  mask(): v128 {
    return f16ShiftMask();
  }


  @inline
  bytes(): usize {
    return 2;
  }


  @inline
  low(p: usize, m: v128): v128 {
    return f16Shifted(v128.load16x4_s(p), m);
  }


  @inline
  high(p: usize, m: v128): v128 {
    return f16Shifted(v128.load16x4_s(p, 8), m);
  }


  @inline
  low2(p: usize, m: v128): v128 {
    return f16Shifted(v128.load16x4_s(p, 16), m);
  }


  @inline
  high2(p: usize, m: v128): v128 {
    return f16Shifted(v128.load16x4_s(p, 24), m);
  }
}

// Lane i is the sum of argument i, (0 + 2) + (1 + 3).
@inline
function sums(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab = f32x4.add(
    i8x16.shuffle(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
  const cd = f32x4.add(
    i8x16.shuffle(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
    i8x16.shuffle(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
  );
  return f32x4.add(
    i8x16.shuffle(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
    i8x16.shuffle(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31),
  );
}

/**
 * Products of `rows` rows of nbq bytes with n cells, nbk bytes apart at pk, in f16 or f32, to p and WEIGHTS bytes further for
 * each row. Writes up to three more. pt: PARTIALS bytes of scratch for each row.
 */
export function scores(
  half: bool,
  rows: i32,
  q: usize,
  nbq: usize,
  pk: usize,
  nbk: usize,
  n: i32,
  pt: usize,
  p: usize,
): void {
  if (ASC_FEATURE_RELAXED_SIMD && half) {
    if (rows == 1) oneF16(q, nbq, pk, nbk, n, pt);
    else if (rows == 2) twoF16(q, nbq, pk, nbk, n, pt);
    else threeF16(q, nbq, pk, nbk, n, pt);
  } else if (rows == 1) oneF32(q, nbq, pk, nbk, n, pt);
  else if (ASC_FEATURE_RELAXED_SIMD && pairsVectors()) twoF32(q, nbq, pk, nbk, n, pt);
  else return twoAtOnce(q, nbq, pk, nbk, n, p);
  for (; rows > 0; rows--, pt += PARTIALS, p += WEIGHTS) addPartials(pt, n, p);
}

function twoAtOnce(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, p: usize): void {
  partials<CellF32>(2, true, true, q, nbq, pk, nbk, n, p);
}

function oneF32(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, pt: usize): void {
  partials<CellF32>(1, true, false, q, nbq, pk, nbk, n, pt);
}

function twoF32(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, pt: usize): void {
  partials<CellF32>(2, true, false, q, nbq, pk, nbk, n, pt);
}

function oneF16(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, pt: usize): void {
  partials<CellF16>(1, false, false, q, nbq, pk, nbk, n, pt);
}

function twoF16(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, pt: usize): void {
  partials<CellF16>(2, false, false, q, nbq, pk, nbk, n, pt);
}

function threeF16(q: usize, nbq: usize, pk: usize, nbk: usize, n: i32, pt: usize): void {
  partials<CellF16>(3, false, false, q, nbq, pk, nbk, n, pt);
}

// One cell at a time, or two of up to two rows: of an odd number the last one twice. Partial sums to pt, or `added` ones of two
// cells and rows.
@inline
function partials<T>(
  rows: i32,
  two: bool,
  added: bool,
  q: usize,
  nbq: usize,
  pk: usize,
  nbk: usize,
  n: i32,
  pt: usize,
): void {
  const t = changetype<T>(<usize>0);
  const m = t.mask();
  const square = two && rows > 1;
  const step: usize = square ? 64 : 32;
  const stop = pk + <usize>n * nbk;
  for (; pk < stop; pk += two ? 2 * nbk : nbk, pt += added ? 8 : two ? 2 * PARTIAL : PARTIAL) {
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0; // of the third row, or of the first with the second cell
    let c1 = a0;
    let d0 = a0; // of the second row with the second cell
    let d1 = a0;
    let k = pk;
    let l = pk + nbk < stop ? pk + nbk : pk;
    let x = q;
    let y = q + nbq;
    let z = y + nbq;
    for (const end = y; x < end; x += step, k += (step >> 2) * t.bytes()) {
      let k0 = t.low(k, m);
      let k1 = t.high(k, m);
      let x0 = v128.load(x);
      let x1 = v128.load(x, 16);
      a0 = f32x4.add(a0, f32x4.mul(x0, k0));
      a1 = f32x4.add(a1, f32x4.mul(x1, k1));
      if (two) {
        c0 = f32x4.add(c0, f32x4.mul(x0, t.low(l, m)));
        c1 = f32x4.add(c1, f32x4.mul(x1, t.high(l, m)));
      }
      if (rows > 1) {
        x0 = v128.load(y);
        x1 = v128.load(y, 16);
        b0 = f32x4.add(b0, f32x4.mul(x0, k0));
        b1 = f32x4.add(b1, f32x4.mul(x1, k1));
      }
      if (square) {
        d0 = f32x4.add(d0, f32x4.mul(x0, t.low(l, m)));
        d1 = f32x4.add(d1, f32x4.mul(x1, t.high(l, m)));
        // the same for the next eight
        k0 = t.low2(k, m);
        k1 = t.high2(k, m);
        x0 = v128.load(x, 32);
        x1 = v128.load(x, 48);
        a0 = f32x4.add(a0, f32x4.mul(x0, k0));
        a1 = f32x4.add(a1, f32x4.mul(x1, k1));
        c0 = f32x4.add(c0, f32x4.mul(x0, t.low2(l, m)));
        c1 = f32x4.add(c1, f32x4.mul(x1, t.high2(l, m)));
        x0 = v128.load(y, 32);
        x1 = v128.load(y, 48);
        b0 = f32x4.add(b0, f32x4.mul(x0, k0));
        b1 = f32x4.add(b1, f32x4.mul(x1, k1));
        d0 = f32x4.add(d0, f32x4.mul(x0, t.low2(l, m)));
        d1 = f32x4.add(d1, f32x4.mul(x1, t.high2(l, m)));
      }
      if (rows > 2) {
        c0 = f32x4.add(c0, f32x4.mul(v128.load(z), k0));
        c1 = f32x4.add(c1, f32x4.mul(v128.load(z, 16), k1));
      }
      l += (step >> 2) * t.bytes();
      y += step;
      z += step;
    }
    if (added) {
      const s = sums(f32x4.add(a0, a1), f32x4.add(c0, c1), f32x4.add(b0, b1), f32x4.add(d0, d1));
      v128.store64_lane(pt, s, 0);
      v128.store64_lane(pt, s, 1, WEIGHTS);
      continue;
    }
    storePair(pt, a0, a1);
    if (two) storePair(pt + PARTIAL, c0, c1);
    if (rows > 1) storePair(pt + PARTIALS, b0, b1);
    if (square) storePair(pt + PARTIALS + PARTIAL, d0, d1);
    if (rows > 2) storePair(pt + 2 * PARTIALS, c0, c1);
  }
}

// The upper one first: so an engine may take both at once.
@inline
function storePair(p: usize, low: v128, high: v128): void {
  v128.store(p, high, 16);
  v128.store(p, low);
}

// Scores of n cells out of their partial sums at pt. Writes up to three more.
function addPartials(pt: usize, n: i32, p: usize): void {
  for (const end = p + ((<usize>n) << 2); p < end; p += 16, pt += 4 * PARTIAL) {
    v128.store(p, sums(both(pt), both(pt + PARTIAL), both(pt + 2 * PARTIAL), both(pt + 3 * PARTIAL)));
  }
}


@inline
function both(pt: usize): v128 {
  return f32x4.add(v128.load(pt), v128.load(pt, 16));
}

/** cap tanh(z) for cells [a, b). */
export function capScores(cap: f32, p: usize, a: i32, b: i32): void {
  const end = p + ((<usize>b) << 2);
  for (p += (<usize>a) << 2; p < end; p += 16) {
    v128.store(p, f32x4.mul(tanh4(v128.load(p)), f32x4.splat(cap)));
  }
}

/**
 * Largest score. NaN loses to numbers, and is the result only where there are none above -Infinity. Scores up to the
 * multiples of four around [a, b) are read.
 */
export function highest(p: usize, a: i32, b: i32): f32 {
  const end = p + ((<usize>b) << 2);
  p += (<usize>(a & ~3)) << 2;
  let m = f32x4.splat(-Infinity);
  for (let q = p; q < end; q += 16) m = f32x4.pmax(m, v128.load(q));
  const top = hmax(m);
  if (top != -Infinity) return top;
  for (; p < end; p += 16) m = f32x4.add(m, v128.load(p));
  return sumOf(m);
}

/**
 * Turns scores into weights e^(z - top), stored f times as large; returns their sum. Scores from the multiple of four below
 * a up to seven behind b are read, and must be -Infinity outside [a, b).
 */
export function weigh(p: usize, a: i32, b: i32, top: f32, f: f32): f32 {
  const t = f32x4.splat(top);
  const s = f32x4.splat(f);
  let even = f32x4.splat(0);
  let odd = even;
  const end = p + ((<usize>b) << 2);
  for (p += (<usize>(a & ~3)) << 2; p < end; p += 32) {
    const x = expDown4(f32x4.sub(v128.load(p), t));
    const y = expDown4(f32x4.sub(v128.load(p, 16), t));
    even = f32x4.add(even, x);
    odd = f32x4.add(odd, y);
    v128.store(p, f32x4.mul(y, s), 16);
    v128.store(p, f32x4.mul(x, s));
  }
  return sumOf(f32x4.add(even, odd));
}


@inline
function sumOf(x: v128): f32 {
  return f32x4.extract_lane(sums(x, x, x, x), 0);
}

/**
 * acc += weight * v over cells [a, b) of `rows` rows; v is not read where the weight is zero. `bytes` of an accumulator, a
 * multiple of 64, and of the weights.
 */
export function accumulate(
  half: bool,
  rows: i32,
  acc: usize,
  bytes: usize,
  p: usize,
  pv: usize,
  nbv: usize,
  a: i32,
  b: i32,
): void {
  const first = p + ((<usize>a) << 2);
  const last = p + ((<usize>b) << 2);
  const v = pv + <usize>a * nbv;
  let zero = false;
  for (let i = 0; i < rows; i++) {
    const o = <usize>i * WEIGHTS;
    zero = hasZero(first + o, last + o) || zero;
  }
  if (zero) rowByRow(half, rows, acc, bytes, first, last, v, nbv);
  else add(half, rows, acc, bytes, first, last, v, nbv);
}

// Leaves out what has no weight.
function rowByRow(
  half: bool,
  rows: i32,
  acc: usize,
  bytes: usize,
  p: usize,
  last: usize,
  v: usize,
  nbv: usize,
): void {
  for (; rows > 0; rows--, acc += bytes, p += WEIGHTS, last += WEIGHTS) {
    let x = v;
    for (let w = p; w < last; x += nbv) {
      let end = w;
      let next = x;
      for (; end < last && load<f32>(end) != 0; end += 4) next += nbv;
      if (w < end) add(half, 1, acc, bytes, w, end, x, nbv);
      w = end + 4;
      x = next;
    }
  }
}

function add(
  half: bool,
  rows: i32,
  acc: usize,
  bytes: usize,
  p: usize,
  last: usize,
  v: usize,
  nbv: usize,
): void {
  if (ASC_FEATURE_RELAXED_SIMD && half) {
    if (rows == 1) addToOneF16(acc, bytes, p, last, v, nbv);
    else if (rows == 2) addToTwoF16(acc, bytes, p, last, v, nbv);
    else addToThreeF16(acc, bytes, p, last, v, nbv);
  } else if (rows == 1) addToOneF32(acc, bytes, p, last, v, nbv);
  else addToTwoF32(acc, bytes, p, last, v, nbv);
}

// Whether one of the weights from p to `last` is zero.
function hasZero(p: usize, last: usize): bool {
  const zero = f32x4.splat(0);
  let z = zero;
  for (; p + 12 < last; p += 16) z = v128.or(z, f32x4.eq(v128.load(p), zero));
  for (; p < last; p += 4) z = v128.or(z, f32x4.eq(v128.load32_splat(p), zero));
  return v128.any_true(z);
}

function addToOneF32(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  sumUp<CellF32>(1, true, acc, bytes, p, last, v, nbv);
}

function addToTwoF32(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  sumUp<CellF32>(2, true, acc, bytes, p, last, v, nbv);
}

function addToOneF16(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  sumUp<CellF16>(1, true, acc, bytes, p, last, v, nbv);
}

function addToTwoF16(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  sumUp<CellF16>(2, true, acc, bytes, p, last, v, nbv);
}

function addToThreeF16(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  sumUp<CellF16>(3, false, acc, bytes, p, last, v, nbv);
}

// Cells with weights from p to `last`. Sixteen elements of up to two rows, or eight of three, stay in registers through
// all of them: `wide` or not.
@inline
function sumUp<T>(
  rows: i32,
  wide: bool,
  acc: usize,
  bytes: usize,
  p: usize,
  last: usize,
  v: usize,
  nbv: usize,
): void {
  const t = changetype<T>(<usize>0);
  const m = t.mask();
  const zero = f32x4.splat(0);
  for (const end = acc + bytes; acc < end; acc += wide ? 64 : 32, v += (wide ? 16 : 8) * t.bytes()) {
    const acb = acc + bytes;
    const acd = acb + bytes;
    let a0 = v128.load(acc);
    let a1 = v128.load(acc, 16);
    let b0 = rows > 1 ? v128.load(acb) : zero;
    let b1 = rows > 1 ? v128.load(acb, 16) : zero;
    // of the third row, or the next eight of the first and of the second
    let c0 = rows > 2 ? v128.load(acd) : wide ? v128.load(acc, 32) : zero;
    let c1 = rows > 2 ? v128.load(acd, 16) : wide ? v128.load(acc, 48) : zero;
    let d0 = wide && rows > 1 ? v128.load(acb, 32) : zero;
    let d1 = wide && rows > 1 ? v128.load(acb, 48) : zero;
    let x = v;
    for (let w = p; w < last; w += 4, x += nbv) {
      const f = v128.load32_splat(w);
      const g = rows > 1 ? v128.load32_splat(w, WEIGHTS) : zero;
      const h = rows > 2 ? v128.load32_splat(w, 2 * WEIGHTS) : f;
      let k0 = t.low(x, m);
      let k1 = t.high(x, m);
      a0 = f32x4.add(a0, f32x4.mul(f, k0));
      a1 = f32x4.add(a1, f32x4.mul(f, k1));
      if (rows > 1) {
        b0 = f32x4.add(b0, f32x4.mul(g, k0));
        b1 = f32x4.add(b1, f32x4.mul(g, k1));
      }
      if (wide) {
        k0 = t.low2(x, m);
        k1 = t.high2(x, m);
      }
      if (wide || rows > 2) {
        c0 = f32x4.add(c0, f32x4.mul(h, k0));
        c1 = f32x4.add(c1, f32x4.mul(h, k1));
      }
      if (wide && rows > 1) {
        d0 = f32x4.add(d0, f32x4.mul(g, k0));
        d1 = f32x4.add(d1, f32x4.mul(g, k1));
      }
    }
    storePair(acc, a0, a1);
    if (rows > 1) storePair(acb, b0, b1);
    if (rows > 2) storePair(acd, c0, c1);
    else if (wide) storePair(acc + 32, c0, c1);
    if (wide && rows > 1) storePair(acb + 32, d0, d1);
  }
}
