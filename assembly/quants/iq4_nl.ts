// IQ4_NL: 32 weights in 18 bytes, x = d * T[q], T a table of 16 unevenly spaced levels. Partner: Q8_0.
//
//   0 d f16 | 2 qs[16] nibbles as in Q4_0

import { byteMask, halfOf, nibbleBytes, signedCodes } from "../math/dot";
import { f16ToF32, f16x4ToF32, f32ToF16 } from "../math/f16";
import { extreme } from "./range";
import { at, farthest, hasBad, squares, WEIGHTS } from "./search";
import { BAD, squaresOf } from "./super_search";

const BYTES: usize = 18;

/** The levels, ascending. */
// prettier-ignore
export const LEVELS: usize = memory.data<i8>([
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
], 16);

/** The block as the integer dot products see it; methods as in Q4_0. */
@unmanaged
export class IQ4_NL {

  @inline
  bytes(): usize {
    return BYTES;
  }


  @inline
  zero(): i32 {
    return 0;
  }


  @inline
  signed(): bool {
    return true;
  }


  @inline
  mask(): v128 {
    return byteMask();
  }


  @inline
  first(p: usize): v128 {
    return v128.load(p, 2);
  }


  @inline
  second(p: usize): v128 {
    return i32x4.splat(0);
  }


  @inline
  codes(a: v128, b: v128, i: i32, m: v128): v128 {
    return signedCodes(i8x16.swizzle(v128.load(LEVELS), nibbleBytes(a, halfOf(i), m)), i);
  }


  @inline
  scale(p: usize): f32 {
    return f16ToF32(load<u16>(p));
  }


  @inline
  scales(p: usize): v128 {
    let h = v128.load16_splat(p);
    h = v128.load16_lane(p, h, 2, 18);
    h = v128.load16_lane(p, h, 4, 36);
    return f16x4ToF32(v128.load16_lane(p, h, 6, 54));
  }
}

/** `n` weights at px to f32 at py. */
export function dequantizeIQ4_NL(px: usize, py: usize, n: i32): void {
  for (let end = py + ((<usize>n) << 2); py < end; py += 128, px += BYTES) {
    const d = f16ToF32(load<u16>(px));
    for (let j: usize = 0; j < 16; j++) {
      const q = <usize>load<u8>(px + j, 2);
      store<f32>(py + (j << 2), d * level(q & 15));
      store<f32>(py + (j << 2), d * level(q >> 4), 64);
    }
  }
}

/** Level q as f32. */
@inline
export function level(q: usize): f32 {
  return <f32>load<i8>(LEVELS + q);
}

/** Code of the nearest level; halfway goes up. */
export function nearestLevel(x: f32): i32 {
  if (!(x > -127)) return 0;
  if (x >= 113) return 15;
  let i: usize = 1;
  while (x >= level(i)) i++;
  return <i32>(x - level(i - 1) < level(i) - x ? i - 1 : i);
}

/** `n` f32 at px to blocks at py; byte for byte what ggml's reference quantizer makes. */
export function quantizeIQ4_NL(px: usize, py: usize, n: i32): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, py += BYTES) {
    const top = extreme(px);
    const id: f32 = abs(top) < 1e-15 ? 0 : 1 / (top / -127);
    let a: f32 = 0;
    let b: f32 = 0;
    for (let j: usize = 0; j < 32; j++) {
      const x = load<f32>(px + (j << 2));
      const q = id == 0 ? 0 : nearestLevel(x * id);
      const w = x * x;
      a += w * level(q) * x;
      b += w * level(q) * level(q);
      const pq = py + (j & 15);
      store<u8>(pq, j < 16 ? <u8>q : <u8>(load<u8>(pq, 2) | (q << 4)), 2);
    }
    store<u16>(py, <u16>f32ToF16(id == 0 ? 0 : b > 0 ? a / b : top * 0));
  }
}

/** Candidates on either side of the base. */
const TRIES = 7;

/** Scale of 32 values as multiples of levels, of the base and candidates around it; 0 for nothing but zeros. */
export function searchLevels(px: usize, pw: usize): f32 {
  const top = farthest(px, 32);
  if (abs(top) < <f32>1e-15) return 0;
  let scale: f32 = 0;
  let best: f32 = 0;
  for (let j = 0; j <= 2 * TRIES + 1; j++) {
    const id: f32 = j == 0 ? 1 / (-top / -127) : (<f32>(j - 1 - TRIES) + -127) / top;
    let a: f32 = 0;
    let b: f32 = 0;
    for (let i = 0; i < 32; i++) {
      const x = at(px, i);
      const q = level(<usize>nearestLevel(x * id));
      const w = at(pw, i);
      a += w * q * x;
      b += w * q * q;
    }
    if (!(b > 0 && (j == 0 || a * a > best * b))) continue;
    scale = a / b;
    best = scale * a;
  }
  return scale;
}

/** Weights of 32 values: their squares, or by importance. */
export function weighLevels(px: usize, pq: usize, pw: usize, sigma: f32): void {
  if (pq == 0) return squaresOf(px, pw, 32);
  for (let i = 0; i < 32; i++) {
    const x = at(px, i);
    store<f32>(pw + ((<usize>i) << 2), at(pq, i) * sqrt<f32>(sigma + x * x));
  }
}

/** Codes of 32 values for an inverse scale, 16 bytes. */
export function packLevels(px: usize, inverse: f32, py: usize): void {
  for (let j = 0; j < 16; j++) {
    const q = nearestLevel(at(px, j) * inverse) | (nearestLevel(at(px, j + 16) * inverse) << 4);
    store<u8>(py + j, <u8>q);
  }
}

/** The same by search, with importance pq; ps scratch of search.ts. */
export function quantizeIQ4_NLWeighted(px: usize, pq: usize, py: usize, n: i32, ps: usize): void {
  for (let end = px + ((<usize>n) << 2); px < end; px += 128, pq += 128, py += BYTES) {
    const sigma = squares(px, 32) * <f32>(<f32>2 / 32);
    weighLevels(px, pq, ps + WEIGHTS, sigma);
    const d = searchLevels(px, ps + WEIGHTS);
    store<u16>(py, hasBad(px, 32) ? BAD : <u16>f32ToF16(d));
    packLevels(px, d != 0 ? 1 / d : 0, py + 2);
  }
}
