// Types with super-blocks of 256 times Q8_K activations, row by row.
//
// The integer sum of a super-block, its zero point included, is exact; an output element is the f32 sum, in order, of
// integer sum * (d * activation scale), with minima less integer sum of minima * (dmin * activation scale). Nothing is
// fused.
//
//   column: per super-block codes in dot order | scale f32 | sums of 16 activations, 16 i16
//           for signed codes SIGNS (matmul/columns.ts), per run of 32 | scale f32 | seeds, one per run

import { Type } from "../abi";
import { dotq, signedCodes, sumI32, sums4, takesSigned, unsignedCodes } from "../math/dot";
import { IQ4_XS } from "../quants/iq4_xs";
import { Q2_K } from "../quants/q2_k";
import { Q3_K } from "../quants/q3_k";
import { Q4_K } from "../quants/q4_k";
import { Q5_K } from "../quants/q5_k";
import { Q6_K } from "../quants/q6_k";
import { nextScales } from "../quants/super";
import { expandSigns } from "./columns";

const BYTES: usize = 292;

/** Bytes of the scale and the sums of a super-block of a column. */
export const SUPER_SCALES: usize = 36;

/** True when weights of a type in file order are signed: then columns are SIGNS (matmul/columns.ts). */
export function hasSignedCodes(type: i32): bool {
  return ASC_FEATURE_RELAXED_SIMD && type == Type.IQ4_XS;
}

// Bytes of 16 activations.
@inline
function groupBytes(signs: bool): usize {
  return signs || !ASC_FEATURE_RELAXED_SIMD ? 32 : 16;
}

/** Bytes of a column of `nb` super-blocks. */
export function superColumnBytes(signs: bool, nb: i32): usize {
  return <usize>nb * (16 * groupBytes(signs) + SUPER_SCALES);
}

/** One column of `nb` super-blocks at p to px. */
export function expandSuper(p: usize, nb: i32, signs: bool, px: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD && signs) return expandSuperSigns(p, nb, px);
  const step = groupBytes(false);
  for (let b = 0; b < nb; b++, p += BYTES, px += SUPER_SCALES) {
    for (let j: usize = 4; j < 260; j += 16, px += step) expand16(v128.load(p + j), px);
    store<f32>(px, load<f32>(p));
    v128.store(px, v128.load(p, 260), 4);
    v128.store(px, v128.load(p, 276), 20);
  }
}


@inline
function expand16(v: v128, px: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) v128.store(px, v);
  else {
    v128.store(px, signedCodes(v, 0));
    v128.store(px, signedCodes(v, 1), 16);
  }
}

function expandSuperSigns(p: usize, nb: i32, px: usize): void {
  const signed = takesSigned();
  for (let b = 0; b < nb; b++, p += BYTES, px += SUPER_SCALES) {
    for (let j: usize = 0, ps = px + 516; j < 256; j += 32, px += 64, ps += 4) {
      store<i32>(ps, expandSigns(p + 4 + j, signed, px));
    }
    store<f32>(px, load<f32>(p));
  }
}

/** `rows` rows at pw, stride nbw, times the column of `nb` super-blocks at px; results to f32 at py. */
export function dotSuperRows(
  type: i32,
  pw: usize,
  nbw: usize,
  rows: i32,
  nb: i32,
  px: usize,
  py: usize,
): void {
  switch (type) {
    case Type.Q2_K:
      return rowsOf<Q2_K>(pw, nbw, rows, nb, px, py);
    case Type.Q3_K:
      return rowsOf<Q3_K>(pw, nbw, rows, nb, px, py);
    case Type.Q4_K:
      return rowsOf<Q4_K>(pw, nbw, rows, nb, px, py);
    case Type.Q5_K:
      return rowsOf<Q5_K>(pw, nbw, rows, nb, px, py);
    case Type.Q6_K:
      return rowsOf<Q6_K>(pw, nbw, rows, nb, px, py);
    case Type.IQ4_XS:
      return rowsOf<IQ4_XS>(pw, nbw, rows, nb, px, py);
    default:
      unreachable();
  }
}

function rowsOf<T>(pw: usize, nbw: usize, rows: i32, nb: i32, px: usize, py: usize): void {
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw)
    store<f32>(py, dotRow<T>(pw, nb, px));
}

// Is a column for T SIGNS?
@inline
function hasSigns<T>(): bool {
  return ASC_FEATURE_RELAXED_SIMD && changetype<T>(<usize>0).signed();
}


@inline
function dotRow<T>(p: usize, nb: i32, px: usize): f32 {
  const t = changetype<T>(<usize>0);
  const half: usize = 8 * groupBytes(hasSigns<T>());
  let sum: f32 = 0;
  for (let b = 0; b < nb; b++, p += t.bytes(), px += SUPER_SCALES) {
    const ps = px + 2 * half + 4;
    let scales = t.scales(p);
    let acc = i32x4.splat(0);
    if (hasSigns<T>()) acc = weightedSeeds(scales, ps);
    else if (t.zero() != 0) acc = i32x4.mul(weighted(scales, ps), i32x4.splat(-t.zero()));
    // rolled: long straight code is spilled on older engines
    for (let i = 0; i < 2; i++, px += half) {
      acc = i32x4.add(acc, halfSum<T>(p, i, px, scales));
      scales = nextScales(scales, t.wide());
    }
    const dx = load<f32>(px);
    let v = <f32>sumI32(acc) * (t.d(p) * dx);
    if (t.hasMin()) v = v - <f32>sumI32(weighted(t.mins(p), ps)) * (t.dmin(p) * dx);
    sum = sum + v;
  }
  return sum;
}

// Four lanes that add up to the sum of 16 bytes times the 16 sums at ps.
@inline
function weighted(s: v128, ps: usize): v128 {
  const a = i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(s), v128.load(ps));
  return i32x4.add(a, i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(s), v128.load(ps, 16)));
}

// The same of eight bytes and the eight seeds at ps.
@inline
function weightedSeeds(s: v128, ps: usize): v128 {
  const v = i16x8.extend_low_i8x16_s(s);
  const a = i32x4.mul(i32x4.extend_low_i16x8_s(v), v128.load(ps));
  return i32x4.add(a, i32x4.mul(i32x4.extend_high_i16x8_s(v), v128.load(ps, 16)));
}

// Where activations of group h of run j stand in a half.
@inline
function placeOf<T>(j: i32, h: i32): usize {
  return 2 * <usize>j * groupBytes(hasSigns<T>()) + <usize>h * groupBytes(false);
}

// Half a super-block: four lanes that add up to the sum of scale * codes * activations.
@inline
function halfSum<T>(p: usize, half: i32, px: usize, scales: v128): v128 {
  const t = changetype<T>(<usize>0);
  const s = i16x8.extend_low_i8x16_s(scales);
  const a0 = group<T>(p, half, 0, 0, px + placeOf<T>(0, 0));
  const a1 = group<T>(p, half, 0, 1, px + placeOf<T>(0, 1));
  const b0 = group<T>(p, half, 1, 0, px + placeOf<T>(1, 0));
  const b1 = group<T>(p, half, 1, 1, px + placeOf<T>(1, 1));
  if (t.wide()) {
    const c = i32x4.add(
      group<T>(p, half, 2, 0, px + placeOf<T>(2, 0)),
      group<T>(p, half, 2, 1, px + placeOf<T>(2, 1)),
    );
    const d = i32x4.add(
      group<T>(p, half, 3, 0, px + placeOf<T>(3, 0)),
      group<T>(p, half, 3, 1, px + placeOf<T>(3, 1)),
    );
    return i32x4.mul(sums4(i32x4.add(a0, a1), i32x4.add(b0, b1), c, d), i32x4.extend_low_i16x8_s(s));
  }
  const low = i32x4.mul(sums4(a0, a1, b0, b1), i32x4.extend_low_i16x8_s(s));
  const c0 = group<T>(p, half, 2, 0, px + placeOf<T>(2, 0));
  const c1 = group<T>(p, half, 2, 1, px + placeOf<T>(2, 1));
  const d0 = group<T>(p, half, 3, 0, px + placeOf<T>(3, 0));
  const d1 = group<T>(p, half, 3, 1, px + placeOf<T>(3, 1));
  return i32x4.add(low, i32x4.mul(sums4(c0, c1, d0, d1), i32x4.extend_high_i16x8_s(s)));
}

// 16 codes times 16 activations at px; four lanes to be added.
@inline
function group<T>(p: usize, half: i32, j: i32, h: i32, px: usize): v128 {
  const t = changetype<T>(<usize>0);
  const c = t.codes(p, half, j, h);
  const zero = i32x4.splat(0);
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (!t.signed()) return dotq(v128.load(px), c, zero);
    return dotq(v128.xor(c, v128.load(px, 32)), v128.load(px), zero);
  } else {
    const even = t.signed() ? signedCodes(c, 0) : unsignedCodes(c, 0);
    const odd = t.signed() ? signedCodes(c, 1) : unsignedCodes(c, 1);
    return dotq(v128.load(px, 16), odd, i32x4.dot_i16x8_s(v128.load(px), even));
  }
}
