// The inner loop of super-blocks with many columns: a panel of eight rows times a group of columns
// (matmul/super_panel.ts).

import { dotq, sumsPairs } from "../math/dot";
import { isWide } from "../quants/super";
import { sumPairs } from "./super_tile_pairs";
import { GROUP, SUPER_TILE_BYTES, factorsAt, scalesAt, sumsAt, weightsAt } from "./super_panel";
import { lane0, lane1, lane2, lane3, scaled } from "./tile";

/** Bytes of the tiles of two groups. */
export const TILE_PAIR_BYTES: usize = 2 * SUPER_TILE_BYTES;

/** How the weights of a panel count. */
export const NO_WEIGHTS: i32 = 0;
export const ZERO_POINT: i32 = 1;
export const MINIMA: i32 = 2;

/**
 * Panel at pw times group at px, `nb` super-blocks of a type, to the tiles at py. `signs`: the group is SIGNS. `pair`,
 * unless 0: bytes to a second group, whose tiles follow; see pairsGroups() (matmul/spread.ts).
 */
export function superTile(
  type: i32,
  pw: usize,
  px: usize,
  pair: usize,
  nb: i32,
  signs: bool,
  weights: i32,
  py: usize,
): void {
  const wide = isWide(type);
  let ps = pw + scalesAt(nb);
  let pm = pw + weightsAt(nb);
  let pd = pw + factorsAt(nb);
  let pa = px + sumsAt(signs, nb);
  let pe = pa + ((<usize>nb) << 7);
  const second = py + SUPER_TILE_BYTES;
  clear(py);
  if (ASC_FEATURE_RELAXED_SIMD && pair != 0) clear(second);
  for (let b = 0; b < nb; b++) {
    startSums(pm, pa, pair, wide, py, weights);
    if (ASC_FEATURE_RELAXED_SIMD && sumsPairs()) sumPairs(type, signs, pw, px, pair, ps, py);
    else if (ASC_FEATURE_RELAXED_SIMD && pair != 0)
      sumPair(pw, px, px + pair, ps, wide, py + 128, second + 128);
    else if (ASC_FEATURE_RELAXED_SIMD && signs) sumSigns(pw, px, ps, wide, py + 128);
    else sumGroups(pw, px, ps, wide, py + 128);
    addTerms(py, pd, pe, weights == MINIMA);
    if (ASC_FEATURE_RELAXED_SIMD && pair != 0) addTerms(second, pd, pe + pair, weights == MINIMA);
    pw += 16 * GROUP;
    px += (ASC_FEATURE_RELAXED_SIMD && signs ? 16 : 8) * GROUP;
    ps += 512;
    pm += 256;
    pd += 64;
    pa += 128;
    pe += 16;
  }
}

// The tiles of sums of a super-block, before its products; `pair` as in superTile().
@inline
function startSums(pm: usize, pa: usize, pair: usize, wide: bool, py: usize, weights: i32): void {
  const second = py + SUPER_TILE_BYTES;
  if (weights != NO_WEIGHTS) {
    const bytes: usize = wide ? 64 : 128;
    const pt = py + (weights == MINIMA ? 256 : 128);
    if (ASC_FEATURE_RELAXED_SIMD && pair != 0) weighTwo(pm, pa, pair, bytes, pt);
    else weigh(pm, pa, bytes, pt);
  }
  if (weights == ZERO_POINT) return;
  clear(py + 128);
  if (ASC_FEATURE_RELAXED_SIMD && pair != 0) clear(second + 128);
}


@inline
function clear(p: usize): void {
  const z = i32x4.splat(0);
  store8(p, z, z, z, z, z, z, z, z);
}


@inline
function store8(p: usize, a: v128, b: v128, c: v128, d: v128, e: v128, f: v128, g: v128, h: v128): void {
  v128.store(p, a);
  v128.store(p, b, 16);
  v128.store(p, c, 32);
  v128.store(p, d, 48);
  v128.store(p, e, 64);
  v128.store(p, f, 80);
  v128.store(p, g, 96);
  v128.store(p, h, 112);
}

// Weights times `bytes` of activation sums.
function weigh(pm: usize, pa: usize, bytes: usize, py: usize): void {
  weighOf(false, pm, pa, 0, bytes, py);
}

// Of two groups.
function weighTwo(pm: usize, pa: usize, pair: usize, bytes: usize, py: usize): void {
  weighOf(true, pm, pa, pair, bytes, py);
}


@inline
function weighOf(two: bool, pm: usize, pa: usize, pair: usize, bytes: usize, py: usize): void {
  let a0 = i32x4.splat(0);
  let a1 = a0;
  let b0 = a0;
  let b1 = a0;
  let c0 = a0;
  let c1 = a0;
  let d0 = a0;
  let d1 = a0;
  let e0 = a0;
  let e1 = a0;
  let f0 = a0;
  let f1 = a0;
  let g0 = a0;
  let g1 = a0;
  let h0 = a0;
  let h1 = a0;
  for (const end = pa + bytes; pa < end; pa += 16, pm += 32) {
    const w0 = v128.load(pm);
    const w1 = v128.load(pm, 16);
    const s = v128.load(pa);
    let t = lane0(s);
    a0 = i32x4.add(a0, i32x4.dot_i16x8_s(w0, t));
    a1 = i32x4.add(a1, i32x4.dot_i16x8_s(w1, t));
    t = lane1(s);
    b0 = i32x4.add(b0, i32x4.dot_i16x8_s(w0, t));
    b1 = i32x4.add(b1, i32x4.dot_i16x8_s(w1, t));
    t = lane2(s);
    c0 = i32x4.add(c0, i32x4.dot_i16x8_s(w0, t));
    c1 = i32x4.add(c1, i32x4.dot_i16x8_s(w1, t));
    t = lane3(s);
    d0 = i32x4.add(d0, i32x4.dot_i16x8_s(w0, t));
    d1 = i32x4.add(d1, i32x4.dot_i16x8_s(w1, t));
    if (two) {
      const r = v128.load(pa + pair);
      t = lane0(r);
      e0 = i32x4.add(e0, i32x4.dot_i16x8_s(w0, t));
      e1 = i32x4.add(e1, i32x4.dot_i16x8_s(w1, t));
      t = lane1(r);
      f0 = i32x4.add(f0, i32x4.dot_i16x8_s(w0, t));
      f1 = i32x4.add(f1, i32x4.dot_i16x8_s(w1, t));
      t = lane2(r);
      g0 = i32x4.add(g0, i32x4.dot_i16x8_s(w0, t));
      g1 = i32x4.add(g1, i32x4.dot_i16x8_s(w1, t));
      t = lane3(r);
      h0 = i32x4.add(h0, i32x4.dot_i16x8_s(w0, t));
      h1 = i32x4.add(h1, i32x4.dot_i16x8_s(w1, t));
    }
  }
  store8(py, a0, a1, b0, b1, c0, c1, d0, d1);
  if (two) store8(py + SUPER_TILE_BYTES, e0, e1, f0, f1, g0, g1, h0, h1);
}

// acc + codes times activations; SIGNS: times magnitudes under the masks s.
@inline
function mac(signs: bool, x: v128, s: v128, w: v128, acc: v128): v128 {
  return signs ? dotq(v128.xor(w, s), x, acc) : dotq(x, w, acc);
}

// Tile += integer sums of each group times its scales. `pair`: a second group at pz, to the tile at pt.
@inline
function sumOf(
  signs: bool,
  pair: bool,
  pw: usize,
  px: usize,
  pz: usize,
  ps: usize,
  wide: bool,
  py: usize,
  pt: usize,
): void {
  const step: usize = wide ? 2 * GROUP : GROUP;
  for (const end = pw + 16 * GROUP; pw < end; ps += 32) {
    let a0 = i32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0;
    let c1 = a0;
    let d0 = a0;
    let d1 = a0;
    let e0 = a0;
    let e1 = a0;
    let f0 = a0;
    let f1 = a0;
    let g0 = a0;
    let g1 = a0;
    let h0 = a0;
    let h1 = a0;
    const last = pw + step;
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      const x = v128.load(px);
      const y = signs ? v128.load(px, 16) : x;
      let t = pair ? v128.load32_splat(px) : lane0(x);
      let s = signs ? lane0(y) : t;
      a0 = mac(signs, t, s, w0, a0);
      a1 = mac(signs, t, s, w1, a1);
      t = pair ? v128.load32_splat(px, 4) : lane1(x);
      s = signs ? lane1(y) : t;
      b0 = mac(signs, t, s, w0, b0);
      b1 = mac(signs, t, s, w1, b1);
      t = pair ? v128.load32_splat(px, 8) : lane2(x);
      s = signs ? lane2(y) : t;
      c0 = mac(signs, t, s, w0, c0);
      c1 = mac(signs, t, s, w1, c1);
      t = pair ? v128.load32_splat(px, 12) : lane3(x);
      s = signs ? lane3(y) : t;
      d0 = mac(signs, t, s, w0, d0);
      d1 = mac(signs, t, s, w1, d1);
      if (pair) {
        t = v128.load32_splat(pz);
        e0 = mac(false, t, t, w0, e0);
        e1 = mac(false, t, t, w1, e1);
        t = v128.load32_splat(pz, 4);
        f0 = mac(false, t, t, w0, f0);
        f1 = mac(false, t, t, w1, f1);
        t = v128.load32_splat(pz, 8);
        g0 = mac(false, t, t, w0, g0);
        g1 = mac(false, t, t, w1, g1);
        t = v128.load32_splat(pz, 12);
        h0 = mac(false, t, t, w0, h0);
        h1 = mac(false, t, t, w1, h1);
        pz += 16;
      }
      pw += 32;
      px += signs ? 32 : 16;
    } while (pw < last);
    const s0 = v128.load(ps);
    const s1 = v128.load(ps, 16);
    addTwo(py, a0, a1, s0, s1);
    addTwo(py + 32, b0, b1, s0, s1);
    addTwo(py + 64, c0, c1, s0, s1);
    addTwo(py + 96, d0, d1, s0, s1);
    if (!pair) continue;
    addTwo(pt, e0, e1, s0, s1);
    addTwo(pt + 32, f0, f1, s0, s1);
    addTwo(pt + 64, g0, g1, s0, s1);
    addTwo(pt + 96, h0, h1, s0, s1);
  }
}


@inline
function addTwo(p: usize, a: v128, b: v128, s0: v128, s1: v128): void {
  const u = i32x4.add(v128.load(p), i32x4.mul(a, s0));
  const v = i32x4.add(v128.load(p, 16), i32x4.mul(b, s1));
  v128.store(p, v, 16);
  v128.store(p, u);
}

function sumGroups(pw: usize, px: usize, ps: usize, wide: bool, py: usize): void {
  sumOf(false, false, pw, px, 0, ps, wide, py, 0);
}

function sumSigns(pw: usize, px: usize, ps: usize, wide: bool, py: usize): void {
  sumOf(true, false, pw, px, 0, ps, wide, py, 0);
}

// Of two groups at once: wider registers leave room for the sums of both.
function sumPair(pw: usize, px: usize, pz: usize, ps: usize, wide: bool, py: usize, pt: usize): void {
  sumOf(false, true, pw, px, pz, ps, wide, py, pt);
}

// Tile += integer sums * (d * activation scale), less those of minima * (dmin * activation scale).
function addTerms(py: usize, pd: usize, pe: usize, minima: bool): void {
  if (minima) termsOf(true, py, pd, pe);
  else termsOf(false, py, pd, pe);
}


@inline
function termsOf(minima: bool, py: usize, pd: usize, pe: usize): void {
  const w0 = v128.load(pd);
  const w1 = v128.load(pd, 16);
  const m0 = v128.load(pd, 32);
  const m1 = v128.load(pd, 48);
  for (const end = pe + 16; pe < end; pe += 4, py += 32) {
    const dx = v128.load32_splat(pe);
    let u = scaled(v128.load(py, 128), w0, dx);
    let v = scaled(v128.load(py, 144), w1, dx);
    if (minima) {
      u = f32x4.sub(u, scaled(v128.load(py, 256), m0, dx));
      v = f32x4.sub(v, scaled(v128.load(py, 272), m1, dx));
    }
    u = f32x4.add(v128.load(py), u);
    v = f32x4.add(v128.load(py, 16), v);
    v128.store(py, v, 16);
    v128.store(py, u);
  }
}
