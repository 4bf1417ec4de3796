// Rows of blocks of 32 in pairs of quads (quants/quads.ts) times one column of Q8_0 or Q8_1 activations: each load of four
// activations feeds eight rows.
//
// Every row of a result has the bits that the same row in file order has: the arithmetic is that of matmul/blocks.ts,
// and so are the columns.
//
// Masks stand in locals, loops are rolled and one stream is read: see quants/quad.ts and math/dot.ts. What is done with
// one quad of a pair is done with the other, in step: an engine may make one operation of 256 bits out of both.

import { Type } from "../abi";
import { dotSigns, dotq, onesPairs, sumsPairs, wideBias } from "../math/dot";
import { LIFT, LIFTED, lowered, quadMask } from "../quants/quad";
import { BLOCK_SCALES } from "./columns";
import { highInPlace, runsOf, term } from "./quad_runs";
import { levelsBlocks } from "./quad_tables";
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
      if (ASC_FEATURE_RELAXED_SIMD) {
        if (sumsPairs()) quadsSigns(pw, nb, px, py, end);
        else quadsWide(pw, nb, px, py, end);
      } else quadsQ8_0(pw, nb, px, py, end);
      break;
    case Type.IQ4_NL:
      return quadsIQ4_NL(pw, nb, px, py, end);
    case Type.MXFP4:
      return quadsMXFP4(pw, nb, px, py, end);
    default:
      unreachable();
  }
}

function quadsQ4_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q4_0, false, true, w, nb, px, y, end);
    if (highInPlace()) return runsOf(Type.Q4_0, true, false, w, nb, px, y, end);
  }
  runsOf(Type.Q4_0, false, false, w, nb, px, y, end);
}

function quadsQ4_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q4_1, false, true, w, nb, px, y, end);
    if (highInPlace()) return runsOf(Type.Q4_1, true, false, w, nb, px, y, end);
  }
  runsOf(Type.Q4_1, false, false, w, nb, px, y, end);
}

function quadsQ5_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q5_0, false, true, w, nb, px, y, end);
  }
  runsOf(Type.Q5_0, false, false, w, nb, px, y, end);
}

function quadsQ5_1(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return runsOf(Type.Q5_1, false, true, w, nb, px, y, end);
  }
  runsOf(Type.Q5_1, false, false, w, nb, px, y, end);
}

function quadsIQ4_NL(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return levelsBlocks(Type.IQ4_NL, true, w, nb, px, y, end);
  }
  levelsBlocks(Type.IQ4_NL, false, w, nb, px, y, end);
}

function quadsMXFP4(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (sumsPairs()) return levelsBlocks(Type.MXFP4, true, w, nb, px, y, end);
  }
  levelsBlocks(Type.MXFP4, false, w, nb, px, y, end);
}

// Four signed weights of each row times even and odd activations.
@inline
function signedFour(v: v128, e: v128, o: v128, acc: v128): v128 {
  return dotq(i16x8.shr_s(v, 8), o, dotq(i16x8.shr_s(i16x8.shl(v, 8), 8), e, acc));
}

// Q8_0 in the baseline build.
function quadsQ8_0(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const last = px + <usize>nb * (64 + BLOCK_SCALES);
  for (; y < end; y += 32) {
    let sum = f32x4.splat(0);
    let other = sum;
    for (let x = px; x < last; x += 64 + BLOCK_SCALES, w += 272) {
      let i = i32x4.splat(0);
      let j = i;
      let v = v128.load(w, 16);
      let u = v128.load(w, 32);
      let e = v128.load32_splat(x);
      let o = v128.load32_splat(x, 16);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 48);
      u = v128.load(w, 64);
      e = v128.load32_splat(x, 4);
      o = v128.load32_splat(x, 20);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 80);
      u = v128.load(w, 96);
      e = v128.load32_splat(x, 8);
      o = v128.load32_splat(x, 24);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 112);
      u = v128.load(w, 128);
      e = v128.load32_splat(x, 12);
      o = v128.load32_splat(x, 28);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 144);
      u = v128.load(w, 160);
      e = v128.load32_splat(x, 32);
      o = v128.load32_splat(x, 48);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 176);
      u = v128.load(w, 192);
      e = v128.load32_splat(x, 36);
      o = v128.load32_splat(x, 52);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 208);
      u = v128.load(w, 224);
      e = v128.load32_splat(x, 40);
      o = v128.load32_splat(x, 56);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      v = v128.load(w, 240);
      u = v128.load(w, 256);
      e = v128.load32_splat(x, 44);
      o = v128.load32_splat(x, 60);
      i = signedFour(v, e, o, i);
      j = signedFour(u, e, o, j);
      const dx = v128.load32_splat(x + 64);
      sum = f32x4.add(sum, term(i, lowered(v128.load16x4_s(w), lifted, lift), dx));
      other = f32x4.add(other, term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
    }
    v128.store(y, sum);
    v128.store(y, other, 16);
  }
}

// Q8_0 with a SIGNS column, where dots are rows of instructions (relaxed build only).
function quadsSigns(w: usize, nb: i32, px: usize, y: usize, end: usize): void {
  const ones = onesPairs();
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  const last = px + <usize>nb * (64 + BLOCK_SCALES);
  for (; y < end; y += 32) {
    let sum = f32x4.splat(0);
    let other = sum;
    for (let x = px; x < last; x += 64 + BLOCK_SCALES, w += 272) {
      let i = v128.load32_splat(x, 68);
      let j = i;
      let e = v128.load32_splat(x);
      let s = v128.load32_splat(x, 32);
      i = dotSigns(v128.load(w, 16), s, e, i, ones);
      j = dotSigns(v128.load(w, 32), s, e, j, ones);
      e = v128.load32_splat(x, 4);
      s = v128.load32_splat(x, 36);
      i = dotSigns(v128.load(w, 48), s, e, i, ones);
      j = dotSigns(v128.load(w, 64), s, e, j, ones);
      e = v128.load32_splat(x, 8);
      s = v128.load32_splat(x, 40);
      i = dotSigns(v128.load(w, 80), s, e, i, ones);
      j = dotSigns(v128.load(w, 96), s, e, j, ones);
      e = v128.load32_splat(x, 12);
      s = v128.load32_splat(x, 44);
      i = dotSigns(v128.load(w, 112), s, e, i, ones);
      j = dotSigns(v128.load(w, 128), s, e, j, ones);
      e = v128.load32_splat(x, 16);
      s = v128.load32_splat(x, 48);
      i = dotSigns(v128.load(w, 144), s, e, i, ones);
      j = dotSigns(v128.load(w, 160), s, e, j, ones);
      e = v128.load32_splat(x, 20);
      s = v128.load32_splat(x, 52);
      i = dotSigns(v128.load(w, 176), s, e, i, ones);
      j = dotSigns(v128.load(w, 192), s, e, j, ones);
      e = v128.load32_splat(x, 24);
      s = v128.load32_splat(x, 56);
      i = dotSigns(v128.load(w, 208), s, e, i, ones);
      j = dotSigns(v128.load(w, 224), s, e, j, ones);
      e = v128.load32_splat(x, 28);
      s = v128.load32_splat(x, 60);
      i = dotSigns(v128.load(w, 240), s, e, i, ones);
      j = dotSigns(v128.load(w, 256), s, e, j, ones);
      const dx = v128.load32_splat(x + 64);
      sum = f32x4.add(sum, term(i, lowered(v128.load16x4_s(w), lifted, lift), dx));
      other = f32x4.add(other, term(j, lowered(v128.load16x4_s(w, 8), lifted, lift), dx));
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
