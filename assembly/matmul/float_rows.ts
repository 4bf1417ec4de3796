// F32, F16 and BF16 weights times an f32 column, row by row: for few columns.
//
// An element's sums run as floats.ts says. Sixteen-bit weights are read eight at a time as four i32 lanes, each one with an
// even k below one with an odd k, and the column is spread out to match:
//
//   k   0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15 | ...   f32, -0 behind the last one
//
// F16 is read as f32 numbers that are 2^-112 times as large, which takes a multiplication and a mask; the column is 2^112
// times as large, so that products have the same bits. Rows that are not finite, and all rows where the column is too
// large for that, are converted to f32 first.

import { Type } from "../abi";
import { madd, sumF32 } from "../math/dot";
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

// Scratch: the last k % 16 elements of a row and of a column of F32 | sums: of even k, of odd k and both of the next eight; of
// F32 of four k, of the next four and so on | all weights of F16 that are seen | the last k % 16 weights of 16 bits, and zeros |
// the column, spread out | a row of F16 as f32
const SUMS: usize = 128;
const SEEN: usize = SUMS + 64;
const TAIL: usize = SEEN + 16;
const SPREAD: usize = TAIL + 48;

/** Bytes of scratch for rows of k weights. */
export function rowBytesF(type: i32, k: i32): usize {
  return type == Type.F32 ? SPREAD : SPREAD + 2 * spreadBytes(k);
}


@inline
function spreadBytes(k: i32): usize {
  return (<usize>((k + 15) >> 4)) << 6;
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
  keepTail(px, k, pt);
  const end = py + ((<usize>rows) << 2);
  if (type == Type.F32) {
    for (; py < end; py += 4, pw += nbw) store<f32>(py, dotF32(pw, k, px, pt));
    return;
  }
  const fits = spreadColumn(px, k, type == Type.F16 ? F16_SHIFT : 1, pt + SPREAD);
  for (; py < end; py += 4, pw += nbw) {
    store<f32>(py, type == Type.BF16 ? dotBF16(pw, k, pt) : rowF16(pw, k, fits, px, pt));
  }
}

// The column at px, f times as large, to p. False when a result is infinite or no number.
function spreadColumn(px: usize, k: i32, f: f32, p: usize): bool {
  const s = f32x4.splat(f);
  let most = i32x4.splat(0);
  for (let left = k << 2, end = p + spreadBytes(k); p < end; p += 32, px += 32, left -= 32) {
    if (left < 32) {
      v128.store(p, f32x4.splat(-0.0));
      v128.store(p, f32x4.splat(-0.0), 16);
      memory.copy(p, px, max(0, left));
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

// The last k % 16 of a column, and -0 behind them, with zeros for those of a row.
function keepTail(px: usize, k: i32, pt: usize): void {
  const rest = (<usize>(k & 15)) << 2;
  memory.fill(pt, 0, 64);
  for (let p = pt + 64; p < pt + 128; p += 16) v128.store(p, f32x4.splat(-0.0));
  memory.copy(pt + 64, px + ((<usize>k) << 2) - rest, rest);
  memory.fill(pt + TAIL, 0, 32);
}

// Is the row of F16 at p that was last seen finite? Else its sums are wrong.
function isSeenFinite(p: usize, k: i32, pt: usize): bool {
  // all below 2: infinities and NaN have the upper bit of the exponent too
  if (!v128.any_true(v128.and(v128.load(pt, SEEN), i32x4.splat(0x40004000)))) return true;
  return f16RowFinite(p, (<usize>(k & ~15)) << 1) && f16RowFinite(pt + TAIL, 32);
}

// A row of F16; by way of f32 where it or the column cannot be read as they are.
function rowF16(p: usize, k: i32, fits: bool, px: usize, pt: usize): f32 {
  if (fits) {
    const sum = dotF16(p, k, pt);
    if (isSeenFinite(p, k, pt)) return sum;
  }
  return throughF32(p, k, px, pt);
}

function dotF16(p: usize, k: i32, pt: usize): f32 {
  return dot16<RowF16>(p, k, pt);
}

function dotBF16(p: usize, k: i32, pt: usize): f32 {
  return dot16<RowBF16>(p, k, pt);
}

// A row times the spread column: the sum of even k and that of odd k.
@inline
function dot16<T>(p: usize, k: i32, pt: usize): f32 {
  const t = changetype<T>(<usize>0);
  const e = t.pickEven();
  const o = t.pickOdd();
  const m = t.mask();
  let rest = (<usize>(k & 15)) << 1;
  let end = p + ((<usize>k) << 1) - rest;
  let px = pt + SPREAD;
  let a = f32x4.splat(0);
  let b = a;
  let c = a;
  let d = a;
  let seen = a;
  while (true) {
    for (; p < end; p += 32, px += 64) {
      let v = v128.load(p);
      seen = t.seen(seen, v);
      a = madd(t.even(v, e, m), v128.load(px), a);
      b = madd(t.odd(v, o, m), v128.load(px, 16), b);
      v = v128.load(p, 16);
      seen = t.seen(seen, v);
      c = madd(t.even(v, e, m), v128.load(px, 32), c);
      d = madd(t.odd(v, o, m), v128.load(px, 48), d);
    }
    if (rest == 0) break;
    // once more, with what is left of the row and zeros
    memory.copy(pt + TAIL, p, rest);
    p = pt + TAIL;
    end = p + 32;
    rest = 0;
  }
  storeSums(pt, a, b, c, d);
  v128.store(pt, seen, SEEN);
  const even = f32x4.add(v128.load(pt, SUMS), v128.load(pt, SUMS + 32));
  return sumF32(even) + sumF32(f32x4.add(v128.load(pt, SUMS + 16), v128.load(pt, SUMS + 48)));
}

// In pairs, the upper one first, so that an engine may keep and store both at once.
@inline
function storeSums(pt: usize, a: v128, b: v128, c: v128, d: v128): void {
  v128.store(pt, b, SUMS + 16);
  v128.store(pt, a, SUMS);
  v128.store(pt, d, SUMS + 48);
  v128.store(pt, c, SUMS + 32);
}

// A row of F16 by way of f32.
function throughF32(p: usize, k: i32, px: usize, pt: usize): f32 {
  const row = pt + SPREAD + spreadBytes(k);
  f16RowToF32(p, row, k);
  return dotF32(row, k, px, pt);
}

function dotF32(p: usize, k: i32, px: usize, pt: usize): f32 {
  let rest = (<usize>(k & 15)) << 2;
  let end = p + ((<usize>k) << 2) - rest;
  let a = f32x4.splat(0);
  let b = a;
  let c = a;
  let d = a;
  while (true) {
    for (; p < end; p += 64, px += 64) {
      a = madd(v128.load(p), v128.load(px), a);
      b = madd(v128.load(p, 16), v128.load(px, 16), b);
      c = madd(v128.load(p, 32), v128.load(px, 32), c);
      d = madd(v128.load(p, 48), v128.load(px, 48), d);
    }
    if (rest == 0) break;
    memory.copy(pt, p, rest);
    p = pt;
    px = pt + 64;
    end = p + 64;
    rest = 0;
  }
  storeSums(pt, a, b, c, d);
  const low = f32x4.add(v128.load(pt, SUMS), v128.load(pt, SUMS + 32));
  return sumF32(f32x4.add(low, f32x4.add(v128.load(pt, SUMS + 16), v128.load(pt, SUMS + 48))));
}
