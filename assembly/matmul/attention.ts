// The inner loops of attention over a tile of cells: scores, weights, and the weighted sum of values.
//
// Cells are counted from the start of the tile, [a, b); scores stand at p + 4 * cell. An element's sums run in the same
// order for one row and for two, and whatever the tile's bounds: a score is four partial sums over k modulo 4, a value
// is summed cell by cell.

import { expDown4 } from "../math/exp";
import { hmax } from "../math/round";

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

// One row of nbq bytes times four.
@inline
function dots(q: usize, nbq: usize, k0: usize, k1: usize, k2: usize, k3: usize): v128 {
  let a = f32x4.splat(0);
  let b = a;
  let c = a;
  let d = a;
  for (const end = q + nbq; q < end; q += 16) {
    const x = v128.load(q);
    a = f32x4.add(a, f32x4.mul(x, v128.load(k0)));
    b = f32x4.add(b, f32x4.mul(x, v128.load(k1)));
    c = f32x4.add(c, f32x4.mul(x, v128.load(k2)));
    d = f32x4.add(d, f32x4.mul(x, v128.load(k3)));
    k0 += 16;
    k1 += 16;
    k2 += 16;
    k3 += 16;
  }
  return sums(a, b, c, d);
}

/** Products of one row of nbq bytes with the rows of cells [a, b), nbk apart. Writes up to three more scores. */
export function scores(q: usize, nbq: usize, pk: usize, nbk: usize, a: i32, b: i32, p: usize): void {
  const last = pk + <usize>(b - 1) * nbk;
  for (let c = a; c < b; c += 4) {
    const k0 = pk + <usize>c * nbk;
    const k1 = min(k0 + nbk, last);
    const k2 = min(k1 + nbk, last);
    v128.store(p + ((<usize>c) << 2), dots(q, nbq, k0, k1, k2, min(k2 + nbk, last)));
  }
}

/** As scores(), for two rows at once. */
export function scoresOfTwo(
  q: usize,
  r: usize,
  nbq: usize,
  pk: usize,
  nbk: usize,
  a: i32,
  b: i32,
  p: usize,
  s: usize,
): void {
  const last = pk + <usize>(b - 1) * nbk;
  for (let c = a; c < b; c += 4) {
    const k0 = pk + <usize>c * nbk;
    const k1 = min(k0 + nbk, last);
    const k2 = min(k1 + nbk, last);
    const o = (<usize>c) << 2;
    dotsOfTwo(q, r, nbq, k0, k1, k2, min(k2 + nbk, last), p + o, s + o);
  }
}


@inline
function dotsOfTwo(
  q: usize,
  r: usize,
  nbq: usize,
  k0: usize,
  k1: usize,
  k2: usize,
  k3: usize,
  p: usize,
  s: usize,
): void {
  let a = f32x4.splat(0);
  let b = a;
  let c = a;
  let d = a;
  let e = a;
  let f = a;
  let g = a;
  let h = a;
  for (const end = q + nbq; q < end; q += 16) {
    const x = v128.load(q);
    const y = v128.load(r);
    let k = v128.load(k0);
    a = f32x4.add(a, f32x4.mul(x, k));
    e = f32x4.add(e, f32x4.mul(y, k));
    k = v128.load(k1);
    b = f32x4.add(b, f32x4.mul(x, k));
    f = f32x4.add(f, f32x4.mul(y, k));
    k = v128.load(k2);
    c = f32x4.add(c, f32x4.mul(x, k));
    g = f32x4.add(g, f32x4.mul(y, k));
    k = v128.load(k3);
    d = f32x4.add(d, f32x4.mul(x, k));
    h = f32x4.add(h, f32x4.mul(y, k));
    r += 16;
    k0 += 16;
    k1 += 16;
    k2 += 16;
    k3 += 16;
  }
  v128.store(p, sums(a, b, c, d));
  v128.store(s, sums(e, f, g, h));
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
 * Turns scores into weights e^(z - top); returns their sum. Scores from the multiple of four below a up to seven behind
 * b are read, and must be -Infinity outside [a, b).
 */
export function weigh(p: usize, a: i32, b: i32, top: f32): f32 {
  const t = f32x4.splat(top);
  let sum = f32x4.splat(0);
  const end = p + ((<usize>b) << 2);
  for (p += (<usize>(a & ~3)) << 2; p < end; p += 32) {
    const e = expDown4(f32x4.sub(v128.load(p), t));
    const f = expDown4(f32x4.sub(v128.load(p, 16), t));
    v128.store(p, e);
    v128.store(p, f, 16);
    sum = f32x4.add(f32x4.add(sum, e), f);
  }
  return sumOf(sum);
}


@inline
function sumOf(x: v128): f32 {
  return f32x4.extract_lane(sums(x, x, x, x), 0);
}

/**
 * acc += weight * v over cells [a, b); v is not read where the weight is zero. `bytes` of an accumulator, a multiple of
 * 64.
 */
export function accumulate(acc: usize, bytes: usize, p: usize, pv: usize, nbv: usize, a: i32, b: i32): void {
  for (let c = a; c < b;) {
    const first = c;
    while (c < b && load<f32>(p + ((<usize>c) << 2)) != 0) c++;
    const pw = p + ((<usize>first) << 2);
    if (c > first) addRun(acc, bytes, pw, p + ((<usize>c) << 2), pv + <usize>first * nbv, nbv);
    c++; // where it stands at a zero
  }
}

/** As accumulate(), for two rows at once. */
export function accumulateTwo(
  acc: usize,
  acd: usize,
  bytes: usize,
  p: usize,
  s: usize,
  pv: usize,
  nbv: usize,
  a: i32,
  b: i32,
): void {
  const o = (<usize>a) << 2;
  const n = (<usize>b) << 2;
  if (hasZero(p + o, p + n) || hasZero(s + o, s + n)) {
    accumulate(acc, bytes, p, pv, nbv, a, b);
    accumulate(acd, bytes, s, pv, nbv, a, b);
  } else addRunToTwo(acc, acd, bytes, p + o, s + o, p + n, pv + <usize>a * nbv, nbv);
}

// Whether one of the weights from p to `last` is zero.
function hasZero(p: usize, last: usize): bool {
  const zero = f32x4.splat(0);
  let z = zero;
  for (; p + 12 < last; p += 16) z = v128.or(z, f32x4.eq(v128.load(p), zero));
  for (; p < last; p += 4) z = v128.or(z, f32x4.eq(v128.load32_splat(p), zero));
  return v128.any_true(z);
}

// Cells with weights from p to `last`. 16 elements at a time stay in registers through all of them.
function addRun(acc: usize, bytes: usize, p: usize, last: usize, v: usize, nbv: usize): void {
  for (const end = acc + bytes; acc < end; acc += 64, v += 64) {
    let a = v128.load(acc);
    let b = v128.load(acc, 16);
    let c = v128.load(acc, 32);
    let d = v128.load(acc, 48);
    let x = v;
    for (let w = p; w < last; w += 4, x += nbv) {
      const f = v128.load32_splat(w);
      a = f32x4.add(a, f32x4.mul(f, v128.load(x)));
      b = f32x4.add(b, f32x4.mul(f, v128.load(x, 16)));
      c = f32x4.add(c, f32x4.mul(f, v128.load(x, 32)));
      d = f32x4.add(d, f32x4.mul(f, v128.load(x, 48)));
    }
    v128.store(acc, a);
    v128.store(acc, b, 16);
    v128.store(acc, c, 32);
    v128.store(acc, d, 48);
  }
}

// As addRun(), for two rows; the weights of the other start at s.
function addRunToTwo(
  acc: usize,
  acd: usize,
  bytes: usize,
  p: usize,
  s: usize,
  last: usize,
  v: usize,
  nbv: usize,
): void {
  for (const end = acc + bytes; acc < end; acc += 64, acd += 64, v += 64) {
    let a = v128.load(acc);
    let b = v128.load(acc, 16);
    let c = v128.load(acc, 32);
    let d = v128.load(acc, 48);
    let e = v128.load(acd);
    let f = v128.load(acd, 16);
    let g = v128.load(acd, 32);
    let h = v128.load(acd, 48);
    let x = v;
    let r = s;
    for (let w = p; w < last; w += 4, r += 4, x += nbv) {
      const y = v128.load32_splat(w);
      const z = v128.load32_splat(r);
      let k = v128.load(x);
      a = f32x4.add(a, f32x4.mul(y, k));
      e = f32x4.add(e, f32x4.mul(z, k));
      k = v128.load(x, 16);
      b = f32x4.add(b, f32x4.mul(y, k));
      f = f32x4.add(f, f32x4.mul(z, k));
      k = v128.load(x, 32);
      c = f32x4.add(c, f32x4.mul(y, k));
      g = f32x4.add(g, f32x4.mul(z, k));
      k = v128.load(x, 48);
      d = f32x4.add(d, f32x4.mul(y, k));
      h = f32x4.add(h, f32x4.mul(z, k));
    }
    v128.store(acc, a);
    v128.store(acc, b, 16);
    v128.store(acc, c, 32);
    v128.store(acc, d, 48);
    v128.store(acd, e);
    v128.store(acd, f, 16);
    v128.store(acd, g, 32);
    v128.store(acd, h, 48);
  }
}
