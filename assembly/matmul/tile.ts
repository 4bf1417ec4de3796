// The inner loop of integer products with many columns: an unpacked panel of eight rows times a group of columns.

import { VECTORS, dotq } from "../math/dot";
import { MINS, SEEDED, SPLIT, codeBytes } from "./columns";

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

// The operand in 0..127 comes second: the code, or the split activation.
@inline
function mac(x: v128, w: v128, acc: v128, kind: i32): v128 {
  return kind == SPLIT ? dotq(w, x, acc) : dotq(x, w, acc);
}

// Eight rows of the tile += integer sums * scales.
@inline
function addScaled(p: usize, i: v128, j: v128, w0: v128, w1: v128, d: v128): void {
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

// SPLIT: lo - 128 * hi
@inline
function joined(lo: v128, hi: v128): v128 {
  return i32x4.sub(lo, i32x4.shl(hi, 7));
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
  if (kind == SPLIT) {
    addScaled(py, joined(a0, b0), joined(a1, b1), w0, w1, d);
    addScaled(py + 64, joined(c0, d0), joined(c1, d1), w0, w1, v128.load32_splat(pd, 8));
  } else if (kind == MINS) {
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

// Where the sum of a lane starts.
@inline
function seedAt(p: usize, kind: i32): v128 {
  return kind == MINS ? i32x4.splat(0) : v128.load32_splat(p);
}


@inline
function tileOf(kind: i32, pw: usize, px: usize, nb: i32, py: usize): void {
  for (let i: usize = 0; i < TILE_BYTES; i += 16) v128.store(py + i, i32x4.splat(0));
  const codes = codeBytes(SEEDED, nb);
  const minima = (<usize>nb) << 5;
  let pe = pw + 8 * codes;
  let pd = px + 4 * codes;
  const seeds = (<usize>nb) << 4;
  for (const end = pd + seeds; pd < end; pd += 16, pe += 32) {
    const ps = pd + seeds;
    let a0 = seedAt(ps, kind);
    let a1 = a0;
    let b0 = seedAt(ps + 4, kind);
    let b1 = b0;
    let c0 = seedAt(ps + 8, kind);
    let c1 = c0;
    let d0 = seedAt(ps + 12, kind);
    let d1 = d0;
    // short and rolled, the accumulators carried around the loop: longer code is spilled
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      const x = v128.load(px);
      let t = lane0(x);
      a0 = mac(t, w0, a0, kind);
      a1 = mac(t, w1, a1, kind);
      t = lane1(x);
      b0 = mac(t, w0, b0, kind);
      b1 = mac(t, w1, b1, kind);
      t = lane2(x);
      c0 = mac(t, w0, c0, kind);
      c1 = mac(t, w1, c1, kind);
      t = lane3(x);
      d0 = mac(t, w0, d0, kind);
      d1 = mac(t, w1, d1, kind);
      pw += 32;
      px += 16;
    } while (pw < last);
    addBlock(kind, py, a0, a1, b0, b1, c0, c1, d0, d1, pe, pe + minima, pd, ps);
  }
}

/**
 * Panel at pw (matmul/blocks.ts) times group at px (matmul/columns.ts), `nb` blocks, to the tile at py. With SPLIT,
 * lanes 0 and 2 of the tile are the two columns and lanes 1 and 3 stay zero.
 */
export function tile(kind: i32, pw: usize, px: usize, nb: i32, py: usize): void {
  if (kind == SPLIT) tileSplit(pw, px, nb, py);
  else if (kind == MINS) tileMins(pw, px, nb, py);
  else tileSeeded(pw, px, nb, py);
}

function tileSeeded(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SEEDED, pw, px, nb, py);
}

function tileSplit(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(SPLIT, pw, px, nb, py);
}

function tileMins(pw: usize, px: usize, nb: i32, py: usize): void {
  tileOf(MINS, pw, px, nb, py);
}

/** Columns of a group of tileSix(). */
export const SIX: i32 = 6;

/**
 * The same with six columns (expandSix() of matmul/columns.ts), SEEDED: twelve sums hide more of the time that a dot takes.
 * For engines whose dot is one instruction; where it is three they need registers that twelve sums leave none of.
 */
export function tileSix(pw: usize, px: usize, nb: i32, py: usize): void {
  sixesOf(false, pw, px, 0, nb, py);
}

/**
 * Two groups of six columns, `step` bytes apart, where pairsGroups() (matmul/spread.ts): twelve sums of eight rows fill wider
 * registers as twelve of four fill the others.
 */
export function tileTwelve(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  sixesOf(true, pw, px, step, nb, py);
}

// One group or, `pair`, two of them.
@inline
function sixesOf(pair: bool, pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  const bytes: usize = pair ? 384 : 192;
  for (let i: usize = 0; i < bytes; i += 16) v128.store(py + i, i32x4.splat(0));
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
    let g0 = pair ? v128.load32_splat(pt) : a0;
    let g1 = g0;
    let h0 = pair ? v128.load32_splat(pt, 4) : a0;
    let h1 = h0;
    let i0 = pair ? v128.load32_splat(pt, 8) : a0;
    let i1 = i0;
    let j0 = pair ? v128.load32_splat(pt, 12) : a0;
    let j1 = j0;
    let k0 = pair ? v128.load32_splat(pt, 16) : a0;
    let k1 = k0;
    let l0 = pair ? v128.load32_splat(pt, 20) : a0;
    let l1 = l0;
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      let t = v128.load32_splat(px);
      a0 = dotq(t, w0, a0);
      a1 = dotq(t, w1, a1);
      t = v128.load32_splat(px, 4);
      b0 = dotq(t, w0, b0);
      b1 = dotq(t, w1, b1);
      t = v128.load32_splat(px, 8);
      c0 = dotq(t, w0, c0);
      c1 = dotq(t, w1, c1);
      t = v128.load32_splat(px, 12);
      d0 = dotq(t, w0, d0);
      d1 = dotq(t, w1, d1);
      t = v128.load32_splat(px, 16);
      e0 = dotq(t, w0, e0);
      e1 = dotq(t, w1, e1);
      t = v128.load32_splat(px, 20);
      f0 = dotq(t, w0, f0);
      f1 = dotq(t, w1, f1);
      if (pair) {
        t = v128.load32_splat(pz);
        g0 = dotq(t, w0, g0);
        g1 = dotq(t, w1, g1);
        t = v128.load32_splat(pz, 4);
        h0 = dotq(t, w0, h0);
        h1 = dotq(t, w1, h1);
        t = v128.load32_splat(pz, 8);
        i0 = dotq(t, w0, i0);
        i1 = dotq(t, w1, i1);
        t = v128.load32_splat(pz, 12);
        j0 = dotq(t, w0, j0);
        j1 = dotq(t, w1, j1);
        t = v128.load32_splat(pz, 16);
        k0 = dotq(t, w0, k0);
        k1 = dotq(t, w1, k1);
        t = v128.load32_splat(pz, 20);
        l0 = dotq(t, w0, l0);
        l1 = dotq(t, w1, l1);
        pz += 24;
      }
      pw += 32;
      px += 24;
    } while (pw < last);
    const w0 = v128.load(pe);
    const w1 = v128.load(pe, 16);
    addScaled(py, a0, a1, w0, w1, v128.load32_splat(pd));
    addScaled(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4));
    addScaled(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8));
    addScaled(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12));
    addScaled(py + 128, e0, e1, w0, w1, v128.load32_splat(pd, 16));
    addScaled(py + 160, f0, f1, w0, w1, v128.load32_splat(pd, 20));
    if (!pair) continue;
    const pg = pd + step;
    addScaled(py + 192, g0, g1, w0, w1, v128.load32_splat(pg));
    addScaled(py + 224, h0, h1, w0, w1, v128.load32_splat(pg, 4));
    addScaled(py + 256, i0, i1, w0, w1, v128.load32_splat(pg, 8));
    addScaled(py + 288, j0, j1, w0, w1, v128.load32_splat(pg, 12));
    addScaled(py + 320, k0, k1, w0, w1, v128.load32_splat(pg, 16));
    addScaled(py + 352, l0, l1, w0, w1, v128.load32_splat(pg, 20));
  }
}
