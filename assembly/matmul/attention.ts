// The inner loops of attention over a tile of cells: scores, weights, and the weighted sum of values.
//
// Cells are counted from the start of the tile, [a, b); scores stand at p + 4 * cell. An element's sums run in the same
// order for one row and for two, and whatever the tile's bounds: a score is four partial sums over k modulo 4, a value
// is summed cell by cell.

import { expDown4 } from "../math/exp";
import { hmax } from "../math/round";
import { lane0, lane1, lane2, lane3 } from "./tile";

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

/** Turns scores into weights e^(z - top); returns their sum. */
export function weigh(p: usize, a: i32, b: i32, top: f32): f32 {
  const t = f32x4.splat(top);
  let sum = f32x4.splat(0);
  for (let c = a & ~3; c < b; c += 4) {
    const pc = p + ((<usize>c) << 2);
    const e = expDown4(f32x4.sub(v128.load(pc), t));
    v128.store(pc, e);
    sum = f32x4.add(sum, e);
  }
  return sumOf(sum);
}


@inline
function sumOf(x: v128): f32 {
  return f32x4.extract_lane(sums(x, x, x, x), 0);
}

/** acc += weight * v over the cells; v is not read where the weight is zero. `bytes` of an accumulator. */
export function accumulate(acc: usize, bytes: usize, p: usize, pv: usize, nbv: usize, a: i32, b: i32): void {
  for (let c = a & ~3; c < b; c += 4) {
    const w = v128.load(p + ((<usize>c) << 2));
    addQuad(acc, bytes, w, p + ((<usize>c) << 2), pv + <usize>c * nbv, nbv);
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
  for (let c = a & ~3; c < b; c += 4) {
    const o = (<usize>c) << 2;
    const w = v128.load(p + o);
    const x = v128.load(s + o);
    const v = pv + <usize>c * nbv;
    if (hasZero(w) || hasZero(x)) {
      addQuad(acc, bytes, w, p + o, v, nbv);
      addQuad(acd, bytes, x, s + o, v, nbv);
    } else addFourTwice(acc, acd, bytes, w, x, v, nbv);
  }
}


@inline
function hasZero(w: v128): bool {
  return v128.any_true(f32x4.eq(w, f32x4.splat(0)));
}

// Four cells whose weights w stand at p.
@inline
function addQuad(acc: usize, bytes: usize, w: v128, p: usize, v: usize, nbv: usize): void {
  if (hasZero(w)) addSome(acc, bytes, p, v, nbv);
  else addFour(acc, bytes, w, v, nbv);
}

function addSome(acc: usize, bytes: usize, p: usize, v: usize, nbv: usize): void {
  for (const stop = p + 16; p < stop; p += 4, v += nbv) {
    if (load<f32>(p) == 0) continue;
    const w = v128.load32_splat(p);
    for (let i: usize = 0; i < bytes; i += 16) {
      v128.store(acc + i, f32x4.add(v128.load(acc + i), f32x4.mul(w, v128.load(v + i))));
    }
  }
}

function addFour(acc: usize, bytes: usize, w: v128, v0: usize, nbv: usize): void {
  const w0 = lane0(w);
  const w1 = lane1(w);
  const w2 = lane2(w);
  const w3 = lane3(w);
  let v1 = v0 + nbv;
  let v2 = v1 + nbv;
  let v3 = v2 + nbv;
  for (const end = acc + bytes; acc < end; acc += 16) {
    let s = f32x4.add(v128.load(acc), f32x4.mul(w0, v128.load(v0)));
    s = f32x4.add(s, f32x4.mul(w1, v128.load(v1)));
    s = f32x4.add(s, f32x4.mul(w2, v128.load(v2)));
    v128.store(acc, f32x4.add(s, f32x4.mul(w3, v128.load(v3))));
    v0 += 16;
    v1 += 16;
    v2 += 16;
    v3 += 16;
  }
}

function addFourTwice(acc: usize, acd: usize, bytes: usize, w: v128, x: v128, v0: usize, nbv: usize): void {
  const w0 = lane0(w);
  const w1 = lane1(w);
  const w2 = lane2(w);
  const w3 = lane3(w);
  const x0 = lane0(x);
  const x1 = lane1(x);
  const x2 = lane2(x);
  const x3 = lane3(x);
  let v1 = v0 + nbv;
  let v2 = v1 + nbv;
  let v3 = v2 + nbv;
  for (const end = acc + bytes; acc < end; acc += 16) {
    let v = v128.load(v0);
    let s = f32x4.add(v128.load(acc), f32x4.mul(w0, v));
    let t = f32x4.add(v128.load(acd), f32x4.mul(x0, v));
    v = v128.load(v1);
    s = f32x4.add(s, f32x4.mul(w1, v));
    t = f32x4.add(t, f32x4.mul(x1, v));
    v = v128.load(v2);
    s = f32x4.add(s, f32x4.mul(w2, v));
    t = f32x4.add(t, f32x4.mul(x2, v));
    v = v128.load(v3);
    v128.store(acc, f32x4.add(s, f32x4.mul(w3, v)));
    v128.store(acd, f32x4.add(t, f32x4.mul(x3, v)));
    acd += 16;
    v0 += 16;
    v1 += 16;
    v2 += 16;
    v3 += 16;
  }
}
