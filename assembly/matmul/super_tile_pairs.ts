// Integer sums of super-blocks with many columns where sumsPairs(). Panels have their scales in pairs of i16 there, so that one
// operation joins the sums of pairs and scales them.

import { Type } from "../abi";
import { dotPairs, dotSigns, joinPairs, productPairs } from "../math/dot";
import { isWide } from "../quants/super";
import { GROUP, SUPER_TILE_BYTES } from "./super_panel";

/** The sums of tiles at py += those of a super-block; of a second group, `pair` bytes on unless 0, in the next tiles. */
export function sumPairs(
  type: i32,
  signs: bool,
  pw: usize,
  px: usize,
  pair: usize,
  ps: usize,
  py: usize,
): void {
  const wide = isWide(type);
  if (signs) sumSigns(wide, pw, px, ps, py);
  else if (pair != 0) sumTwo(wide, pw, px, pair, ps, py);
  else if (fitsPairs(type)) sumRuns(wide, pw, px, ps, py + 128);
  else sumOne(wide, pw, px, ps, py);
}

function sumSigns(wide: bool, pw: usize, px: usize, ps: usize, py: usize): void {
  sumOf(true, false, wide, pw, px, 0, ps, py);
}

function sumOne(wide: bool, pw: usize, px: usize, ps: usize, py: usize): void {
  sumOf(false, false, wide, pw, px, 0, ps, py);
}

function sumTwo(wide: bool, pw: usize, px: usize, pair: usize, ps: usize, py: usize): void {
  sumOf(false, true, wide, pw, px, pair, ps, py);
}

// Do the sums of all products that share a scale stay within i16?
@inline
function fitsPairs(type: i32): bool {
  return type == Type.Q2_K || type == Type.Q3_K || type == Type.Q4_K;
}

// Tile += sums of pairs times scales, a run or group at a time.
function sumRuns(wide: bool, pw: usize, px: usize, ps: usize, py: usize): void {
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
    const last = pw + step;
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      let t = v128.load32_splat(px);
      a0 = dotPairs(t, w0, a0);
      a1 = dotPairs(t, w1, a1);
      t = v128.load32_splat(px, 4);
      b0 = dotPairs(t, w0, b0);
      b1 = dotPairs(t, w1, b1);
      t = v128.load32_splat(px, 8);
      c0 = dotPairs(t, w0, c0);
      c1 = dotPairs(t, w1, c1);
      t = v128.load32_splat(px, 12);
      d0 = dotPairs(t, w0, d0);
      d1 = dotPairs(t, w1, d1);
      pw += 32;
      px += 16;
    } while (pw < last);
    const s0 = v128.load(ps);
    const s1 = v128.load(ps, 16);
    joinTwo(py, a0, a1, s0, s1);
    joinTwo(py + 32, b0, b1, s0, s1);
    joinTwo(py + 64, c0, c1, s0, s1);
    joinTwo(py + 96, d0, d1, s0, s1);
  }
}


@inline
function joinTwo(p: usize, a: v128, b: v128, s0: v128, s1: v128): void {
  const u = joinPairs(a, v128.load(p), s0);
  const v = joinPairs(b, v128.load(p, 16), s1);
  v128.store(p, v, 16);
  v128.store(p, u);
}

// acc + scales times two dots: as many as six bits leave room for, SIGNS one by one.
@inline
function macTwo(
  signs: bool,
  x: v128,
  y: v128,
  s: v128,
  t: v128,
  w: v128,
  v: v128,
  acc: v128,
  scales: v128,
): v128 {
  if (!signs) return joinPairs(dotPairs(y, v, productPairs(x, w)), acc, scales);
  return dotSigns(v, t, y, dotSigns(w, s, x, acc, scales), scales);
}

// Tiles += sums of a super-block, which stay in registers. `two`: also of a second group, `pair` bytes on.
@inline
function sumOf(
  signs: bool,
  two: bool,
  wide: bool,
  pw: usize,
  px: usize,
  pair: usize,
  ps: usize,
  py: usize,
): void {
  const next: usize = signs ? 32 : 16;
  const step: usize = wide ? 2 * GROUP : GROUP;
  const pt = py + SUPER_TILE_BYTES;
  let pz = px + pair;
  let a0 = v128.load(py, 128);
  let a1 = v128.load(py, 144);
  let b0 = v128.load(py, 160);
  let b1 = v128.load(py, 176);
  let c0 = v128.load(py, 192);
  let c1 = v128.load(py, 208);
  let d0 = v128.load(py, 224);
  let d1 = v128.load(py, 240);
  let e0 = two ? v128.load(pt, 128) : a0;
  let e1 = two ? v128.load(pt, 144) : a0;
  let f0 = two ? v128.load(pt, 160) : a0;
  let f1 = two ? v128.load(pt, 176) : a0;
  let g0 = two ? v128.load(pt, 192) : a0;
  let g1 = two ? v128.load(pt, 208) : a0;
  let h0 = two ? v128.load(pt, 224) : a0;
  let h1 = two ? v128.load(pt, 240) : a0;
  for (const end = pw + 16 * GROUP; pw < end; ps += 32) {
    const s0 = v128.load(ps);
    const s1 = v128.load(ps, 16);
    const last = pw + step;
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      const v0 = v128.load(pw, 32);
      const v1 = v128.load(pw, 48);
      let x = v128.load32_splat(px);
      let y = v128.load32_splat(px + next);
      let s = signs ? v128.load32_splat(px, 16) : x;
      let t = signs ? v128.load32_splat(px, 48) : y;
      a0 = macTwo(signs, x, y, s, t, w0, v0, a0, s0);
      a1 = macTwo(signs, x, y, s, t, w1, v1, a1, s1);
      x = v128.load32_splat(px, 4);
      y = v128.load32_splat(px + next, 4);
      s = signs ? v128.load32_splat(px, 20) : x;
      t = signs ? v128.load32_splat(px, 52) : y;
      b0 = macTwo(signs, x, y, s, t, w0, v0, b0, s0);
      b1 = macTwo(signs, x, y, s, t, w1, v1, b1, s1);
      x = v128.load32_splat(px, 8);
      y = v128.load32_splat(px + next, 8);
      s = signs ? v128.load32_splat(px, 24) : x;
      t = signs ? v128.load32_splat(px, 56) : y;
      c0 = macTwo(signs, x, y, s, t, w0, v0, c0, s0);
      c1 = macTwo(signs, x, y, s, t, w1, v1, c1, s1);
      x = v128.load32_splat(px, 12);
      y = v128.load32_splat(px + next, 12);
      s = signs ? v128.load32_splat(px, 28) : x;
      t = signs ? v128.load32_splat(px, 60) : y;
      d0 = macTwo(signs, x, y, s, t, w0, v0, d0, s0);
      d1 = macTwo(signs, x, y, s, t, w1, v1, d1, s1);
      if (two) {
        x = v128.load32_splat(pz);
        y = v128.load32_splat(pz + 16);
        e0 = macTwo(false, x, y, x, y, w0, v0, e0, s0);
        e1 = macTwo(false, x, y, x, y, w1, v1, e1, s1);
        x = v128.load32_splat(pz, 4);
        y = v128.load32_splat(pz + 16, 4);
        f0 = macTwo(false, x, y, x, y, w0, v0, f0, s0);
        f1 = macTwo(false, x, y, x, y, w1, v1, f1, s1);
        x = v128.load32_splat(pz, 8);
        y = v128.load32_splat(pz + 16, 8);
        g0 = macTwo(false, x, y, x, y, w0, v0, g0, s0);
        g1 = macTwo(false, x, y, x, y, w1, v1, g1, s1);
        x = v128.load32_splat(pz, 12);
        y = v128.load32_splat(pz + 16, 12);
        h0 = macTwo(false, x, y, x, y, w0, v0, h0, s0);
        h1 = macTwo(false, x, y, x, y, w1, v1, h1, s1);
        pz += 32;
      }
      pw += 64;
      px += 2 * next;
    } while (pw < last);
  }
  v128.store(py, a1, 144);
  v128.store(py, a0, 128);
  v128.store(py, b1, 176);
  v128.store(py, b0, 160);
  v128.store(py, c1, 208);
  v128.store(py, c0, 192);
  v128.store(py, d1, 240);
  v128.store(py, d0, 224);
  if (!two) return;
  v128.store(pt, e1, 144);
  v128.store(pt, e0, 128);
  v128.store(pt, f1, 176);
  v128.store(pt, f0, 160);
  v128.store(pt, g1, 208);
  v128.store(pt, g0, 192);
  v128.store(pt, h1, 240);
  v128.store(pt, h0, 224);
}
