// Rows in quads (quants/quads.ts) unpacked to the panels of matmul/blocks.ts and matmul/super_panel.ts.
//
// A vector of a quad, four bytes of each of its rows, is half of eight rows' as it stands in a panel. Codes are at w, those
// of a run or block `step` bytes after those of the one before.

import { Type } from "../abi";
import { lookup, signedCodes, sumsPairs, unsignedCodes, wideBias, wideZero } from "../math/dot";
import { LIFT, LIFTED, X0F, bitsFrom, liftedScales, powers, quadMask } from "../quants/quad";
import { BYTES, FIVES, NIBBLES, SIXES, THREES, TWOS, fourOf, runBytes } from "../quants/quad_codes";
import {
  bytesOf,
  codesAt,
  formOf,
  hasLevels,
  hasMin,
  hasTable,
  isSuper,
  tableOf,
  zeroOf,
} from "../quants/quad_types";
import { minsOf, scalesOf } from "../quants/quads_256";
import { isWide } from "../quants/super";
import { isMirrored, mirror } from "./blocks";
import { SEEDED, codeBytes } from "./columns";
import { GROUP, factorsAt, pairScales, scalesAt, weightsAt } from "./super_panel";

/** Unpacks a pair of quads of `nb` blocks to a panel. */
export function unpackQuads(type: i32, pw: usize, nb: i32, pp: usize): void {
  unpackQuad(type, pw, 0, nb, pp);
  unpackQuad(type, pw, 1, nb, pp + 16);
  if (isMirrored(type)) mirror(nb, pp);
  if (isSuper(type) && sumsPairs()) pairScales(nb, pp);
}

// Quad h of a pair.
function unpackQuad(type: i32, pw: usize, h: i32, nb: i32, pp: usize): void {
  if (isSuper(type)) unpackSupers(type, pw, h, nb, pp);
  else unpackBlocks(type, pw, h, nb, pp);
}

/** The code of a level of 0 in a panel. */
export function panelLevelZero(): i32 {
  if (ASC_FEATURE_RELAXED_SIMD) return wideZero();
  else return 128;
}

// What the sums of a group count for levels, times the scale: seeds are added (matmul/super_panel.ts).
@inline
function levelWeight(): i32 {
  return sumsPairs() ? 1 : -panelLevelZero();
}

// `count` times 32 codes of four rows, `step` bytes apart.
function unpackRuns(type: i32, w: usize, step: usize, count: i32, pp: usize): void {
  switch (formOf(type)) {
    case NIBBLES:
      if (hasTable(type)) unpackLevels(type, w, step, count, pp);
      else unpackNibbles(w, step, count, pp);
      break;
    case FIVES:
      return unpackFives(w, step, count, pp);
    case BYTES:
      return unpackBytes(w, step, count, pp);
    case SIXES:
      return unpackSixes(w, step, count, pp);
    case THREES:
      return unpackThrees(w, step, count, pp);
    default:
      return unpackTwos(w, step, count, pp);
  }
}

// Codes of four consecutive k: place t of the eight places of 32.
@inline
function storeFour(p: usize, t: i32, v: v128, signed: bool, bias: v128): void {
  p += (<usize>(t & 3)) << 5;
  if (t > 3) p += GROUP;
  if (ASC_FEATURE_RELAXED_SIMD) v128.store(p, signed ? v128.xor(v, bias) : v);
  else {
    v128.store(p, signed ? signedCodes(v, 0) : unsignedCodes(v, 0));
    v128.store(p, signed ? signedCodes(v, 1) : unsignedCodes(v, 1), 128);
  }
}


@inline
function unpackForm(form: i32, w: usize, step: usize, count: i32, pp: usize): void {
  const bias = wideBias();
  for (; count > 0; count--, w += step, pp += 2 * GROUP) {
    storeFour(pp, 0, fourOf(form, w, 0), form == BYTES, bias);
    storeFour(pp, 1, fourOf(form, w, 1), form == BYTES, bias);
    storeFour(pp, 2, fourOf(form, w, 2), form == BYTES, bias);
    storeFour(pp, 3, fourOf(form, w, 3), form == BYTES, bias);
    storeFour(pp, 4, fourOf(form, w, 4), form == BYTES, bias);
    storeFour(pp, 5, fourOf(form, w, 5), form == BYTES, bias);
    storeFour(pp, 6, fourOf(form, w, 6), form == BYTES, bias);
    storeFour(pp, 7, fourOf(form, w, 7), form == BYTES, bias);
  }
}

// Each vector is loaded once: the compiler cannot know that stores leave it as it is.
function unpackNibbles(w: usize, step: usize, count: i32, pp: usize): void {
  const m = quadMask(X0F);
  for (; count > 0; count--, w += step, pp += 2 * GROUP) {
    storeNibbles(pp, 0, v128.load(w), m);
    storeNibbles(pp, 1, v128.load(w, 32), m);
    storeNibbles(pp, 2, v128.load(w, 64), m);
    storeNibbles(pp, 3, v128.load(w, 96), m);
  }
}


@inline
function storeNibbles(p: usize, t: i32, v: v128, m: v128): void {
  storeFour(p, t, v128.and(v, m), false, m);
  storeFour(p, t + 4, bitsFrom(v, 4, m), false, m);
}

function unpackFives(w: usize, step: usize, count: i32, pp: usize): void {
  unpackForm(FIVES, w, step, count, pp);
}

function unpackBytes(w: usize, step: usize, count: i32, pp: usize): void {
  unpackForm(BYTES, w, step, count, pp);
}

function unpackSixes(w: usize, step: usize, count: i32, pp: usize): void {
  unpackForm(SIXES, w, step, count, pp);
}

function unpackThrees(w: usize, step: usize, count: i32, pp: usize): void {
  unpackForm(THREES, w, step, count, pp);
}

function unpackTwos(w: usize, step: usize, count: i32, pp: usize): void {
  unpackForm(TWOS, w, step, count, pp);
}

function unpackLevels(type: i32, w: usize, step: usize, count: i32, pp: usize): void {
  const zero = hasLevels(type) ? panelLevelZero() : 0;
  const table = i8x16.add(v128.load(tableOf(type)), i8x16.splat(<i8>zero));
  for (; count > 0; count--, w += step - 128, pp += 2 * GROUP - 128) {
    for (const end = w + 128; w < end; w += 32, pp += 32) {
      storeFour(pp, 0, lookup(table, fourOf(NIBBLES, w, 0)), false, table);
      storeFour(pp, 4, lookup(table, fourOf(NIBBLES, w, 4)), false, table);
    }
  }
}

function unpackBlocks(type: i32, pw: usize, h: i32, nb: i32, pp: usize): void {
  const bytes = bytesOf(type) * 2;
  unpackRuns(type, pw + 2 * codesAt(type) + ((<usize>h) << 4), bytes, nb, pp);
  const pd = pp + 8 * codeBytes(SEEDED, nb);
  if (type == Type.MXFP4) unpackPowers(pw + ((<usize>h) << 2), bytes, nb, pd);
  else unpackScales(pw + ((<usize>h) << 3), bytes, nb, pd);
  if (hasMin(type)) unpackScales(pw + 16 + ((<usize>h) << 3), bytes, nb, pd + ((<usize>nb) << 5));
}

// Scales of `nb` blocks, `bytes` apart.
function unpackScales(pw: usize, bytes: usize, nb: i32, pd: usize): void {
  const lifted = quadMask(LIFTED);
  const lift = quadMask(LIFT);
  for (const end = pd + ((<usize>nb) << 5); pd < end; pd += 32, pw += bytes) {
    v128.store(pd, liftedScales(pw, lifted, lift));
  }
}

function unpackPowers(pw: usize, bytes: usize, nb: i32, pd: usize): void {
  for (const end = pd + ((<usize>nb) << 5); pd < end; pd += 32, pw += bytes) {
    v128.store(pd, powers(pw));
  }
}

function scalesAtQuad(p: usize): v128 {
  return liftedScales(p, quadMask(LIFTED), quadMask(LIFT));
}

function unpackSupers(type: i32, pw: usize, h: i32, nb: i32, pp: usize): void {
  const factor = hasLevels(type) ? levelWeight() : hasMin(type) ? 1 : -zeroOf(type);
  let ps = pp + scalesAt(nb);
  let pm = pp + weightsAt(nb);
  let pd = pp + factorsAt(nb);
  for (let b = 0; b < nb; b++, ps += 512, pm += 256, pd += 64) {
    const factors = pw + ((<usize>h) << 3);
    v128.store(pd, scalesAtQuad(factors));
    if (hasMin(type)) v128.store(pd, scalesAtQuad(factors + 16), 32);
    for (let i = 0; i < (isWide(type) ? 2 : 4); i++) {
      const s = scalesOf(type, pw, h, i);
      const m = hasMin(type) ? minsOf(type, pw, h, i) : s;
      storeScales(s, ps + ((<usize>i) << 7));
      storePairs(m, factor, pm + ((<usize>i) << 6));
    }
    unpackRuns(type, pw + 2 * codesAt(type) + ((<usize>h) << 4), 2 * runBytes(formOf(type)), 8, pp);
    pw += 2 * bytesOf(type);
    pp += 16 * GROUP;
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

// Minima or scales times a factor, in pairs.
function storePairs(m: v128, factor: i32, p: usize): void {
  const z = i16x8.splat(<i16>factor);
  v128.store(p, i16x8.mul(firstPair(m), z));
  v128.store(p, i16x8.mul(firstPair(i32x4.shr_u(m, 16)), z), 32);
}
