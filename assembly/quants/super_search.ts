// Super-blocks of 256 values quantised by search: groups of 16 or 32 each get a scale (and a minimum), the scales
// integers of few bits and factors in F16, and codes are taken anew with what is left of them after that rounding.
//
// Each function leaves the codes, and the integer scales and minima, in the scratch of search.ts, and returns the F16
// factor, in lane 1 that of the minima. Without importance (pq 0) the weights are as ggml's reference has them.

import { f16ToF32, f32ToF16 } from "../math/f16";
import { at, BLOCK_MINIMA, BLOCK_SCALES, codeAt, descendSymmetric, farthest, hasBad } from "./search";
import { MINIMA, OTHER, rounded, SCALES, searchPositive, searchRange, searchSymmetric } from "./search";
import { squares, SUMS, WEIGHTS } from "./search";

/** F16 that is not a number: the factor of a block with a value that is not finite. */
export const BAD: u16 = 0x7e00;

/** Values x = d ls l - dmin lm with l in 0 .. N, the integers in 0 .. T: F16 bits of d in lane 0, of dmin in lane 1. */
export function searchRanges(px: usize, pq: usize, ps: usize, N: i32, T: i32, size: i32): v128 {
  memory.fill(ps, 0, SUMS);
  memory.fill(ps + BLOCK_SCALES, 0, 32);
  if (hasBad(px, 256)) return i32x4.splat(BAD);
  const groups = 256 / size;
  const sigma = ((N == 3 ? <f32>1 : <f32>2) * squares(px, 256)) / 256;
  for (let g = 0; g < groups; g++) {
    const o = (<usize>g) << 2;
    const first = g * size;
    const pg = px + ((<usize>first) << 2);
    store<f32>(
      ps + SUMS + o,
      weigh(pg, pq == 0 ? 0 : pq + ((<usize>first) << 2), ps + WEIGHTS, N, size, sigma),
    );
    const s = rangeOf(N, pg, ps, size, ps + first, ps + MINIMA + o, pq != 0);
    store<f32>(ps + SCALES + o, s);
  }
  const d = blockScales(ps + SCALES, ps + SUMS, ps + BLOCK_SCALES, groups, T, pq != 0);
  const m = blockScales(ps + MINIMA, ps + SUMS, ps + BLOCK_MINIMA, groups, T, pq != 0);
  const hd = <i32>f32ToF16(d);
  const hm = <i32>f32ToF16(m);
  takeRanges(px, ps, N, size, f16ToF32(hd), f16ToF32(hm));
  return i32x4.replace_lane(i32x4.splat(hd), 1, hm);
}

function rangeOf(N: i32, pg: usize, ps: usize, n: i32, pl: usize, pm: usize, weighted: bool): f32 {
  const pw = ps + WEIGHTS;
  const po = ps + OTHER;
  if (weighted) return searchRange(N, pg, pw, n, pl, po, pm, -0.9, 0.05, 36, false);
  if (N == 15) return searchRange(N, pg, pw, n, pl, po, pm, -1, 0.1, 20, false);
  return searchRange(N, pg, pw, n, pl, po, pm, -0.5, 0.1, 15, N == 3);
}

// Weights of a group's errors, and their sum.
function weigh(pg: usize, pq: usize, pw: usize, N: i32, n: i32, sigma: f32): f32 {
  const mean: f32 = N == 3 ? 0 : sqrt<f32>(squares(pg, n) / <f32>n);
  let sum: f32 = 0;
  for (let i = 0; i < n; i++) {
    const x = at(pg, i);
    const w: f32 = pq == 0 ? mean + abs(x) : at(pq, i) * sqrt<f32>(sigma + x * x);
    store<f32>(pw + ((<usize>i) << 2), w);
    sum += w;
  }
  return sum;
}

// Scales as integers 0 .. T: in proportion to the largest, or searched for. Returns what they are multiplied with.
function blockScales(px: usize, pw: usize, pl: usize, n: i32, T: i32, search: bool): f32 {
  if (search) return searchPositive(T, px, pw, n, pl);
  let top: f32 = 0;
  for (let i = 0; i < n; i++) top = max(top, at(px, i));
  const inverse: f32 = top > 0 ? <f32>T / top : 0;
  for (let i = 0; i < n; i++) store<u8>(pl + i, <u8>rounded(inverse * at(px, i), 0, T));
  return top > 0 ? top / <f32>T : 0;
}

function takeRanges(px: usize, ps: usize, N: i32, size: i32, d: f32, dmin: f32): void {
  for (let i = 0; i < 256; i++) {
    const g = i / size;
    const scale = d * <f32>codeAt(ps + BLOCK_SCALES, g);
    if (scale == 0) continue;
    const low = dmin * <f32>codeAt(ps + BLOCK_MINIMA, g);
    store<u8>(ps + i, <u8>rounded((at(px, i) + low) / scale, 0, N));
  }
}

/** Values x = d (ls - 32) (l - 4), 16 to a scale (Q3_K): F16 bits of d. */
export function searchThrees(px: usize, pq: usize, ps: usize): i32 {
  memory.fill(ps + BLOCK_SCALES, 0, 16);
  if (hasBad(px, 256)) return BAD;
  const sigma: f32 = (<f32>2 * squares(px, 256)) / 256;
  for (let g = 0; g < 16; g++) {
    const o = (<usize>g) << 6;
    const pl = ps + ((<usize>g) << 4);
    let sum: f32 = 0;
    if (pq != 0) sum = weigh(px + o, pq + o, ps + WEIGHTS, 0, 16, sigma);
    const s =
      pq == 0 ? descendSymmetric(4, px + o, 16, pl) : searchSymmetric(4, px + o, ps + WEIGHTS, 16, pl);
    store<f32>(ps + SCALES + ((<usize>g) << 2), s);
    store<f32>(ps + SUMS + ((<usize>g) << 2), sum);
  }
  const d =
    pq == 0
      ? signedScales(ps + SCALES, ps + BLOCK_SCALES, 32)
      : searchSymmetric(32, ps + SCALES, ps + SUMS, 16, ps + BLOCK_SCALES);
  const h = <i32>f32ToF16(d);
  takeSigned(px, ps, 4, 32, f16ToF32(h));
  return h;
}

/** Values x = d sc (l - 32), 16 to a scale, which is a signed byte (Q6_K): F16 bits of d. */
export function searchSixes(px: usize, pq: usize, ps: usize): i32 {
  memory.fill(ps, 0, 256);
  memory.fill(ps + BLOCK_SCALES, 0, 16);
  if (hasBad(px, 256)) return BAD;
  for (let g = 0; g < 16; g++) {
    const o = (<usize>g) << 6;
    if (pq == 0) squaresOf(px + o, ps + WEIGHTS, 16);
    const pw = pq == 0 ? ps + WEIGHTS : pq + o;
    store<f32>(ps + SCALES + ((<usize>g) << 2), searchSymmetric(32, px + o, pw, 16, ps + ((<usize>g) << 4)));
  }
  if (abs(farthest(ps + SCALES, 16)) < <f32>1e-15) {
    memory.fill(ps, 0, 256);
    return 0;
  }
  const h = <i32>f32ToF16(signedScales(ps + SCALES, ps + BLOCK_SCALES, 128));
  takeSigned(px, ps, 32, 0, f16ToF32(h));
  return h;
}

/** The squares of n values, as weights. */
export function squaresOf(px: usize, pw: usize, n: i32): void {
  for (let i = 0; i < n; i++) store<f32>(pw + ((<usize>i) << 2), at(px, i) * at(px, i));
}

// 16 scales as integers from -N on, that of the largest magnitude -N itself: stored with 32 added (N 32), or as signed
// bytes (N 128). Returns what they are multiplied with.
function signedScales(px: usize, pl: usize, N: i32): f32 {
  const top = farthest(px, 16);
  if (top == 0) return 0;
  const inverse: f32 = <f32>-N / top;
  const shift = N == 32 ? 32 : 0;
  for (let i = 0; i < 16; i++) store<u8>(pl + i, <u8>(rounded(inverse * at(px, i), -N, N - 1) + shift));
  return 1 / inverse;
}

// Codes -N .. N - 1 anew, stored with N added; integer scales have `shift` added, or are signed bytes without one.
function takeSigned(px: usize, ps: usize, N: i32, shift: i32, d: f32): void {
  for (let i = 0; i < 256; i++) {
    const code = load<u8>(ps + BLOCK_SCALES + (i >> 4));
    const scale = d * <f32>(shift == 0 ? <i32>(<i8>code) : <i32>code - shift);
    if (scale == 0) continue;
    store<u8>(ps + i, <u8>(rounded(at(px, i) / scale, -N, N - 1) + N));
  }
}
