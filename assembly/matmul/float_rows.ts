// F32, F16 and BF16 weights times an f32 column, row by row: for few columns.
//
// An element's sums run as floats.ts says. Sixteen-bit weights are read eight at a time as four i32 lanes, each one with an
// even k below one with an odd k, and the column is spread out to match:
//
//   k   0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15 | ...   f32, zeros behind the last
//
// F16 is read as f32 numbers that are 2^-112 times as large, which takes a multiplication and a mask; the column is 2^112
// times as large, so that products have the same bits. Rows that are not finite, and all rows where the column is too
// large for that, are converted to f32 first.

import { Type } from "../abi";
import { sumF32 } from "../math/dot";
import {
  F16_SHIFT,
  bf16OddMask,
  bf16x4ToF32,
  f16PickEven,
  f16PickOdd,
  f16Picked,
  f16RowToF32,
  f16RowFinite,
  f16ShiftMask,
} from "../math/f16";

// Scratch: the last k % 8 elements of a row and a column of F32 | two partial sums | the last k % 8 weights of 16 bits, and
// zeros | the column, spread out | a row of F16 as f32
const SUMS: usize = 64;
const TAIL: usize = SUMS + 32;
const SPREAD: usize = TAIL + 16;

/** Bytes of scratch for rows of k weights. */
export function rowBytesF(type: i32, k: i32): usize {
  return type == Type.F32 ? SUMS : SPREAD + 2 * spreadBytes(k);
}


@inline
function spreadBytes(k: i32): usize {
  return (<usize>((k + 7) >> 3)) << 5;
}

// Eight weights of 16 bits in v: even() and odd() of them as f32, with constants c and m.

@unmanaged
class RowF16 {

  @inline
  pickEven(): v128 {
    return f16PickEven();
  }


  @inline
  pickOdd(): v128 {
    return f16PickOdd();
  }


  @inline
  mask(): v128 {
    return f16ShiftMask();
  }


  @inline
  even(v: v128, pick: v128, m: v128): v128 {
    return f16Picked(v, pick, m);
  }


  @inline
  odd(v: v128, pick: v128, m: v128): v128 {
    return f16Picked(v, pick, m);
  }


  @inline
  seen(all: v128, v: v128): v128 {
    return v128.or(all, v);
  }
}


@unmanaged
class RowBF16 {

  @inline
  pickEven(): v128 {
    return i32x4.splat(0);
  }


  @inline
  pickOdd(): v128 {
    return i32x4.splat(0);
  }


  @inline
  mask(): v128 {
    return bf16OddMask();
  }


  @inline
  even(v: v128, pick: v128, m: v128): v128 {
    return bf16x4ToF32(v);
  }


  @inline
  odd(v: v128, pick: v128, m: v128): v128 {
    return v128.and(v, m);
  }


  @inline
  seen(all: v128, v: v128): v128 {
    return all;
  }
}

/** `rows` rows of k weights at pw, stride nbw, times the f32 column at px; results to py. pt: rowBytesF() of scratch. */
export function dotRowsF(
  type: i32,
  pw: usize,
  nbw: usize,
  rows: i32,
  k: i32,
  px: usize,
  pt: usize,
  py: usize,
): void {
  if (type == Type.F32) return rowsF32(pw, nbw, rows, k, px, pt, py);
  const fits = spreadColumn(px, k, type == Type.F16 ? F16_SHIFT : 1, pt + SPREAD);
  v128.store(pt, i32x4.splat(0), TAIL);
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw) {
    if (type == Type.BF16) sumsBF16(pw, k, pt);
    else if (!fits || !sumsF16(pw, k, pt)) {
      asF32(pw, k, px, pt, py);
      continue;
    }
    store<f32>(py, sumF32(v128.load(pt, SUMS)) + sumF32(v128.load(pt, SUMS + 16)));
  }
}

// The column at px, f times as large, to p. False when a result is infinite or no number.
function spreadColumn(px: usize, k: i32, f: f32, p: usize): bool {
  const s = f32x4.splat(f);
  let most = i32x4.splat(0);
  for (let left = k << 2, end = p + spreadBytes(k); p < end; p += 32, px += 32, left -= 32) {
    if (left < 32) {
      memory.fill(p, 0, 32);
      memory.copy(p, px, left);
      px = p;
    }
    const a = f32x4.mul(v128.load(px), s);
    const b = f32x4.mul(v128.load(px, 16), s);
    most = i32x4.max_u(most, i32x4.max_u(i32x4.shl(a, 1), i32x4.shl(b, 1)));
    v128.store(p, i8x16.shuffle(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27));
    v128.store(p, i8x16.shuffle(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31), 16);
  }
  return !v128.any_true(i32x4.ge_u(most, i32x4.splat(0xff000000)));
}

// False when the row is not finite: then the sums are wrong.
function sumsF16(p: usize, k: i32, pt: usize): bool {
  const all = sumsOf<RowF16>(p, k, pt);
  // all below 2: infinities and NaN have the upper bit of the exponent too
  if (!v128.any_true(v128.and(all, i32x4.splat(0x40004000)))) return true;
  return f16RowFinite(p, (<usize>(k & ~7)) << 1) && f16RowFinite(pt + TAIL, 16);
}

function sumsBF16(p: usize, k: i32, pt: usize): void {
  sumsOf<RowBF16>(p, k, pt);
}

// Partial sums of a row times the spread column to pt + SUMS: those of even k, then those of odd k. Returns all that is seen.
@inline
function sumsOf<T>(p: usize, k: i32, pt: usize): v128 {
  const t = changetype<T>(<usize>0);
  const c = t.pickEven();
  const d = t.pickOdd();
  const m = t.mask();
  let rest = (<usize>(k & 7)) << 1;
  let end = p + ((<usize>k) << 1) - rest;
  let px = pt + SPREAD;
  let a = f32x4.splat(0);
  let b = a;
  let all = a;
  while (true) {
    for (; p < end; p += 16, px += 32) {
      const v = v128.load(p);
      all = t.seen(all, v);
      a = f32x4.add(a, f32x4.mul(t.even(v, c, m), v128.load(px)));
      b = f32x4.add(b, f32x4.mul(t.odd(v, d, m), v128.load(px, 16)));
    }
    if (rest == 0) break;
    // once more, with what is left of the row and zeros
    memory.copy(pt + TAIL, p, rest);
    p = pt + TAIL;
    end = p + 16;
    rest = 0;
  }
  v128.store(pt, b, SUMS + 16);
  v128.store(pt, a, SUMS);
  return all;
}

// A row of F16 by way of f32.
function asF32(p: usize, k: i32, px: usize, pt: usize, py: usize): void {
  const row = pt + SPREAD + spreadBytes(k);
  f16RowToF32(p, row, k);
  rowsF32(row, 0, 1, k, px, pt, py);
}

function rowsF32(pw: usize, nbw: usize, rows: i32, k: i32, px: usize, pt: usize, py: usize): void {
  const rest = (<usize>(k & 7)) << 2;
  const k8 = ((<usize>k) << 2) - rest;
  memory.fill(pt, 0, SUMS);
  memory.copy(pt + 32, px + k8, rest);
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw) {
    store<f32>(py, dotRow(pw, k8, rest, px, pt));
  }
}

// Bytes in eights and the rest. pt holds the last column elements, padded with zeros, behind the place for those of the row.
@inline
function dotRow(p: usize, k8: usize, rest: usize, px: usize, pt: usize): f32 {
  let a = f32x4.splat(0);
  let b = a;
  for (const end = p + k8; p < end; p += 32, px += 32) {
    a = f32x4.add(a, f32x4.mul(v128.load(p), v128.load(px)));
    b = f32x4.add(b, f32x4.mul(v128.load(p, 16), v128.load(px, 16)));
  }
  if (rest != 0) {
    memory.copy(pt, p, rest);
    a = f32x4.add(a, f32x4.mul(v128.load(pt), v128.load(pt, 32)));
    b = f32x4.add(b, f32x4.mul(v128.load(pt, 16), v128.load(pt, 48)));
  }
  return sumF32(f32x4.add(a, b));
}
