// The inner loop of integer products with many columns: an unpacked panel of eight rows times a group of columns.

import { VECTORS, dotq } from "../math/dot";

/** Bytes of a result tile: [4 lanes][8 rows] f32. */
export const TILE_BYTES: usize = 128;


@inline
function lane0(v: v128): v128 {
  return i8x16.shuffle(v, v, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
}


@inline
function lane1(v: v128): v128 {
  return i8x16.shuffle(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
}


@inline
function lane2(v: v128): v128 {
  return i8x16.shuffle(v, v, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11);
}


@inline
function lane3(v: v128): v128 {
  return i8x16.shuffle(v, v, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15);
}

// The operand in 0..127 comes second: the code, or the split activation.
@inline
function mac(x: v128, w: v128, acc: v128, split: bool): v128 {
  return split ? dotq(w, x, acc) : dotq(x, w, acc);
}

// tile[lane] += integer sums * scales, for eight rows.
@inline
function addTile(p: usize, i: v128, j: v128, w0: v128, w1: v128, d: v128): void {
  v128.store(p, f32x4.add(v128.load(p), f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(w0, d))));
  v128.store(p, f32x4.add(v128.load(p, 16), f32x4.mul(f32x4.convert_i32x4_s(j), f32x4.mul(w1, d))), 16);
}

/**
 * Panel at pw with scales at pe, group at px with scales pd and seeds ps, to the tile at py. With `split`, lanes 0 and
 * 2 of the tile are the two columns and lanes 1 and 3 are not written.
 */
@inline
function tileOf(
  pw: usize,
  pe: usize,
  px: usize,
  pd: usize,
  ps: usize,
  nb: i32,
  py: usize,
  split: bool,
): void {
  for (let i: usize = 0; i < TILE_BYTES; i += 16) v128.store(py + i, i32x4.splat(0));
  for (const end = pd + ((<usize>nb) << 4); pd < end; pd += 16, ps += 16, pe += 32) {
    const s = v128.load(ps);
    let a0 = lane0(s);
    let a1 = a0;
    let b0 = lane1(s);
    let b1 = b0;
    let c0 = lane2(s);
    let c1 = c0;
    let d0 = lane3(s);
    let d1 = d0;
    // short and rolled, the accumulators carried around the loop: longer code is spilled
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      const x = v128.load(px);
      let t = lane0(x);
      a0 = mac(t, w0, a0, split);
      a1 = mac(t, w1, a1, split);
      t = lane1(x);
      b0 = mac(t, w0, b0, split);
      b1 = mac(t, w1, b1, split);
      t = lane2(x);
      c0 = mac(t, w0, c0, split);
      c1 = mac(t, w1, c1, split);
      t = lane3(x);
      d0 = mac(t, w0, d0, split);
      d1 = mac(t, w1, d1, split);
      pw += 32;
      px += 16;
    } while (pw < last);
    const w0 = v128.load(pe);
    const w1 = v128.load(pe, 16);
    const d = v128.load(pd);
    if (split) {
      addTile(py, i32x4.sub(a0, i32x4.shl(b0, 7)), i32x4.sub(a1, i32x4.shl(b1, 7)), w0, w1, lane0(d));
      addTile(py + 64, i32x4.sub(c0, i32x4.shl(d0, 7)), i32x4.sub(c1, i32x4.shl(d1, 7)), w0, w1, lane2(d));
    } else {
      addTile(py, a0, a1, w0, w1, lane0(d));
      addTile(py + 32, b0, b1, w0, w1, lane1(d));
      addTile(py + 64, c0, c1, w0, w1, lane2(d));
      addTile(py + 96, d0, d1, w0, w1, lane3(d));
    }
  }
}

/** Eight rows times four columns. */
export function tile(pw: usize, pe: usize, px: usize, pd: usize, ps: usize, nb: i32, py: usize): void {
  tileOf(pw, pe, px, pd, ps, nb, py, false);
}

/** Eight rows times two split columns: lanes 0 and 2 of the tile. */
export function tileSplit(pw: usize, pe: usize, px: usize, pd: usize, ps: usize, nb: i32, py: usize): void {
  tileOf(pw, pe, px, pd, ps, nb, py, true);
}
