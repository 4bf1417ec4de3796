// Rows of blocks of 32 in quads (quants/quads.ts) times one column of Q8_0 or Q8_1 activations: each dot feeds four rows.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/blocks.ts,
// and so are the columns.
//
// Masks stand in locals, loops are rolled and one stream is read: see quants/quad.ts and math/dot.ts.

import { Type } from "../abi";
import { WIDE_NONE, WIDE_UNSIGNED, dotq, lookup, wideBias, wideDot } from "../math/dot";
import {
  EVEN,
  LIFT,
  LIFTED,
  ONE_21,
  ONE_23,
  X07,
  X08,
  X0F,
  X10,
  X18,
  X1F,
  bitsFrom,
  liftedScales,
  powers,
  quadMask,
} from "../quants/quad";
import { FIVES } from "../quants/quad_codes";
import {
  bytesOf,
  codesAt,
  formOf,
  hasLevels,
  hasMin,
  hasTable,
  levelZero,
  tableOf,
} from "../quants/quad_types";
import { lane0, lane1, lane2, lane3 } from "./tile";

/** Bytes of 16 activations of a column. */
export const X16: usize = ASC_FEATURE_RELAXED_SIMD ? 16 : 32;

/** True when levels must be dotted in two parts: the engine's dot takes 0..127 only. */
@inline
export function inParts(): bool {
  return ASC_FEATURE_RELAXED_SIMD && wideDot() == WIDE_NONE;
}

/** True when the engine's dot takes any byte as unsigned, as high nibbles in their places are. */
@inline
export function highInPlace(): bool {
  return wideDot() == WIDE_UNSIGNED;
}

/** `quads` quads of rows at pw times the column of `nb` blocks at px; results to f32 at py. */
export function dotQuads(type: i32, pw: usize, quads: i32, nb: i32, px: usize, py: usize): void {
  const end = py + ((<usize>quads) << 4);
  switch (type) {
    case Type.Q4_0:
      return quadsQ4_0(pw, nb, px, py, end);
    case Type.Q4_1:
      return quadsQ4_1(pw, nb, px, py, end);
    case Type.Q5_0:
      return quadsQ5_0(pw, nb, px, py, end);
    case Type.Q5_1:
      return quadsQ5_1(pw, nb, px, py, end);
    case Type.Q8_0:
      return wideDot() == WIDE_NONE ? quadsQ8_0(pw, nb, px, py, end) : quadsWide(pw, nb, px, py, end);
    case Type.IQ4_NL:
      if (inParts()) quadsParts(pw, nb, px, py, end);
      else quadsIQ4_NL(pw, nb, px, py, end);
      break;
    case Type.MXFP4:
      return quadsMXFP4(pw, nb, px, py, end);
    default:
      unreachable();
  }
}

// acc += codes of four rows (0..127) times four activations at x.
@inline
export function dotFour(x: usize, q: v128, acc: v128, even: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(v128.load32_splat(x), q, acc);
  else {
    acc = dotq(v128.load32_splat(x), v128.and(q, even), acc);
    return dotq(v128.load32_splat(x, 16), i16x8.shr_u(q, 8), acc);
  }
}

// High nibbles, or 16 times them, in their places.
@inline
function highNibbles(v: v128, m: v128, inPlace: bool): v128 {
  return inPlace ? v128.andnot(v, m) : bitsFrom(v, 4, m);
}

/** Four rows of 32 weights in nibbles at w; `inPlace`, where highInPlace(): the high ones are not moved but their sum is. */
@inline
export function nibbles32(w: usize, x: usize, seed: v128, m: v128, even: v128, inPlace: bool): v128 {
  let i = seed;
  let j = i32x4.splat(0);
  let v = v128.load(w);
  i = dotFour(x, v128.and(v, m), i, even);
  j = dotFour(x + X16, highNibbles(v, m, inPlace), j, even);
  v = v128.load(w, 16);
  i = dotFour(x + 4, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 4, highNibbles(v, m, inPlace), j, even);
  v = v128.load(w, 32);
  i = dotFour(x + 8, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 8, highNibbles(v, m, inPlace), j, even);
  v = v128.load(w, 48);
  i = dotFour(x + 12, v128.and(v, m), i, even);
  j = dotFour(x + X16 + 12, highNibbles(v, m, inPlace), j, even);
  return i32x4.add(i, inPlace ? i32x4.shr_s(j, 4) : j);
}

// acc += levels of four codes; in parts: and what goes beyond.
@inline
function dotLevels(x: usize, q: v128, acc: v128, even: v128, table: v128, rest: v128, parts: bool): v128 {
  acc = dotFour(x, lookup(table, q), acc, even);
  return parts ? dotFour(x, lookup(rest, q), acc, even) : acc;
}

/** The same by a table of levels; `parts`: the table holds at most 127, the rest another. */
@inline
export function levels32(
  w: usize,
  x: usize,
  seed: v128,
  m: v128,
  even: v128,
  table: v128,
  rest: v128,
  parts: bool,
): v128 {
  let i = seed;
  let j = i32x4.splat(0);
  let v = v128.load(w);
  i = dotLevels(x, v128.and(v, m), i, even, table, rest, parts);
  j = dotLevels(x + X16, bitsFrom(v, 4, m), j, even, table, rest, parts);
  v = v128.load(w, 16);
  i = dotLevels(x + 4, v128.and(v, m), i, even, table, rest, parts);
  j = dotLevels(x + X16 + 4, bitsFrom(v, 4, m), j, even, table, rest, parts);
  v = v128.load(w, 32);
  i = dotLevels(x + 8, v128.and(v, m), i, even, table, rest, parts);
  j = dotLevels(x + X16 + 8, bitsFrom(v, 4, m), j, even, table, rest, parts);
  v = v128.load(w, 48);
  i = dotLevels(x + 12, v128.and(v, m), i, even, table, rest, parts);
  j = dotLevels(x + X16 + 12, bitsFrom(v, 4, m), j, even, table, rest, parts);
  return i32x4.add(i, j);
}

/** The levels of a type as levels32() wants them. */
@inline
export function levelsOf(type: i32): v128 {
  const table = v128.load(tableOf(type));
  return hasLevels(type) ? i8x16.add(table, i8x16.splat(<i8>levelZero())) : table;
}

/** One term of four rows: integer sums times the scales, times that of the activations. */
@inline
export function term(i: v128, scales: v128, d: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(i), f32x4.mul(scales, d));
}

/** Four rows of 32 five-bit weights at w. */
@inline
export function five32(
  w: usize,
  x: usize,
  seed: v128,
  m: v128,
  m07: v128,
  m18: v128,
  m08: v128,
  m10: v128,
  even: v128,
): v128 {
  const a = v128.load(w);
  const b = v128.load(w, 16);
  let i = dotFour(x, v128.and(a, m), seed, even);
  let j = dotFour(x + 4, v128.and(b, m), i32x4.splat(0), even);
  i = dotFour(x + X16 + 4, v128.or(bitsFrom(a, 5, m07), bitsFrom(b, 3, m18)), i, even);
  const c = v128.load(w, 32);
  const d = v128.load(w, 48);
  j = dotFour(x + 8, v128.and(c, m), j, even);
  i = dotFour(x + 12, v128.and(d, m), i, even);
  j = dotFour(x + X16 + 8, v128.or(bitsFrom(c, 5, m07), bitsFrom(d, 3, m18)), j, even);
  const e = v128.load(w, 64);
  i = dotFour(x + X16, v128.and(e, m), i, even);
  const top = v128.or(bitsFrom(b, 2, m08), bitsFrom(d, 1, m10));
  return i32x4.add(i, dotFour(x + X16 + 12, v128.or(bitsFrom(e, 5, m07), top), j, even));
}

// Any type but Q8_0; `parts` as in levels32(), `inPlace` as in nibbles32().
@inline
function blocksOf(
  type: i32,
  parts: bool,
  inPlace: bool,
  w: usize,
  nb: i32,
  px: usize,
  y: usize,
  end: usize,
): void {
  const five = formOf(type) == FIVES;
  const exponents = type == Type.MXFP4;
  const m = quadMask(five ? X1F : X0F);
  const m07 = five ? quadMask(X07) : m;
  const m18 = five ? quadMask(X18) : m;
  const m08 = five ? quadMask(X08) : m;
  const m10 = five ? quadMask(X10) : m;
  const even = quadMask(EVEN);
  const lifted = quadMask(exponents ? ONE_23 : LIFTED);
  const lift = quadMask(exponents ? ONE_21 : LIFT);
  const all = hasTable(type) ? levelsOf(type) : m;
  const table = parts ? i8x16.min_u(all, i8x16.splat(127)) : all;
  const rest = parts ? i8x16.sub(all, table) : m;
  const pd = px + ((<usize>nb * X16) << 1);
  const seeds = (<usize>nb) << 2;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + seeds; d += 4, x += 2 * X16, w += bytesOf(type)) {
      const s = v128.load32_splat(d + seeds);
      const seed = hasMin(type) ? i32x4.splat(0) : s;
      const p = w + codesAt(type);
      const i = five
        ? five32(p, x, seed, m, m07, m18, m08, m10, even)
        : hasTable(type)
          ? levels32(p, x, seed, m, even, table, rest, parts)
          : nibbles32(p, x, seed, m, even, inPlace);
      const scales = exponents ? powers(w, lifted, lift) : liftedScales(w, lifted, lift);
      const v = term(i, scales, v128.load32_splat(d));
      const min = hasMin(type) ? f32x4.mul(liftedScales(w + 8, lifted, lift), s) : s;
      sum = f32x4.add(sum, hasMin(type) ? f32x4.add(v, min) : v);
    }
    v128.store(y, sum);
  }
}

function quadsQ4_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (highInPlace()) blocksOf(Type.Q4_0, false, true, w, nb, px, y, end);
  else blocksOf(Type.Q4_0, false, false, w, nb, px, y, end);
}

function quadsQ4_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (highInPlace()) blocksOf(Type.Q4_1, false, true, w, nb, px, y, end);
  else blocksOf(Type.Q4_1, false, false, w, nb, px, y, end);
}

function quadsQ5_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  blocksOf(Type.Q5_0, false, false, w, nb, px, y, end);
}

function quadsQ5_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  blocksOf(Type.Q5_1, false, false, w, nb, px, y, end);
}

function quadsIQ4_NL(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  blocksOf(Type.IQ4_NL, false, false, w, nb, px, y, end);
}

// IQ4_NL inParts().
function quadsParts(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) blocksOf(Type.IQ4_NL, true, false, w, nb, px, y, end);
}

function quadsMXFP4(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  blocksOf(Type.MXFP4, false, false, w, nb, px, y, end);
}

// 16 signed weights of four rows times lo and hi of the activations (relaxed), or their even and odd ones (baseline).
@inline
function signed16(w: usize, a: v128, b: v128, acc: v128): v128 {
  const w0 = v128.load(w);
  const w1 = v128.load(w, 16);
  const w2 = v128.load(w, 32);
  const w3 = v128.load(w, 48);
  if (ASC_FEATURE_RELAXED_SIMD) {
    const zero = i32x4.splat(0);
    const lo = dotq(w2, lane2(a), dotq(w1, lane1(a), dotq(w0, lane0(a), acc)));
    const hi = dotq(w2, lane2(b), dotq(w1, lane1(b), dotq(w0, lane0(b), zero)));
    return i32x4.sub(dotq(w3, lane3(a), lo), i32x4.shl(dotq(w3, lane3(b), hi), 7));
  } else {
    acc = signedFour(w0, lane0(a), lane0(b), acc);
    acc = signedFour(w1, lane1(a), lane1(b), acc);
    acc = signedFour(w2, lane2(a), lane2(b), acc);
    return signedFour(w3, lane3(a), lane3(b), acc);
  }
}


@inline
function signedFour(w: v128, even: v128, odd: v128, acc: v128): v128 {
  return dotq(i16x8.shr_s(w, 8), odd, dotq(i16x8.shr_s(i16x8.shl(w, 8), 8), even, acc));
}

function quadsQ8_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb) << 6);
  // relaxed: lo of both halves, then hi; baseline: even and odd of the first half, then of the second
  const second: usize = ASC_FEATURE_RELAXED_SIMD ? 32 : 16;
  const half: usize = 48 - second;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + ((<usize>nb) << 2); d += 4, x += 64, w += 136) {
      const i = signed16(w + 8, v128.load(x), v128.load(x + second), i32x4.splat(0));
      const j = signed16(w + 72, v128.load(x + half), v128.load(x + half + second), i);
      sum = f32x4.add(sum, term(j, liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}

// 16 signed weights of four rows, as codes, times as many activations: one dot each where the engine takes any byte.
@inline
function wide16(w: usize, x: v128, acc: v128, bias: v128): v128 {
  acc = dotq(lane0(x), v128.xor(v128.load(w), bias), acc);
  acc = dotq(lane1(x), v128.xor(v128.load(w, 16), bias), acc);
  acc = dotq(lane2(x), v128.xor(v128.load(w, 32), bias), acc);
  return dotq(lane3(x), v128.xor(v128.load(w, 48), bias), acc);
}

// Q8_0 with a SEEDED column (relaxed build only).
function quadsWide(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const bias = wideBias();
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const pd = px + ((<usize>nb) << 5);
  const seeds = (<usize>nb) << 2;
  for (; y < end; y += 16) {
    let sum = f32x4.splat(0);
    let x = px;
    for (let d = pd; d < pd + seeds; d += 4, x += 32, w += 136) {
      const i = wide16(w + 8, v128.load(x), v128.load32_splat(d + seeds), bias);
      const j = wide16(w + 72, v128.load(x, 16), i32x4.splat(0), bias);
      sum = f32x4.add(sum, term(i32x4.add(i, j), liftedScales(w, lifted, lift), v128.load32_splat(d)));
    }
    v128.store(y, sum);
  }
}
