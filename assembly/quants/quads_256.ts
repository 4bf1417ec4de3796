// Quads of the types with super-blocks of 256 (quants/quads.ts). Codes: eight runs of 32 (quants/quad_codes.ts).
//
//   Q4_K    576 = d[4] | dmin[4] | S0 S1 S2 | NIBBLES
//   Q5_K    704 = d[4] | dmin[4] | S0 S1 S2 | FIVES
//                 byte j of row r in Si, low six bits: S0 scale j, S1 scale 4 + j, S2 min j; min 4 + j, least significant
//                 part first: S0[7:6] S1[7:6] S2[7:6]
//   Q2_K    336 = d[4] | dmin[4] | S0..S3 | TWOS
//                 byte j of row r in Si: scale of group 4i + j in the low nibble, minimum in the high one
//   Q3_K    440 = d[4] | L0 L1 H | THREES
//                 scale of group 4i + j: byte j of L0, L1 (low nibbles: i = 0, 1; high ones: 2, 3), upper two bits from
//                 bit 2i of byte j of H; 32 more than its value
//   Q6_K    840 = d[4] | S0..S3 | SIXES
//                 byte j of row r in Si: scale of group 4i + j
//   IQ4_XS  544 = d[4] | H u16[4] | L | NIBBLES
//                 scale j of a run: low nibble of byte 3 - j of L, scale 4 + j: the high one. Upper two bits, of scales 0 .. 7:
//                 H[15:14] H[7:6] H[13:12] H[5:4] H[11:10] H[3:2] H[9:8] H[1:0]; 32 more than its value

import { Type } from "../abi";
import { storeTransposed } from "../math/dot";
import { IQ4_XS } from "./iq4_xs";
import { Q2_K, packPairs } from "./q2_k";
import { Q3_K } from "./q3_k";
import { Q4_K, packRuns } from "./q4_k";
import { Q5_K } from "./q5_k";
import { Q6_K, packHalf } from "./q6_k";
import {
  X03,
  X0F,
  X20,
  X30,
  X3F,
  bitsFrom,
  factorsAt,
  interleave,
  liftScales,
  quadMask,
  separate,
  unliftScales,
  vectorsAt,
} from "./quad";
import { fourAt, packFours, runBytes, sixFromTops } from "./quad_codes";
import { codesAt, factorAt, formOf, hasMin } from "./quad_types";
import { packTops } from "./super";

// Functions of a block take the place of a pair of quads and which of the two it is, `h`.

/** Scales 4i .. 4i + 3 of four rows at p, as signed bytes; types whose scales serve 32 weights have eight. */
export function scalesOf(type: i32, p: usize, h: i32, i: i32): v128 {
  const at = p + ((<usize>(2 * i + h)) << 4);
  switch (type) {
    case Type.Q2_K:
      return v128.and(v128.load(at, 32), quadMask(X0F));
    case Type.Q3_K:
      return scalesQ3_K(p, h, i);
    case Type.Q6_K:
      return v128.load(at, 16);
    case Type.IQ4_XS:
      return scalesIQ4_XS(p, h, i);
    default:
      return v128.and(v128.load(at, 32), quadMask(X3F));
  }
}


@inline
export function scalesQ3_K(p: usize, h: i32, i: i32): v128 {
  p += (<usize>h) << 4;
  const low = bitsFrom(v128.load(p + 16 + ((<usize>(i & 1)) << 5)), (i >> 1) << 2, quadMask(X0F));
  const high = i16x8.shl(bitsFrom(v128.load(p, 80), 2 * i, quadMask(X03)), 4);
  return i8x16.sub(v128.or(low, high), quadMask(X20));
}

/** The upper two bits of scales: in byte 3 - j of row r [5:4] of scale j, [1:0] of scale 4 + j; other bits are not its own. */
@inline
export function topsIQ4_XS(p: usize, h: i32): v128 {
  const v = v128.load16x4_u(p + ((<usize>h) << 3), 16);
  return v128.or(v, i32x4.shl(v, 14));
}

function scalesIQ4_XS(p: usize, h: i32, i: i32): v128 {
  const low = bitsFrom(v128.load(p + ((<usize>h) << 4), 32), 4 * i, quadMask(X0F));
  const high = v128.and(i32x4.shl(topsIQ4_XS(p, h), 4 * i), quadMask(X30));
  const v = i8x16.sub(v128.or(low, high), quadMask(X20));
  return i8x16.shuffle(v, v, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}

/** Minima 4i .. 4i + 3. */
export function minsOf(type: i32, p: usize, h: i32, i: i32): v128 {
  p += (<usize>h) << 4;
  if (type == Type.Q2_K) return bitsFrom(v128.load(p + 32 + ((<usize>i) << 5)), 4, quadMask(X0F));
  const c = v128.load(p, 96);
  if (i == 0) return v128.and(c, quadMask(X3F));
  return sixFromTops(v128.load(p, 32), v128.load(p, 64), c);
}

/** The super-blocks at p of four rows, `step` apart, to quad h of the pair at pq; pt is scratch of 128 bytes. */
export function gatherSuper(type: i32, p: usize, step: usize, pq: usize, h: i32, pt: usize): void {
  liftScales(p + factorAt(type), step, factorsAt(pq, h));
  if (hasMin(type)) liftScales(p + factorAt(type) + 2, step, factorsAt(pq, h) + 16);
  const scales = vectorsAt(pq, h, hasMin(type) ? 16 : 8);
  const codes = vectorsAt(pq, h, codesAt(type));
  switch (type) {
    case Type.Q2_K:
      interleave(p, step, scales);
      return gatherRuns<Q2_K>(type, p, step, codes, pt);
    case Type.Q3_K:
      // the last four bytes of a row's 16 are no scales: codes take their place
      interleave(p + 96, step, scales);
      return gatherRuns<Q3_K>(type, p, step, codes, pt);
    case Type.Q4_K:
      gatherSixes(p + 4, step, scales);
      return gatherRuns<Q4_K>(type, p, step, codes, pt);
    case Type.Q5_K:
      gatherSixes(p + 4, step, scales);
      return gatherRuns<Q5_K>(type, p, step, codes, pt);
    case Type.Q6_K:
      interleave(p + 192, step, scales);
      return gatherRuns<Q6_K>(type, p, step, codes, pt);
    default:
      for (let r = 0; r < 4; r++) gatherScalesIQ4_XS(p + <usize>r * step + 2, pq, h, r);
      for (let i: usize = 0; i < 8; i++) interleave(p + 8 + (i << 4), step, codes + (i << 7));
  }
}


@inline
function gatherRuns<T>(type: i32, p: usize, step: usize, codes: usize, pt: usize): void {
  for (let i = 0; i < 8; i++, codes += 2 * runBytes(formOf(type))) {
    for (let h = 0; h < 2; h++) {
      const a = fileCodes<T>(p, i, h);
      const b = fileCodes<T>(p + step, i, h);
      const c = fileCodes<T>(p + 2 * step, i, h);
      storeTransposed(pt + ((<usize>h) << 6), 16, a, b, c, fileCodes<T>(p + 3 * step, i, h));
    }
    packFours(formOf(type), pt, codes);
  }
}

// 16 codes of run i of a super-block in file order.
function fileCodes<T>(p: usize, i: i32, h: i32): v128 {
  return changetype<T>(<usize>0).codes(p, i >> 2, i & 3, h);
}

// Six-bit scales and minima (quants/six.ts) of four rows to S0, S1, S2.
function gatherSixes(p: usize, step: usize, pq: usize): void {
  for (const end = pq + 16; pq < end; pq += 4, p += step) {
    const a = load<u32>(p);
    const b = load<u32>(p, 4);
    const c = load<u32>(p, 8);
    const high = ((c >> 4) & 0x0f0f0f0f) | ((b >> 2) & 0x30303030);
    const scales = (c & 0x0f0f0f0f) | ((a >> 2) & 0x30303030);
    store<u32>(pq, (a & 0x3f3f3f3f) | ((high & 0x03030303) << 6));
    store<u32>(pq, scales | (((high >> 2) & 0x03030303) << 6), 32);
    store<u32>(pq, (b & 0x3f3f3f3f) | (((high >> 4) & 0x03030303) << 6), 64);
  }
}

function scatterSixes(pq: usize, p: usize): void {
  const a = load<u32>(pq);
  const b = load<u32>(pq, 32);
  const c = load<u32>(pq, 64);
  const high = ((a >> 6) & 0x03030303) | ((b >> 4) & 0x0c0c0c0c) | ((c >> 2) & 0x30303030);
  store<u32>(p, (a & 0x3f3f3f3f) | ((b & 0x30303030) << 2));
  store<u32>(p, (c & 0x3f3f3f3f) | ((high & 0x30303030) << 2), 4);
  store<u32>(p, (b & 0x0f0f0f0f) | ((high & 0x0f0f0f0f) << 4), 8);
}

// Place in H of the upper bits of scale j.
@inline
function placeInH(j: u32): u32 {
  return ((~j & 1) << 3) + (~j & 2) + 4 - (j & 4);
}

// Place in L of the lower bits.
@inline
function placeInL(j: u32): u32 {
  return ((~j & 3) << 3) + (j & 4);
}

// Where the lanes of row r of quad h stand in H and L.
@inline
function laneOfH(pq: usize, h: i32, r: i32): usize {
  return factorsAt(pq, h) + 16 + 2 * r;
}


@inline
function laneOfL(pq: usize, h: i32, r: i32): usize {
  return vectorsAt(pq, h, 16) + 4 * r;
}

// The six bytes of scales of a row at p to its lanes of L and H.
function gatherScalesIQ4_XS(p: usize, pq: usize, q: i32, r: i32): void {
  const high = <u32>load<u16>(p);
  const low = load<u32>(p, 2);
  let l: u32 = 0;
  let h: u32 = 0;
  for (let j: u32 = 0; j < 8; j++) {
    l |= ((low >> (4 * j)) & 15) << placeInL(j);
    h |= ((high >> (2 * j)) & 3) << placeInH(j);
  }
  store<u16>(laneOfH(pq, q, r), <u16>h);
  store<u32>(laneOfL(pq, q, r), l);
}

function scatterScalesIQ4_XS(pq: usize, q: i32, r: i32, p: usize): void {
  const h = <u32>load<u16>(laneOfH(pq, q, r));
  const l = load<u32>(laneOfL(pq, q, r));
  let low: u32 = 0;
  let high: u32 = 0;
  for (let j: u32 = 0; j < 8; j++) {
    low |= ((l >> placeInL(j)) & 15) << (4 * j);
    high |= ((h >> placeInH(j)) & 3) << (2 * j);
  }
  store<u16>(p, <u16>high);
  store<u32>(p, low, 2);
}

/** And back; pt is scratch of 256 bytes. */
export function scatterSuper(type: i32, pq: usize, h: i32, p: usize, step: usize, pt: usize): void {
  unliftScales(factorsAt(pq, h), p + factorAt(type), step);
  if (hasMin(type)) unliftScales(factorsAt(pq, h) + 16, p + factorAt(type) + 2, step);
  const codes = vectorsAt(pq, h, codesAt(type));
  if (type == Type.IQ4_XS) {
    for (let r = 0; r < 4; r++) scatterScalesIQ4_XS(pq, h, r, p + <usize>r * step + 2);
    for (let i: usize = 0; i < 8; i++) separate(codes + (i << 7), p + 8 + (i << 4), step);
    return;
  }
  const scales = vectorsAt(pq, h, hasMin(type) ? 16 : 8);
  for (let r: usize = 0; r < 4; r++, p += step) {
    scatterScales(type, scales + (r << 2), p);
    for (let k = 0; k < 256; k += 4) {
      const run = codes + (r << 2) + 2 * <usize>(k >> 5) * runBytes(formOf(type));
      store<i32>(pt + k, i32x4.extract_lane(fourAt(formOf(type), run, (k >> 2) & 7), 0));
    }
    packCodes(type, pt, p);
  }
}

// The row whose lanes of the vectors of scales start at ps.
function scatterScales(type: i32, ps: usize, p: usize): void {
  switch (type) {
    case Type.Q2_K:
      for (let i: usize = 0; i < 16; i += 4) store<u32>(p + i, load<u32>(ps + (i << 3)));
      break;
    case Type.Q3_K:
      for (let i: usize = 0; i < 12; i += 4) store<u32>(p + i, load<u32>(ps + (i << 3)), 96);
      break;
    case Type.Q6_K:
      for (let i: usize = 0; i < 16; i += 4) store<u32>(p + i, load<u32>(ps + (i << 3)), 192);
      break;
    default:
      scatterSixes(ps, p + 4);
  }
}

// 256 codes at pt to a super-block in file order.
function packCodes(type: i32, pt: usize, p: usize): void {
  switch (type) {
    case Type.Q2_K:
      return packPairs(pt, p + 16);
    case Type.Q3_K:
      packTops(pt, 2, p);
      return packPairs(pt, p + 32);
    case Type.Q4_K:
      return packRuns(pt, p + 16);
    case Type.Q5_K:
      packTops(pt, 4, p + 16);
      return packRuns(pt, p + 48);
    default:
      packHalf(pt, p, p + 128);
      packHalf(pt + 128, p + 64, p + 160);
  }
}
