// Block types of 32 weights times Q8_0 or Q8_1 activations: one row times one column, and rows unpacked to panels.
//
// An output element is the f32 sum, in block order, of integer sum * (weight scale * activation scale), with minima plus
// minimum * activation sum. Nothing is fused, so a panel, a row and any split of the work give the same bits.

import { Type } from "../abi";
import { f16ToF32 } from "../math/f16";
import {
  VECTORS,
  dotPairs,
  dotq,
  fours,
  joinPairs,
  onesPairs,
  productPairs,
  storeTransposed,
  sumI32,
  sums4,
  sumsPairs,
} from "../math/dot";
import { IQ4_NL } from "../quants/iq4_nl";
import { MXFP4 } from "../quants/mxfp4";
import { Q4_0 } from "../quants/q4_0";
import { Q4_1 } from "../quants/q4_1";
import { Q5_0 } from "../quants/q5_0";
import { Q5_1 } from "../quants/q5_1";
import { Q8_0 } from "../quants/q8_0";
import { MINS, SEEDED, SIGNS, codeBytes } from "./columns";

/** Rows of a panel. */
export const PANEL_ROWS: i32 = 8;

/** How the activations must be spread out for weights of a type (matmul/columns.ts). */
export function kindOf(type: i32): i32 {
  switch (type) {
    case Type.Q4_1:
    case Type.Q5_1:
      return MINS;
    case Type.Q8_0:
    case Type.IQ4_NL:
      return ASC_FEATURE_RELAXED_SIMD ? SIGNS : SEEDED;
    default:
      return SEEDED;
  }
}

/** Code of the value 0. */
export function zeroPoint(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
      return changetype<Q4_0>(<usize>0).zero();
    case Type.Q5_0:
      return changetype<Q5_0>(<usize>0).zero();
    case Type.MXFP4:
      return changetype<MXFP4>(<usize>0).zero();
    default:
      return 0;
  }
}

/** `rows` rows at pw, stride nbw, times the column of `nb` blocks at px (matmul/columns.ts); results to f32 at py. */
export function dotRows(type: i32, pw: usize, nbw: usize, rows: i32, nb: i32, px: usize, py: usize): void {
  switch (type) {
    case Type.Q4_0:
      return rowsOf<Q4_0>(pw, nbw, rows, nb, px, py);
    case Type.Q4_1:
      return rowsWithMins<Q4_1>(pw, nbw, rows, nb, px, py);
    case Type.Q5_0:
      return rowsOf<Q5_0>(pw, nbw, rows, nb, px, py);
    case Type.Q5_1:
      return rowsWithMins<Q5_1>(pw, nbw, rows, nb, px, py);
    case Type.Q8_0:
      return rowsOf<Q8_0>(pw, nbw, rows, nb, px, py);
    case Type.IQ4_NL:
      return rowsOf<IQ4_NL>(pw, nbw, rows, nb, px, py);
    case Type.MXFP4:
      return rowsOf<MXFP4>(pw, nbw, rows, nb, px, py);
    default:
      unreachable();
  }
}

function rowsOf<T>(pw: usize, nbw: usize, rows: i32, nb: i32, px: usize, py: usize): void {
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw) {
    store<f32>(py, dotRow<T>(pw, nb, px));
  }
}

function rowsWithMins<T>(pw: usize, nbw: usize, rows: i32, nb: i32, px: usize, py: usize): void {
  for (const end = py + ((<usize>rows) << 2); py < end; py += 4, pw += nbw) {
    store<f32>(py, dotRowWithMins<T>(pw, nb, px));
  }
}

// Codes of a block times activations at pq; four lanes to be added. `pairs` is sumsPairs(), asked for each block: a loop
// for either would be as fast, and much more code.
@inline
function partial<T>(pairs: bool, p: usize, pq: usize, m: v128, ones: v128): v128 {
  const t = changetype<T>(<usize>0);
  const a = t.first(p);
  const b = t.second(p);
  const c0 = t.codes(a, b, 0, m);
  const c1 = t.codes(a, b, 1, m);
  const zero = i32x4.splat(0);
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (t.signed()) {
      const u = v128.xor(c0, v128.load(pq, 32));
      const v = v128.xor(c1, v128.load(pq, 48));
      return pairs
        ? joinPairs(productPairs(v, v128.load(pq, 16)), fours(u, v128.load(pq), ones), ones)
        : dotq(v, v128.load(pq, 16), dotq(u, v128.load(pq), zero));
    }
    return pairs
      ? i32x4.dot_i16x8_s(dotPairs(v128.load(pq, 16), c1, productPairs(v128.load(pq), c0)), ones)
      : dotq(v128.load(pq, 16), c1, dotq(v128.load(pq), c0, zero));
  } else {
    const u = dotq(v128.load(pq, 16), c1, i32x4.dot_i16x8_s(v128.load(pq), c0));
    const c2 = t.codes(a, b, 2, m);
    const c3 = t.codes(a, b, 3, m);
    const v = dotq(v128.load(pq, 48), c3, i32x4.dot_i16x8_s(v128.load(pq, 32), c2));
    return i32x4.add(u, v);
  }
}

// The integer sums of four blocks.
@inline
function partial4<T>(pairs: bool, p: usize, pq: usize, m: v128, ones: v128): v128 {
  const bytes = changetype<T>(<usize>0).bytes();
  const step = codeBytes(kindOfBlock<T>(), 1);
  return sums4(
    partial<T>(pairs, p, pq, m, ones),
    partial<T>(pairs, p + bytes, pq + step, m, ones),
    partial<T>(pairs, p + 2 * bytes, pq + 2 * step, m, ones),
    partial<T>(pairs, p + 3 * bytes, pq + 3 * step, m, ones),
  );
}

// How the activations of T are spread out.
@inline
function kindOfBlock<T>(): i32 {
  return ASC_FEATURE_RELAXED_SIMD && changetype<T>(<usize>0).signed() ? SIGNS : SEEDED;
}

// Do the sums of T start at seeds?
@inline
function hasSeeds<T>(): bool {
  return changetype<T>(<usize>0).zero() != 0 || kindOfBlock<T>() == SIGNS;
}

// One after the other: the sum stays in block order.
@inline
function addLanes(sum: f32, v: v128): f32 {
  sum = sum + f32x4.extract_lane(v, 0);
  sum = sum + f32x4.extract_lane(v, 1);
  sum = sum + f32x4.extract_lane(v, 2);
  return sum + f32x4.extract_lane(v, 3);
}

// One row times one column.
@inline
function dotRow<T>(p: usize, nb: i32, pq: usize): f32 {
  const t = changetype<T>(<usize>0);
  const bytes = t.bytes();
  const step = codeBytes(kindOfBlock<T>(), 1);
  const m = t.mask();
  const pairs = sumsPairs();
  const ones = pairs ? onesPairs() : i32x4.splat(0);
  let pd = pq + codeBytes(kindOfBlock<T>(), nb);
  let ps = pd + ((<usize>nb) << 2);
  let sum: f32 = 0;
  const end = pd + ((<usize>nb) << 2);
  for (const full = pd + ((<usize>(nb & ~3)) << 2); pd < full; pd += 16) {
    let i = partial4<T>(pairs, p, pq, m, ones);
    if (hasSeeds<T>()) i = i32x4.add(i, v128.load(ps));
    const v = f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(t.scales(p), v128.load(pd)));
    sum = addLanes(sum, v);
    p += 4 * bytes;
    pq += 4 * step;
    ps += 16;
  }
  for (; pd < end; pd += 4, ps += 4, p += bytes, pq += step) {
    const i = sumI32(partial<T>(pairs, p, pq, m, ones)) + (hasSeeds<T>() ? load<i32>(ps) : 0);
    sum = sum + <f32>i * (t.scale(p) * load<f32>(pd));
  }
  return sum;
}

// One row times one column of Q8_1: each block adds its minimum times the sum of the activations, at ps.
@inline
function dotRowWithMins<T>(p: usize, nb: i32, pq: usize): f32 {
  const t = changetype<T>(<usize>0);
  const bytes = t.bytes();
  const step = codeBytes(kindOfBlock<T>(), 1);
  const m = t.mask();
  const pairs = sumsPairs();
  const ones = pairs ? onesPairs() : i32x4.splat(0);
  let pd = pq + codeBytes(kindOfBlock<T>(), nb);
  let ps = pd + ((<usize>nb) << 2);
  let sum: f32 = 0;
  const end = pd + ((<usize>nb) << 2);
  for (const full = pd + ((<usize>(nb & ~3)) << 2); pd < full; pd += 16) {
    const i = f32x4.convert_i32x4_s(partial4<T>(pairs, p, pq, m, ones));
    const v = f32x4.mul(i, f32x4.mul(t.scales(p), v128.load(pd)));
    sum = addLanes(sum, f32x4.add(v, f32x4.mul(t.mins(p), v128.load(ps))));
    p += 4 * bytes;
    pq += 4 * step;
    ps += 16;
  }
  for (; pd < end; pd += 4, ps += 4, p += bytes, pq += step) {
    const v = <f32>sumI32(partial<T>(pairs, p, pq, m, ones)) * (t.scale(p) * load<f32>(pd));
    sum = sum + (v + t.min(p) * load<f32>(ps));
  }
  return sum;
}

/**
 * Do codes q of a panel stand as 31 - q? With the zero point at 16 a sum of pairs could reach 32768, from weights of -16 and
 * activations of -128; of weights with the other sign it cannot, and those that join it turn the sign round.
 */
export function isMirrored(type: i32): bool {
  return type == Type.Q5_0 && sumsPairs();
}

/** Mirrors the codes of a panel of `nb` blocks. */
export function mirror(nb: i32, pp: usize): void {
  const m = i8x16.splat(31);
  for (const end = pp + 8 * codeBytes(SEEDED, nb); pp < end; pp += 16) {
    v128.store(pp, v128.xor(v128.load(pp), m));
  }
}

/** Bytes of a panel of `nb` blocks. */
export function panelBytes(nb: i32): usize {
  return 8 * codeBytes(SEEDED, nb) + ((<usize>nb) << 6);
}

/**
 * Unpacks eight rows of `nb` blocks: codes in dot order, per four bytes of a row [row 0] .. [row 7] | scales, eight per
 * block | minima, where the type has them, eight per block. Rows past `rows` repeat the last one.
 */
export function unpackPanel(type: i32, pw: usize, nbw: usize, rows: i32, nb: i32, pp: usize): void {
  const last = pw + <usize>(rows - 1) * nbw;
  const scales: usize = 8 * codeBytes(SEEDED, nb);
  const minima = scales + ((<usize>nb) << 5);
  for (let r: usize = 0; r < 8; r += 4, pp += 16) {
    const p0 = min(pw + r * nbw, last);
    const p1 = min(p0 + nbw, last);
    const p2 = min(p1 + nbw, last);
    const p3 = min(p2 + nbw, last);
    unpackRows(type, p0, p1, p2, p3, nb, pp, pp + scales);
    if (kindOf(type) == MINS) unpackMins(type, p0, p1, p2, p3, nb, pp + minima);
  }
  if (isMirrored(type)) mirror(nb, pp - 32);
}

function unpackRows(
  type: i32,
  p0: usize,
  p1: usize,
  p2: usize,
  p3: usize,
  nb: i32,
  pq: usize,
  pd: usize,
): void {
  switch (type) {
    case Type.Q4_0:
      return unpackFour<Q4_0>(p0, p1, p2, p3, nb, pq, pd);
    case Type.Q4_1:
      return unpackFour<Q4_1>(p0, p1, p2, p3, nb, pq, pd);
    case Type.Q5_0:
      return unpackFour<Q5_0>(p0, p1, p2, p3, nb, pq, pd);
    case Type.Q5_1:
      return unpackFour<Q5_1>(p0, p1, p2, p3, nb, pq, pd);
    case Type.Q8_0:
      return unpackFour<Q8_0>(p0, p1, p2, p3, nb, pq, pd);
    case Type.IQ4_NL:
      return unpackFour<IQ4_NL>(p0, p1, p2, p3, nb, pq, pd);
    case Type.MXFP4:
      return unpackFour<MXFP4>(p0, p1, p2, p3, nb, pq, pd);
    default:
      unreachable();
  }
}

// The minima of Q4_1 and Q5_1 stand behind the scale.
function unpackMins(type: i32, p0: usize, p1: usize, p2: usize, p3: usize, nb: i32, pm: usize): void {
  const bytes: usize =
    type == Type.Q4_1 ? changetype<Q4_1>(<usize>0).bytes() : changetype<Q5_1>(<usize>0).bytes();
  for (const end = pm + ((<usize>nb) << 5); pm < end; pm += 32) {
    store<f32>(pm, f16ToF32(load<u16>(p0, 2)));
    store<f32>(pm, f16ToF32(load<u16>(p1, 2)), 4);
    store<f32>(pm, f16ToF32(load<u16>(p2, 2)), 8);
    store<f32>(pm, f16ToF32(load<u16>(p3, 2)), 12);
    p0 += bytes;
    p1 += bytes;
    p2 += bytes;
    p3 += bytes;
  }
}

function unpackFour<T>(p0: usize, p1: usize, p2: usize, p3: usize, nb: i32, pq: usize, pd: usize): void {
  const t = changetype<T>(<usize>0);
  const m = t.mask();
  for (const end = pd + ((<usize>nb) << 5); pd < end; pd += 32) {
    store<f32>(pd, t.scale(p0));
    store<f32>(pd, t.scale(p1), 4);
    store<f32>(pd, t.scale(p2), 8);
    store<f32>(pd, t.scale(p3), 12);
    const a0 = t.first(p0);
    const a1 = t.first(p1);
    const a2 = t.first(p2);
    const a3 = t.first(p3);
    const b0 = t.second(p0);
    const b1 = t.second(p1);
    const b2 = t.second(p2);
    const b3 = t.second(p3);
    storeCodes<T>(pq, 0, a0, b0, a1, b1, a2, b2, a3, b3, m);
    storeCodes<T>(pq + 128, 1, a0, b0, a1, b1, a2, b2, a3, b3, m);
    if (!ASC_FEATURE_RELAXED_SIMD) {
      storeCodes<T>(pq + 256, 2, a0, b0, a1, b1, a2, b2, a3, b3, m);
      storeCodes<T>(pq + 384, 3, a0, b0, a1, b1, a2, b2, a3, b3, m);
    }
    pq += (<usize>VECTORS) << 7;
    p0 += t.bytes();
    p1 += t.bytes();
    p2 += t.bytes();
    p3 += t.bytes();
  }
}

// Code vector i of four rows.
@inline
function storeCodes<T>(
  pq: usize,
  i: i32,
  a0: v128,
  b0: v128,
  a1: v128,
  b1: v128,
  a2: v128,
  b2: v128,
  a3: v128,
  b3: v128,
  m: v128,
): void {
  const t = changetype<T>(<usize>0);
  const c0 = t.codes(a0, b0, i, m);
  const c1 = t.codes(a1, b1, i, m);
  storeTransposed(pq, 32, c0, c1, t.codes(a2, b2, i, m), t.codes(a3, b3, i, m));
}
