// The inner loop of signed codes of blocks of 32 with many columns: a panel of eight rows times groups that are SIGNS
// (matmul/columns.ts).

import { VECTORS, dotSigns, dotq, onesPairs, sumsPairs } from "../math/dot";
import { SEEDED, SIGNS, codeBytes } from "./columns";
import { addScaled } from "./tile";

// acc + codes times magnitudes x under the masks s.
@inline
function mac(pairs: bool, x: v128, s: v128, w: v128, acc: v128, ones: v128): v128 {
  return pairs ? dotSigns(w, s, x, acc, ones) : dotq(v128.xor(w, s), x, acc);
}

/** Panel at pw (matmul/blocks.ts) times the group at px, `nb` blocks, to the tile at py. */
export function tileSigns(pw: usize, px: usize, nb: i32, py: usize): void {
  if (sumsPairs()) signsPairs(pw, px, nb, py);
  else signsFours(pw, px, nb, py);
}

function signsFours(pw: usize, px: usize, nb: i32, py: usize): void {
  signsOf(false, false, pw, px, 0, nb, py);
}

function signsPairs(pw: usize, px: usize, nb: i32, py: usize): void {
  signsOf(true, false, pw, px, 0, nb, py);
}

/** The same of two groups, `step` bytes apart, where sumsPairs() and pairsGroups() (matmul/spread.ts). */
export function tileSignsTwo(pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  signsOf(true, true, pw, px, step, nb, py);
}

// `pairs`: where sumsPairs(). One group or, `two`, both.
@inline
function signsOf(pairs: bool, two: bool, pw: usize, px: usize, step: usize, nb: i32, py: usize): void {
  const bytes: usize = two ? 256 : 128;
  for (let i: usize = 0; i < bytes; i += 16) v128.store(py + i, i32x4.splat(0));
  const ones = pairs ? onesPairs() : i32x4.splat(0);
  let pe = pw + 8 * codeBytes(SEEDED, nb);
  let pd = px + 4 * codeBytes(SIGNS, nb);
  let pz = px + step;
  const seeds = (<usize>nb) << 4;
  for (const end = pd + seeds; pd < end; pd += 16, pe += 32) {
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
    let e0 = two ? v128.load32_splat(pt) : a0;
    let e1 = e0;
    let f0 = two ? v128.load32_splat(pt, 4) : a0;
    let f1 = f0;
    let g0 = two ? v128.load32_splat(pt, 8) : a0;
    let g1 = g0;
    let h0 = two ? v128.load32_splat(pt, 12) : a0;
    let h1 = h0;
    const last = pw + ((<usize>VECTORS) << 7);
    do {
      const w0 = v128.load(pw);
      const w1 = v128.load(pw, 16);
      let x = v128.load32_splat(px);
      let s = v128.load32_splat(px, 16);
      a0 = mac(pairs, x, s, w0, a0, ones);
      a1 = mac(pairs, x, s, w1, a1, ones);
      x = v128.load32_splat(px, 4);
      s = v128.load32_splat(px, 20);
      b0 = mac(pairs, x, s, w0, b0, ones);
      b1 = mac(pairs, x, s, w1, b1, ones);
      x = v128.load32_splat(px, 8);
      s = v128.load32_splat(px, 24);
      c0 = mac(pairs, x, s, w0, c0, ones);
      c1 = mac(pairs, x, s, w1, c1, ones);
      x = v128.load32_splat(px, 12);
      s = v128.load32_splat(px, 28);
      d0 = mac(pairs, x, s, w0, d0, ones);
      d1 = mac(pairs, x, s, w1, d1, ones);
      if (two) {
        x = v128.load32_splat(pz);
        s = v128.load32_splat(pz, 16);
        e0 = mac(pairs, x, s, w0, e0, ones);
        e1 = mac(pairs, x, s, w1, e1, ones);
        x = v128.load32_splat(pz, 4);
        s = v128.load32_splat(pz, 20);
        f0 = mac(pairs, x, s, w0, f0, ones);
        f1 = mac(pairs, x, s, w1, f1, ones);
        x = v128.load32_splat(pz, 8);
        s = v128.load32_splat(pz, 24);
        g0 = mac(pairs, x, s, w0, g0, ones);
        g1 = mac(pairs, x, s, w1, g1, ones);
        x = v128.load32_splat(pz, 12);
        s = v128.load32_splat(pz, 28);
        h0 = mac(pairs, x, s, w0, h0, ones);
        h1 = mac(pairs, x, s, w1, h1, ones);
        pz += 32;
      }
      pw += 32;
      px += 32;
    } while (pw < last);
    const w0 = v128.load(pe);
    const w1 = v128.load(pe, 16);
    addScaled(py, a0, a1, w0, w1, v128.load32_splat(pd));
    addScaled(py + 32, b0, b1, w0, w1, v128.load32_splat(pd, 4));
    addScaled(py + 64, c0, c1, w0, w1, v128.load32_splat(pd, 8));
    addScaled(py + 96, d0, d1, w0, w1, v128.load32_splat(pd, 12));
    if (!two) continue;
    const pg = pd + step;
    addScaled(py + 128, e0, e1, w0, w1, v128.load32_splat(pg));
    addScaled(py + 160, f0, f1, w0, w1, v128.load32_splat(pg, 4));
    addScaled(py + 192, g0, g1, w0, w1, v128.load32_splat(pg, 8));
    addScaled(py + 224, h0, h1, w0, w1, v128.load32_splat(pg, 12));
  }
}
