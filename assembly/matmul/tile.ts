// The inner loop of integer products with many columns: an unpacked panel of eight rows times a group of columns.

import { VECTORS, dotPairs, dotq, onesPairs, sumsPairs } from "../math/dot";
import { MINS, SEEDED, codeBytes } from "./columns";

// Bytes of a result tile: [4 lanes][8 rows] f32.
const TILE_BYTES: usize = 128;

/** Lane 0 of 32 bits in all four, and so on. */
@inline
export function lane0(v: v128): v128 {
  return i8x16.shuffle(v, v, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
}


@inline
export function lane1(v: v128): v128 {
  return i8x16.shuffle(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
}


@inline
export function lane2(v: v128): v128 {
  return i8x16.shuffle(v, v, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11);
}


@inline
export function lane3(v: v128): v128 {
  return i8x16.shuffle(v, v, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15);
}

// acc + codes times activations; `pairs`: in pairs.
@inline
function mac(pairs: bool, x: v128, w: v128, acc: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD && pairs) return dotPairs(x, w, acc);
  return dotq(x, w, acc);
}

/** Eight rows of the tile += integer sums * scales. */
@inline
export function addScaled(p: usize, i: v128, j: v128, w0: v128, w1: v128, d: v128): void {
  const u = f32x4.add(v128.load(p), scaled(i, w0, d));
  const v = f32x4.add(v128.load(p, 16), scaled(j, w1, d));
  v128.store(p, v, 16);
  v128.store(p, u);
}

/** Integer sums times scales of weights and activations. */
@inline
export function scaled(i: v128, w: v128, d: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(w, d));
}

// Eight rows of the tile += integer sums * scales + minima at pm * activation sum.
@inline
function addWithMins(p: usize, i: v128, j: v128, w0: v128, w1: v128, d: v128, pm: usize, s: v128): void {
  const u = f32x4.add(scaled(i, w0, d), f32x4.mul(v128.load(pm), s));
  const v = f32x4.add(scaled(j, w1, d), f32x4.mul(v128.load(pm, 16), s));
  const y = f32x4.add(v128.load(p), u);
  const z = f32x4.add(v128.load(p, 16), v);
  v128.store(p, z, 16);
  v128.store(p, y);
}

// The tile += a block: integer sums of four lanes, scales at pe, minima at pm, scales at pd and sums at ps of the lanes.
// Broadcast loads: shuffles would take turns with the products.
@inline
function addBlock(
  kind: i32,
  py: usize,
  a0: v128,
  a1: v128,
  b0: v128,
  b1: v128,
  c0: v128,
  c1: v128,
  d0: v128,
  d1: v128,
  pe: usize,
  pm: usize,
  pd: usize,
  ps: usize,
): void {
  const w0 = v128.load(pe);
  const w1 = v128.load(pe, 16);
  const d = v128.load32_splat(pd);
  if (kind == MINS) {
    addWithMins(py, a0, a1, w0, w1, d, pm, v128.load32_splat(ps));
    addWithMins(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4), pm, v128.load32_splat(ps, 4));
    addWithMins(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8), pm, v128.load32_splat(ps, 8));
    addWithMins(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12), pm, v128.load32_splat(ps, 12));
  } else {
    addScaled(py, a0, a1, w0, w1, d);
    addScaled(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4));
    addScaled(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8));
    addScaled(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12));
  }
}

// Where the sum of a lane starts; that of pairs has a place of its own, `seeds` bytes on.
@inline
function seedAt(kind: i32, pairs: bool, p: usize, seeds: usize): v128 {
  if (pairs) return v128.load32_splat(p + seeds);
  return kind == MINS ? i32x4.splat(0) : v128.load32_splat(p);
}

// The sum of a lane: of pairs joined, with what their start leaves of a zero point, `seeds` bytes further on.
@inline
function whole(pairs: bool, rests: bool, v: v128, p: usize, seeds: usize, ones: v128): v128 {
  if (!pairs) return v;
  const sum = i32x4.dot_i16x8_s(v, ones);
  return rests ? i32x4.add(sum, v128.load32_splat(p + 2 * seeds)) : sum;
}

// `pairs`: where sumsPairs(). `rests`: the group has some.
@inline
function tileOf(kind: i32, pairs: bool, rests: bool, pw: usize, px: usize, nb: i32, py: usize): void {
  for (let i: usize = 0; i < TILE_BYTES; i += 16) v128.store(py + i, i32x4.splat(0));
  const ones = pairs ? onesPairs() : i32x4.splat(0);
  const codes = codeBytes(SEEDED, nb);
  const minima = (<usize>nb) << 5;
  let pe = pw + 8 * codes;
  let pd = px + 4 * codes;
  const seeds = (<usize>nb) << 4;
  for (const end = pd + seeds; pd < end; pd += 16, pe += 32) {
    const ps = pd + seeds;
    let a0 = seedAt(kind, pairs, ps, seeds);
    let a1 = a0;
    let b0 = seedAt(kind, pairs, ps + 4, seeds);
    let b1 = b0;
    let c0 = seedAt(kind, pairs, ps + 8, seeds);
    let c1 = c0;
    let d0 = seedAt(kind, pairs, ps + 12, seeds);
    let d1 = d0;
    // short and rolled, the accumulators carried around the loop: longer code is spilled
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      const x = pairs ? w0 : v128.load(px);
      let t = pairs ? v128.load32_splat(px) : lane0(x);
      a0 = mac(pairs, t, w0, a0);
      a1 = mac(pairs, t, w1, a1);
      t = pairs ? v128.load32_splat(px, 4) : lane1(x);
      b0 = mac(pairs, t, w0, b0);
      b1 = mac(pairs, t, w1, b1);
      t = pairs ? v128.load32_splat(px, 8) : lane2(x);
      c0 = mac(pairs, t, w0, c0);
      c1 = mac(pairs, t, w1, c1);
      t = pairs ? v128.load32_splat(px, 12) : lane3(x);
      d0 = mac(pairs, t, w0, d0);
      d1 = mac(pairs, t, w1, d1);
      pw += 32;
      px += 16;
    } while (pw < last);
    a0 = whole(pairs, rests, a0, ps, seeds, ones);
    a1 = whole(pairs, rests, a1, ps, seeds, ones);
    b0 = whole(pairs, rests, b0, ps + 4, seeds, ones);
    b1 = whole(pairs, rests, b1, ps + 4, seeds, ones);
    c0 = whole(pairs, rests, c0, ps + 8, seeds, ones);
    c1 = whole(pairs, rests, c1, ps + 8, seeds, ones);
    d0 = whole(pairs, rests, d0, ps + 12, seeds, ones);
    d1 = whole(pairs, rests, d1, ps + 12, seeds, ones);
    addBlock(kind, py, a0, a1, b0, b1, c0, c1, d0, d1, pe, pe + minima, pd, ps);
  }
}

/**
 * Panel at pw (matmul/blocks.ts) times group at px (matmul/columns.ts), `nb` blocks, to the tile at py. `rests`: what the
 * zero point of sums of pairs leaves is not 0.
 */
export function tile(kind: i32, rests: bool, pw: usize, px: usize, nb: i32, py: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD && sumsPairs()) {
    if (kind == MINS) {
      if (rests) tileMinsRests(pw, px, nb, py);
      else tileMinsPairs(pw, px, nb, py);
    } else if (rests) tileRests(pw, px, nb, py);
    else tilePairs(pw, px, nb, py);
  } else if (kind == MINS) tileMins(pw, px, nb, py);
  else tileSeeded(pw, px, nb, py);
}

function tileSeeded(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, false, false, pw, px, nb, py);
}

function tileMins(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, false, false, pw, px, nb, py);
}

function tilePairs(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, true, false, pw, px, nb, py);
}

function tileRests(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, true, true, pw, px, nb, py);
}

function tileMinsPairs(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, true, false, pw, px, nb, py);
}

function tileMinsRests(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, true, true, pw, px, nb, py);
}

/** Columns of a group of tileSix(). */
export const SIX: i32 = 6;

/**
 * The same with six columns (expandSix() of matmul/columns.ts), SEEDED: twelve sums hide more of the time that a dot takes.
 * For engines whose dot is one instruction; sums of pairs need a register more.
 */
export function tileSix(pw: usize, px: usize, nb: i32, py: usize): void {
  sixesOf(false, false, false, pw, px, 0, nb, py);
}

/**
 * Two groups of six columns, `step` bytes apart, where pairsGroups() (matmul/spread.ts): twelve sums of eight rows fill wider
 * registers as twelve of four fill the others.
 */
export function tileTwelve(rests: bool, pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  if (!sumsPairs()) twelveSeeded(pw, px, step, nb, py);
  else if (rests) twelveRests(pw, px, step, nb, py);
  else twelvePairs(pw, px, step, nb, py);
}

function twelveSeeded(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(false, false, true, pw, px, step, nb, py);
}

function twelvePairs(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(true, false, true, pw, px, step, nb, py);
}

function twelveRests(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(true, true, true, pw, px, step, nb, py);
}

// One group or, `two`, both.
@inline
function sixesOf(
  pairs: bool,
  rests: bool,
  two: bool,
  pw: usize,
  px: usize,
  step: usize,
  nb: i32,
  py: usize,
): void {
  const bytes: usize = two ? 384 : 192;
  for (let i: usize = 0; i < bytes; i += 16) v128.store(py + i, i32x4.splat(0));
  const ones = pairs ? onesPairs() : i32x4.splat(0);
  const codes = codeBytes(SEEDED, nb);
  let pe = pw + 8 * codes;
  let pd = px + 6 * codes;
  let pz = px + step;
  const seeds = <usize>nb * 24;
  for (const end = pd + seeds; pd < end; pd += 24, pe += 32) {
    const ps = pd + seeds;
    const pt = ps + step;
    let a0 = seedAt(SEEDED, pairs, ps, seeds);
    let a1 = a0;
    let b0 = seedAt(SEEDED, pairs, ps + 4, seeds);
    let b1 = b0;
    let c0 = seedAt(SEEDED, pairs, ps + 8, seeds);
    let c1 = c0;
    let d0 = seedAt(SEEDED, pairs, ps + 12, seeds);
    let d1 = d0;
    let e0 = seedAt(SEEDED, pairs, ps + 16, seeds);
    let e1 = e0;
    let f0 = seedAt(SEEDED, pairs, ps + 20, seeds);
    let f1 = f0;
    let g0 = two ? seedAt(SEEDED, pairs, pt, seeds) : a0;
    let g1 = g0;
    let h0 = two ? seedAt(SEEDED, pairs, pt + 4, seeds) : a0;
    let h1 = h0;
    let i0 = two ? seedAt(SEEDED, pairs, pt + 8, seeds) : a0;
    let i1 = i0;
    let j0 = two ? seedAt(SEEDED, pairs, pt + 12, seeds) : a0;
    let j1 = j0;
    let k0 = two ? seedAt(SEEDED, pairs, pt + 16, seeds) : a0;
    let k1 = k0;
    let l0 = two ? seedAt(SEEDED, pairs, pt + 20, seeds) : a0;
    let l1 = l0;
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      let t = v128.load32_splat(px);
      a0 = mac(pairs, t, w0, a0);
      a1 = mac(pairs, t, w1, a1);
      t = v128.load32_splat(px, 4);
      b0 = mac(pairs, t, w0, b0);
      b1 = mac(pairs, t, w1, b1);
      t = v128.load32_splat(px, 8);
      c0 = mac(pairs, t, w0, c0);
      c1 = mac(pairs, t, w1, c1);
      t = v128.load32_splat(px, 12);
      d0 = mac(pairs, t, w0, d0);
      d1 = mac(pairs, t, w1, d1);
      t = v128.load32_splat(px, 16);
      e0 = mac(pairs, t, w0, e0);
      e1 = mac(pairs, t, w1, e1);
      t = v128.load32_splat(px, 20);
      f0 = mac(pairs, t, w0, f0);
      f1 = mac(pairs, t, w1, f1);
      if (two) {
        t = v128.load32_splat(pz);
        g0 = mac(pairs, t, w0, g0);
        g1 = mac(pairs, t, w1, g1);
        t = v128.load32_splat(pz, 4);
        h0 = mac(pairs, t, w0, h0);
        h1 = mac(pairs, t, w1, h1);
        t = v128.load32_splat(pz, 8);
        i0 = mac(pairs, t, w0, i0);
        i1 = mac(pairs, t, w1, i1);
        t = v128.load32_splat(pz, 12);
        j0 = mac(pairs, t, w0, j0);
        j1 = mac(pairs, t, w1, j1);
        t = v128.load32_splat(pz, 16);
        k0 = mac(pairs, t, w0, k0);
        k1 = mac(pairs, t, w1, k1);
        t = v128.load32_splat(pz, 20);
        l0 = mac(pairs, t, w0, l0);
        l1 = mac(pairs, t, w1, l1);
        pz += 24;
      }
      pw += 32;
      px += 24;
    } while (pw < last);
    const w0 = v128.load(pe);
    const w1 = v128.load(pe, 16);
    a0 = whole(pairs, rests, a0, ps, seeds, ones);
    a1 = whole(pairs, rests, a1, ps, seeds, ones);
    addScaled(py, a0, a1, w0, w1, v128.load32_splat(pd));
    b0 = whole(pairs, rests, b0, ps + 4, seeds, ones);
    b1 = whole(pairs, rests, b1, ps + 4, seeds, ones);
    addScaled(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4));
    c0 = whole(pairs, rests, c0, ps + 8, seeds, ones);
    c1 = whole(pairs, rests, c1, ps + 8, seeds, ones);
    addScaled(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8));
    d0 = whole(pairs, rests, d0, ps + 12, seeds, ones);
    d1 = whole(pairs, rests, d1, ps + 12, seeds, ones);
    addScaled(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12));
    e0 = whole(pairs, rests, e0, ps + 16, seeds, ones);
    e1 = whole(pairs, rests, e1, ps + 16, seeds, ones);
    addScaled(py + 128, e0, e1, w0, w1, v128.load32_splat(pd, 16));
    f0 = whole(pairs, rests, f0, ps + 20, seeds, ones);
    f1 = whole(pairs, rests, f1, ps + 20, seeds, ones);
    addScaled(py + 160, f0, f1, w0, w1, v128.load32_splat(pd, 20));
    if (!two) continue;
    const pg = pd + step;
    g0 = whole(pairs, rests, g0, pt, seeds, ones);
    g1 = whole(pairs, rests, g1, pt, seeds, ones);
    addScaled(py + 192, g0, g1, w0, w1, v128.load32_splat(pg));
    h0 = whole(pairs, rests, h0, pt + 4, seeds, ones);
    h1 = whole(pairs, rests, h1, pt + 4, seeds, ones);
    addScaled(py + 224, h0, h1, w0, w1, v128.load32_splat(pg, 4));
    i0 = whole(pairs, rests, i0, pt + 8, seeds, ones);
    i1 = whole(pairs, rests, i1, pt + 8, seeds, ones);
    addScaled(py + 256, i0, i1, w0, w1, v128.load32_splat(pg, 8));
    j0 = whole(pairs, rests, j0, pt + 12, seeds, ones);
    j1 = whole(pairs, rests, j1, pt + 12, seeds, ones);
    addScaled(py + 288, j0, j1, w0, w1, v128.load32_splat(pg, 12));
    k0 = whole(pairs, rests, k0, pt + 16, seeds, ones);
    k1 = whole(pairs, rests, k1, pt + 16, seeds, ones);
    addScaled(py + 320, k0, k1, w0, w1, v128.load32_splat(pg, 16));
    l0 = whole(pairs, rests, l0, pt + 20, seeds, ones);
    l1 = whole(pairs, rests, l1, pt + 20, seeds, ones);
    addScaled(py + 352, l0, l1, w0, w1, v128.load32_splat(pg, 20));
  }
}
