// Rows in quads (quants/quads.ts) unpacked to the panels of matmul/blocks.ts and matmul/super_panel.ts.
//
// A vector of a quad, four bytes of each of its rows, is half of eight rows' as it stands in a panel.

import { Type } from "../abi";
import { VECTORS, signedCodes, unsignedCodes, wideBias } from "../math/dot";
import { LIFT, LIFTED, liftedScales, quadMask } from "../quants/quad";
import { QuadQ4_K, QuadQ6_K } from "../quants/quads_256";
import { QuadQ4_0, QuadQ5_0, QuadQ8_0 } from "../quants/quads_32";
import { SEEDED, codeBytes } from "./columns";
import { GROUP, factorsAt, scalesAt, weightsAt } from "./super_panel";

/** Unpacks two quads of `nb` blocks, nbw bytes a row, to a panel; of four `rows` the one quad twice. */
export function unpackQuads(type: i32, pw: usize, nbw: usize, rows: i32, nb: i32, pp: usize): void {
  unpackQuad(type, pw, nb, pp);
  unpackQuad(type, rows > 4 ? pw + 4 * nbw : pw, nb, pp + 16);
}

function unpackQuad(type: i32, pw: usize, nb: i32, pp: usize): void {
  switch (type) {
    case Type.Q4_0:
      return unpackBlocks<QuadQ4_0>(pw, nb, pp);
    case Type.Q5_0:
      return unpackBlocks<QuadQ5_0>(pw, nb, pp);
    case Type.Q8_0:
      return unpackBlocks<QuadQ8_0>(pw, nb, pp);
    case Type.Q4_K:
      return unpackSupers<QuadQ4_K>(pw, nb, pp);
    case Type.Q6_K:
      return unpackSupers<QuadQ6_K>(pw, nb, pp);
    default:
      unreachable();
  }
}

// Codes of four consecutive k: place t of the four places of 16.
@inline
function storeFour(p: usize, t: i32, v: v128, signed: bool, bias: v128): void {
  p += (<usize>t) << 5;
  if (ASC_FEATURE_RELAXED_SIMD) v128.store(p, signed ? v128.xor(v, bias) : v);
  else {
    v128.store(p, signed ? signedCodes(v, 0) : unsignedCodes(v, 0));
    v128.store(p, signed ? signedCodes(v, 1) : unsignedCodes(v, 1), 128);
  }
}

function unpackBlocks<T>(pw: usize, nb: i32, pp: usize): void {
  const t = changetype<T>(<usize>0);
  const bias = wideBias();
  let pd = pp + 8 * codeBytes(SEEDED, nb);
  for (const end = pd + ((<usize>nb) << 5); pd < end; pd += 32, pw += t.bytes()) {
    v128.store(pd, liftedScales(pw, quadMask(LIFTED), quadMask(LIFT)));
    storeFour(pp, 0, t.four(pw, 0), t.signed(), bias);
    storeFour(pp, 1, t.four(pw, 1), t.signed(), bias);
    storeFour(pp, 2, t.four(pw, 2), t.signed(), bias);
    storeFour(pp, 3, t.four(pw, 3), t.signed(), bias);
    pp += (<usize>VECTORS) << 6;
    storeFour(pp, 0, t.four(pw, 4), t.signed(), bias);
    storeFour(pp, 1, t.four(pw, 5), t.signed(), bias);
    storeFour(pp, 2, t.four(pw, 6), t.signed(), bias);
    storeFour(pp, 3, t.four(pw, 7), t.signed(), bias);
    pp += (<usize>VECTORS) << 6;
  }
}

function unpackSupers<T>(pw: usize, nb: i32, pp: usize): void {
  const t = changetype<T>(<usize>0);
  const none = i32x4.splat(0);
  let ps = pp + scalesAt(nb);
  let pm = pp + weightsAt(nb);
  let pd = pp + factorsAt(nb);
  for (let b = 0; b < nb; b++, pw += t.bytes(), ps += 512, pm += 256, pd += 64) {
    v128.store(pd, liftedScales(pw, quadMask(LIFTED), quadMask(LIFT)));
    if (t.hasMin()) v128.store(pd, liftedScales(pw + t.dminAt(), quadMask(LIFTED), quadMask(LIFT)), 32);
    for (let g = 0; g < 16; g++, pp += GROUP) {
      storeFour(pp, 0, t.four(pw, g, 0), false, none);
      storeFour(pp, 1, t.four(pw, g, 1), false, none);
      storeFour(pp, 2, t.four(pw, g, 2), false, none);
      storeFour(pp, 3, t.four(pw, g, 3), false, none);
    }
    for (let i = 0; i < (t.wide() ? 2 : 4); i++) {
      const s = t.scales(pw, i);
      storeScales(s, ps + ((<usize>i) << 7));
      if (t.hasMin()) storeMins(t.mins(pw, i), pm + ((<usize>i) << 7));
      else storeZeros(s, <i16>t.zero(), pm + ((<usize>i) << 6));
    }
  }
}

// Byte j of each lane, sign-extended, to place j.
@inline
function storeScales(s: v128, p: usize): void {
  v128.store(p, i32x4.shr_s(i32x4.shl(s, 24), 24));
  v128.store(p, i32x4.shr_s(i32x4.shl(s, 16), 24), 32);
  v128.store(p, i32x4.shr_s(i32x4.shl(s, 8), 24), 64);
  v128.store(p, i32x4.shr_s(s, 24), 96);
}

// Bytes 0 and 1 of each lane, sign-extended, as a pair of i16.
@inline
function firstPair(s: v128): v128 {
  const a = i16x8.shr_s(i16x8.shl(s, 8), 8);
  const b = i16x8.shr_s(s, 8);
  return i8x16.shuffle(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}

// Zero point times scale, in pairs.
@inline
function storeZeros(s: v128, zero: i16, p: usize): void {
  v128.store(p, i16x8.mul(firstPair(s), i16x8.splat(zero)));
  v128.store(p, i16x8.mul(firstPair(i32x4.shr_u(s, 16)), i16x8.splat(zero)), 32);
}

// Each minimum twice.
@inline
function storeMins(m: v128, p: usize): void {
  v128.store(p, i8x16.swizzle(m, v128.load(TWICE)));
  v128.store(p, i8x16.swizzle(m, v128.load(TWICE, 16)), 32);
  v128.store(p, i8x16.swizzle(m, v128.load(TWICE, 32)), 64);
  v128.store(p, i8x16.swizzle(m, v128.load(TWICE, 48)), 96);
}

// Byte j of each lane as two i16, for j = 0..3; 255 clears.
// prettier-ignore
const TWICE = memory.data<u8>([
  0, 255, 0, 255, 4, 255, 4, 255, 8, 255, 8, 255, 12, 255, 12, 255,
  1, 255, 1, 255, 5, 255, 5, 255, 9, 255, 9, 255, 13, 255, 13, 255,
  2, 255, 2, 255, 6, 255, 6, 255, 10, 255, 10, 255, 14, 255, 14, 255,
  3, 255, 3, 255, 7, 255, 7, 255, 11, 255, 11, 255, 15, 255, 15, 255,
], 16);
