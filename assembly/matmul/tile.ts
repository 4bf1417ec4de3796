// The inner loop of integer products with many columns: an unpacked panel of eight rows times a group of columns.

import { VECTORS, dotPairs, dotq, negativePairs, onesPairs, sumsPairs } from "../math/dot";
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

// The sum of a lane: that of pairs joined. MINS: with what its start took away.
@inline
function whole(kind: i32, pairs: bool, v: v128, rest: v128, ones: v128): v128 {
  if (!pairs) return v;
  const sum = i32x4.dot_i16x8_s(v, ones);
  return kind == MINS ? i32x4.add(sum, rest) : sum;
}

// What joins pairs; of mirrored panels (matmul/blocks.ts) the sign turns round.
@inline
function joiner(pairs: bool, mirrored: bool): v128 {
  if (!pairs) return i32x4.splat(0);
  return mirrored ? negativePairs() : onesPairs();
}

// `pairs`: where sumsPairs().
@inline
function tileOf(kind: i32, pairs: bool, mirrored: bool, pw: usize, px: usize, nb: i32, py: usize): void {
  for (let i: usize = 0; i < TILE_BYTES; i += 16) v128.store(py + i, i32x4.splat(0));
  const ones = joiner(pairs, mirrored);
  const codes = codeBytes(SEEDED, nb);
  const minima = (<usize>nb) << 5;
  let pe = pw + 8 * codes;
  let pd = px + 4 * codes;
  const seeds = (<usize>nb) << 4;
  for (const end = pd + seeds; pd < end; pd += 16, pe += 32) {
    const ps = pd + seeds;
    const pt = pairs && kind == MINS ? ps + seeds : ps;
    const pr = pt + seeds;
    let a0 = pairs || kind != MINS ? v128.load32_splat(pt) : i32x4.splat(0);
    let a1 = a0;
    let b0 = pairs || kind != MINS ? v128.load32_splat(pt, 4) : i32x4.splat(0);
    let b1 = b0;
    let c0 = pairs || kind != MINS ? v128.load32_splat(pt, 8) : i32x4.splat(0);
    let c1 = c0;
    let d0 = pairs || kind != MINS ? v128.load32_splat(pt, 12) : i32x4.splat(0);
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
    let rest = pairs && kind == MINS ? v128.load32_splat(pr) : ones;
    a0 = whole(kind, pairs, a0, rest, ones);
    a1 = whole(kind, pairs, a1, rest, ones);
    rest = pairs && kind == MINS ? v128.load32_splat(pr, 4) : ones;
    b0 = whole(kind, pairs, b0, rest, ones);
    b1 = whole(kind, pairs, b1, rest, ones);
    rest = pairs && kind == MINS ? v128.load32_splat(pr, 8) : ones;
    c0 = whole(kind, pairs, c0, rest, ones);
    c1 = whole(kind, pairs, c1, rest, ones);
    rest = pairs && kind == MINS ? v128.load32_splat(pr, 12) : ones;
    d0 = whole(kind, pairs, d0, rest, ones);
    d1 = whole(kind, pairs, d1, rest, ones);
    addBlock(kind, py, a0, a1, b0, b1, c0, c1, d0, d1, pe, pe + minima, pd, ps);
  }
}

/**
 * Panel at pw (matmul/blocks.ts) times group at px (matmul/columns.ts), `nb` blocks, to the tile at py. `mirrored`: its codes
 * are.
 */
export function tile(kind: i32, mirrored: bool, pw: usize, px: usize, nb: i32, py: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD && sumsPairs()) {
    if (kind == MINS) tileMinsPairs(pw, px, nb, py);
    else tilePairs(mirrored, pw, px, nb, py);
  } else if (kind == MINS) tileMins(pw, px, nb, py);
  else tileSeeded(pw, px, nb, py);
}

function tileSeeded(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, false, false, pw, px, nb, py);
}

function tileMins(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, false, false, pw, px, nb, py);
}

function tilePairs(mirrored: bool, pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, true, mirrored, pw, px, nb, py);
}

function tileMinsPairs(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, true, false, pw, px, nb, py);
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
export function tileTwelve(mirrored: bool, pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  if (sumsPairs()) twelvePairs(mirrored, pw, px, step, nb, py);
  else twelveSeeded(pw, px, step, nb, py);
}

function twelveSeeded(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(false, false, true, pw, px, step, nb, py);
}

function twelvePairs(mirrored: bool, pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(true, mirrored, true, pw, px, step, nb, py);
}

// One group or, `two`, both.
@inline
function sixesOf(
  pairs: bool,
  mirrored: bool,
  two: bool,
  pw: usize,
  px: usize,
  step: usize,
  nb: i32,
  py: usize,
): void {
  const bytes: usize = two ? 384 : 192;
  for (let i: usize = 0; i < bytes; i += 16) v128.store(py + i, i32x4.splat(0));
  const ones = joiner(pairs, mirrored);
  const codes = codeBytes(SEEDED, nb);
  let pe = pw + 8 * codes;
  let pd = px + 6 * codes;
  let pz = px + step;
  const seeds = <usize>nb * 24;
  for (const end = pd + seeds; pd < end; pd += 24, pe += 32) {
    const ps = pd + seeds;
    const pt = ps + step;
    let a0 = v128.load32_splat(ps);
    let a1 = a0;
    let b0 = v128.load32_splat(ps, 4);
    let b1 = b0;
    let c0 = v128.load32_splat(ps, 8);
    let c1 = c0;
    let d0 = v128.load32_splat(ps, 12);
    let d1 = d0;
    let e0 = v128.load32_splat(ps, 16);
    let e1 = e0;
    let f0 = v128.load32_splat(ps, 20);
    let f1 = f0;
    let g0 = two ? v128.load32_splat(pt) : a0;
    let g1 = g0;
    let h0 = two ? v128.load32_splat(pt, 4) : a0;
    let h1 = h0;
    let i0 = two ? v128.load32_splat(pt, 8) : a0;
    let i1 = i0;
    let j0 = two ? v128.load32_splat(pt, 12) : a0;
    let j1 = j0;
    let k0 = two ? v128.load32_splat(pt, 16) : a0;
    let k1 = k0;
    let l0 = two ? v128.load32_splat(pt, 20) : a0;
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
    a0 = whole(SEEDED, pairs, a0, ones, ones);
    a1 = whole(SEEDED, pairs, a1, ones, ones);
    addScaled(py, a0, a1, w0, w1, v128.load32_splat(pd));
    b0 = whole(SEEDED, pairs, b0, ones, ones);
    b1 = whole(SEEDED, pairs, b1, ones, ones);
    addScaled(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4));
    c0 = whole(SEEDED, pairs, c0, ones, ones);
    c1 = whole(SEEDED, pairs, c1, ones, ones);
    addScaled(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8));
    d0 = whole(SEEDED, pairs, d0, ones, ones);
    d1 = whole(SEEDED, pairs, d1, ones, ones);
    addScaled(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12));
    e0 = whole(SEEDED, pairs, e0, ones, ones);
    e1 = whole(SEEDED, pairs, e1, ones, ones);
    addScaled(py + 128, e0, e1, w0, w1, v128.load32_splat(pd, 16));
    f0 = whole(SEEDED, pairs, f0, ones, ones);
    f1 = whole(SEEDED, pairs, f1, ones, ones);
    addScaled(py + 160, f0, f1, w0, w1, v128.load32_splat(pd, 20));
    if (!two) continue;
    const pg = pd + step;
    g0 = whole(SEEDED, pairs, g0, ones, ones);
    g1 = whole(SEEDED, pairs, g1, ones, ones);
    addScaled(py + 192, g0, g1, w0, w1, v128.load32_splat(pg));
    h0 = whole(SEEDED, pairs, h0, ones, ones);
    h1 = whole(SEEDED, pairs, h1, ones, ones);
    addScaled(py + 224, h0, h1, w0, w1, v128.load32_splat(pg, 4));
    i0 = whole(SEEDED, pairs, i0, ones, ones);
    i1 = whole(SEEDED, pairs, i1, ones, ones);
    addScaled(py + 256, i0, i1, w0, w1, v128.load32_splat(pg, 8));
    j0 = whole(SEEDED, pairs, j0, ones, ones);
    j1 = whole(SEEDED, pairs, j1, ones, ones);
    addScaled(py + 288, j0, j1, w0, w1, v128.load32_splat(pg, 12));
    k0 = whole(SEEDED, pairs, k0, ones, ones);
    k1 = whole(SEEDED, pairs, k1, ones, ones);
    addScaled(py + 320, k0, k1, w0, w1, v128.load32_splat(pg, 16));
    l0 = whole(SEEDED, pairs, l0, ones, ones);
    l1 = whole(SEEDED, pairs, l1, ones, ones);
    addScaled(py + 352, l0, l1, w0, w1, v128.load32_splat(pg, 20));
  }
}
