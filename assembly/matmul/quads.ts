// Rows of blocks of 32 in pairs of quads (quants/quads.ts) times one column of Q8_0 or Q8_1 activations: each load of four
// activations feeds eight rows.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/blocks.ts,
// and so are the columns.
//
// Masks stand in locals, loops are rolled and one stream is read: see quants/quad.ts and math/dot.ts. What is done with
// one quad of a pair is done with the other, in step: an engine may make one operation of 256 bits out of both.

import { Type } from "../abi";
import { WIDE_NONE, dotq, sumsPairs, wideBias, wideDot } from "../math/dot";
import { LIFT, LIFTED, lowered, quadMask } from "../quants/quad";
import { BLOCK_SCALES } from "./columns";
import { highInPlace, runsOf, term } from "./quad_runs";
import { inParts, levelsBlocks } from "./quad_tables";
import { lane0, lane1, lane2, lane3 } from "./tile";

/** `pairs` pairs of quads at pw times the column of `nb` blocks at px; results to f32 at py. */
export function dotQuads(type: i32, pw: usize, pairs: i32, nb: i32, px: usize, py: usize): void {
  const end = py + ((<usize>pairs) << 5);
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

function quadsQ4_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (highInPlace()) runsOf(Type.Q4_0, true, false, w, nb, px, y, end);
  else if (sumsPairs()) runsOf(Type.Q4_0, false, true, w, nb, px, y, end);
  else runsOf(Type.Q4_0, false, false, w, nb, px, y, end);
}

function quadsQ4_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (highInPlace()) runsOf(Type.Q4_1, true, false, w, nb, px, y, end);
  else if (sumsPairs()) runsOf(Type.Q4_1, false, true, w, nb, px, y, end);
  else runsOf(Type.Q4_1, false, false, w, nb, px, y, end);
}

function quadsQ5_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (sumsPairs()) runsOf(Type.Q5_0, false, true, w, nb, px, y, end);
  else runsOf(Type.Q5_0, false, false, w, nb, px, y, end);
}

function quadsQ5_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (sumsPairs()) runsOf(Type.Q5_1, false, true, w, nb, px, y, end);
  else runsOf(Type.Q5_1, false, false, w, nb, px, y, end);
}

function quadsIQ4_NL(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  levelsBlocks(Type.IQ4_NL, false, w, nb, px, y, end);
}

// IQ4_NL inParts().
function quadsParts(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) levelsBlocks(Type.IQ4_NL, true, w, nb, px, y, end);
}

function quadsMXFP4(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  levelsBlocks(Type.MXFP4, false, w, nb, px, y, end);
}

// Four signed weights of each row times lo of the activations (relaxed), or their even and odd ones (baseline).
@inline
function signedFour(v: v128, e: v128, o: v128, acc: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(v, e, acc);
  else return dotq(i16x8.shr_s(v, 8), o, dotq(i16x8.shr_s(i16x8.shl(v, 8), 8), e, acc));
}

// The same times hi of the activations, in the relaxed build only.
@inline
function highFour(v: v128, o: v128, acc: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return dotq(v, o, acc);
  else return acc;
}

// Where activations 4t .. 4t + 3, or the even ones of them, stand.
@inline
function placeOf(t: i32): usize {
  return <usize>(4 * t + (ASC_FEATURE_RELAXED_SIMD || t < 4 ? 0 : 16));
}

// lo - 128 * hi
@inline
function joined(lo: v128, hi: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? i32x4.sub(lo, i32x4.shl(hi, 7)) : lo;
}

function quadsQ8_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const last = px + <usize>nb * (64 + BLOCK_SCALES);
  // relaxed: lo of all, then hi; baseline: even ones of 16, then odd ones
  const second: usize = ASC_FEATURE_RELAXED_SIMD ? 32 : 16;
  for (; y < end; y += 32) {
    let sum = f32x4.splat(0);
    let other = sum;
    for (let x = px; x < last; x += 64 + BLOCK_SCALES, w += 272) {
      let i = i32x4.splat(0);
      let j = i;
      let k = i;
      let l = i;
      let v = v128.load(w, 16);
      let u = v128.load(w, 32);
      let e = v128.load32_splat(x + placeOf(0));
      let o = v128.load32_splat(x + placeOf(0) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 48);
      u = v128.load(w, 64);
      e = v128.load32_splat(x + placeOf(1));
      o = v128.load32_splat(x + placeOf(1) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 80);
      u = v128.load(w, 96);
      e = v128.load32_splat(x + placeOf(2));
      o = v128.load32_splat(x + placeOf(2) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 112);
      u = v128.load(w, 128);
      e = v128.load32_splat(x + placeOf(3));
      o = v128.load32_splat(x + placeOf(3) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 144);
      u = v128.load(w, 160);
      e = v128.load32_splat(x + placeOf(4));
      o = v128.load32_splat(x + placeOf(4) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 176);
      u = v128.load(w, 192);
      e = v128.load32_splat(x + placeOf(5));
      o = v128.load32_splat(x + placeOf(5) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 208);
      u = v128.load(w, 224);
      e = v128.load32_splat(x + placeOf(6));
      o = v128.load32_splat(x + placeOf(6) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      v = v128.load(w, 240);
      u = v128.load(w, 256);
      e = v128.load32_splat(x + placeOf(7));
      o = v128.load32_splat(x + placeOf(7) + second);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      k = highFour(v, o, k);
      l = highFour(u, o, l);
      const dx = v128.load32_splat(x + 64);
      sum = f32x4.add(sum, term(joined(i, k), lowered(v128.load16x4_s(w), lifted, lift), dx));
      other = f32x4.add(other, term(joined(j, l), lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
    }
    v128.store(y, sum);
    v128.store(y, other, 16);
  }
}

// Q8_0 with a SEEDED column (relaxed build only): signed weights as codes, one dot where the engine takes any byte.
// Activations by shuffles: as broadcasts, with twice the loads of weights that nibbles have, 0.85 as fast from memory.
function quadsWide(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const bias = wideBias();
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const last = px + <usize>nb * (32 + BLOCK_SCALES);
  for (; y < end; y += 32) {
    let sum = f32x4.splat(0);
    let other = sum;
    for (let x = px; x < last; x += 32 + BLOCK_SCALES, w += 272) {
      let i = v128.load32_splat(x + 36);
      let j = i;
      let c = v128.load(x);
      let e = lane0(c);
      i = dotq(e, v128.xor(v128.load(w, 16), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 32), bias), j);
      e = lane1(c);
      i = dotq(e, v128.xor(v128.load(w, 48), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 64), bias), j);
      e = lane2(c);
      i = dotq(e, v128.xor(v128.load(w, 80), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 96), bias), j);
      e = lane3(c);
      i = dotq(e, v128.xor(v128.load(w, 112), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 128), bias), j);
      c = v128.load(x, 16);
      e = lane0(c);
      i = dotq(e, v128.xor(v128.load(w, 144), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 160), bias), j);
      e = lane1(c);
      i = dotq(e, v128.xor(v128.load(w, 176), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 192), bias), j);
      e = lane2(c);
      i = dotq(e, v128.xor(v128.load(w, 208), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 224), bias), j);
      e = lane3(c);
      i = dotq(e, v128.xor(v128.load(w, 240), bias), i);
      j = dotq(e, v128.xor(v128.load(w, 256), bias), j);
      const dx = v128.load32_splat(x + 32);
      sum = f32x4.add(sum, term(i, lowered(v128.load16x4_s(w), lifted, lift), dx));
      other = f32x4.add(other, term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
    }
    v128.store(y, sum);
    v128.store(y, other, 16);
  }
}
