// Types with super-blocks of 256 times many columns of Q8_K: eight rows unpacked to a panel, times groups of columns.
//
// The arithmetic is that of matmul/super.ts, element by element: integer sums of groups times their integer scales, one
// f32 term per super-block.
//
//   panel of nb super-blocks, eight rows; each part for all super-blocks
//     codes     per four bytes of a row [row 0] .. [row 7], groups of 16 in order
//     scales    i32, where sumsPairs() each twice as i16, per group [row 0] .. [row 7]; 16 places, wide types use eight
//     weights   i16 pairs, per two groups [row 0] .. [row 7]: minima, or scale times -zero point, for seeds the
//               scale; eight places, wide types use four: their groups are of 32
//     d, dmin   f32, [row 0] .. [row 7] each
//   group of four columns
//     codes     per four bytes [lane 0] .. [lane 3], SIGNS |x|, then s (matmul/columns.ts)
//     sums      i16 pairs of 16 activations each, for wide types of 32, per two groups [lane 0] .. [lane 3]
//     scales    f32, [lane 0] .. [lane 3]

import { Type } from "../abi";
import { signedCodes, storeTransposed, sumsPairs, takesSigned, unsignedCodes } from "../math/dot";
import { IQ4_XS } from "../quants/iq4_xs";
import { Q2_K } from "../quants/q2_k";
import { Q3_K } from "../quants/q3_k";
import { Q4_K } from "../quants/q4_k";
import { Q5_K } from "../quants/q5_k";
import { Q6_K } from "../quants/q6_k";
import { expandGroupSigns } from "./columns";

const BYTES: usize = 292;

/** Bytes of the codes of 16 weights of eight rows. */
export const GROUP: usize = ASC_FEATURE_RELAXED_SIMD ? 128 : 256;

/** Bytes of the tiles of a group: [4 lanes][8 rows] f32, then as many integer sums, then as many sums of minima. */
export const SUPER_TILE_BYTES: usize = 384;

/** Offsets of the parts of a panel. */
@inline
export function scalesAt(nb: i32): usize {
  return (<usize>nb * GROUP) << 4;
}


@inline
export function weightsAt(nb: i32): usize {
  return scalesAt(nb) + ((<usize>nb) << 9);
}


@inline
export function factorsAt(nb: i32): usize {
  return weightsAt(nb) + ((<usize>nb) << 8);
}

/** Bytes of a panel. */
export function superPanelBytes(nb: i32): usize {
  return factorsAt(nb) + ((<usize>nb) << 6);
}

/** Offset of the sums in a group of columns, and after them of the scales. */
@inline
export function sumsAt(signs: bool, nb: i32): usize {
  return (<usize>nb * GROUP) << (signs ? 4 : 3);
}

/** Bytes of a group of columns. */
export function superGroupBytes(signs: bool, nb: i32): usize {
  return sumsAt(signs, nb) + <usize>nb * 144;
}

/** Columns at p0..p3 to the group at px. */
export function expandSuperGroup(
  p0: usize,
  p1: usize,
  p2: usize,
  p3: usize,
  nb: i32,
  signs: bool,
  wide: bool,
  px: usize,
): void {
  let ps = px + sumsAt(signs, nb);
  let pd = ps + ((<usize>nb) << 7);
  const signed = ASC_FEATURE_RELAXED_SIMD && signs && takesSigned();
  for (let b = 0; b < nb; b++, ps += 128, pd += 16) {
    if (ASC_FEATURE_RELAXED_SIMD && signs) {
      expandSigns(p0 + 4, p1 + 4, p2 + 4, p3 + 4, signed, px, ps);
      px += 16 * GROUP;
    } else if (wide) storeTransposed(ps, 16, sums32(p0), sums32(p1), sums32(p2), sums32(p3));
    else {
      storeSums(p0 + 260, p1 + 260, p2 + 260, p3 + 260, ps);
      storeSums(p0 + 276, p1 + 276, p2 + 276, p3 + 276, ps + 64);
    }
    let d = v128.load32_splat(p0);
    d = v128.load32_lane(p1, d, 1);
    d = v128.load32_lane(p2, d, 2);
    v128.store(pd, v128.load32_lane(p3, d, 3));
    if (!signs) {
      for (let j: usize = 4; j < 260; j += 16, px += GROUP >> 1) {
        const a = v128.load(p0 + j);
        storeCodes(px, 16, a, v128.load(p1 + j), v128.load(p2 + j), v128.load(p3 + j), true);
      }
    }
    p0 += BYTES;
    p1 += BYTES;
    p2 += BYTES;
    p3 += BYTES;
  }
}

// A super-block of four columns; seeds, pairs of i16, stand for sums.
function expandSigns(p0: usize, p1: usize, p2: usize, p3: usize, signed: bool, px: usize, ps: usize): void {
  for (const end = ps + 64; ps < end; ps += 16, px += 512, p0 += 64, p1 += 64, p2 += 64, p3 += 64) {
    const first = expandGroupSigns(p0, p1, p2, p3, signed, px);
    const second = expandGroupSigns(p0 + 32, p1 + 32, p2 + 32, p3 + 32, signed, px + 256);
    v128.store(ps, v128.or(first, i32x4.shl(second, 16)));
  }
}

// Eight i16 of four columns.
@inline
function storeSums(p0: usize, p1: usize, p2: usize, p3: usize, ps: usize): void {
  storeTransposed(ps, 16, v128.load(p0), v128.load(p1), v128.load(p2), v128.load(p3));
}

// The sums of each 32 activations of the Q8_K block at p.
@inline
function sums32(p: usize): v128 {
  const a = i32x4.extadd_pairwise_i16x8_s(v128.load(p, 260));
  return i16x8.narrow_i32x4_s(a, i32x4.extadd_pairwise_i16x8_s(v128.load(p, 276)));
}

// 16 codes of four rows or columns, in dot order.
@inline
function storeCodes(p: usize, step: usize, a: v128, b: v128, c: v128, d: v128, signed: bool): void {
  if (ASC_FEATURE_RELAXED_SIMD) storeTransposed(p, step, a, b, c, d);
  else if (signed) {
    storeTransposed(p, step, signedCodes(a, 0), signedCodes(b, 0), signedCodes(c, 0), signedCodes(d, 0));
    p += 4 * step;
    storeTransposed(p, step, signedCodes(a, 1), signedCodes(b, 1), signedCodes(c, 1), signedCodes(d, 1));
  } else {
    storeTransposed(
      p,
      step,
      unsignedCodes(a, 0),
      unsignedCodes(b, 0),
      unsignedCodes(c, 0),
      unsignedCodes(d, 0),
    );
    p += 4 * step;
    storeTransposed(
      p,
      step,
      unsignedCodes(a, 1),
      unsignedCodes(b, 1),
      unsignedCodes(c, 1),
      unsignedCodes(d, 1),
    );
  }
}

/** Unpacks eight rows of `nb` super-blocks to the panel at pp. Rows past `rows` repeat the last one. */
export function unpackSuper(type: i32, pw: usize, nbw: usize, rows: i32, nb: i32, pp: usize): void {
  const last = pw + <usize>(rows - 1) * nbw;
  for (let r: usize = 0; r < 8; r += 4, pp += 16) {
    const p0 = min(pw + r * nbw, last);
    const p1 = min(p0 + nbw, last);
    const p2 = min(p1 + nbw, last);
    unpackRows(type, p0, p1, p2, min(p2 + nbw, last), nb, pp);
  }
  if (sumsPairs()) pairScales(nb, pp - 32);
}

function unpackRows(type: i32, p0: usize, p1: usize, p2: usize, p3: usize, nb: i32, pp: usize): void {
  switch (type) {
    case Type.Q2_K:
      return unpackFour<Q2_K>(p0, p1, p2, p3, nb, pp);
    case Type.Q3_K:
      return unpackFour<Q3_K>(p0, p1, p2, p3, nb, pp);
    case Type.Q4_K:
      return unpackFour<Q4_K>(p0, p1, p2, p3, nb, pp);
    case Type.Q5_K:
      return unpackFour<Q5_K>(p0, p1, p2, p3, nb, pp);
    case Type.Q6_K:
      return unpackFour<Q6_K>(p0, p1, p2, p3, nb, pp);
    case Type.IQ4_XS:
      return unpackFour<IQ4_XS>(p0, p1, p2, p3, nb, pp);
    default:
      unreachable();
  }
}

function unpackFour<T>(p0: usize, p1: usize, p2: usize, p3: usize, nb: i32, pp: usize): void {
  const bytes = changetype<T>(<usize>0).bytes();
  let ps = pp + scalesAt(nb);
  let pm = pp + weightsAt(nb);
  let pd = pp + factorsAt(nb);
  for (let b = 0; b < nb; b++) {
    for (let run = 0; run < 8; run++, pp += 2 * GROUP) {
      unpackGroup<T>(p0, p1, p2, p3, run, 0, pp);
      unpackGroup<T>(p0, p1, p2, p3, run, 1, pp + GROUP);
    }
    unpackScales<T>(p0, p1, p2, p3, ps);
    unpackWeights<T>(p0, p1, p2, p3, pm);
    unpackFactors<T>(p0, p1, p2, p3, pd);
    ps += 512;
    pm += 256;
    pd += 64;
    p0 += bytes;
    p1 += bytes;
    p2 += bytes;
    p3 += bytes;
  }
}


@inline
function unpackGroup<T>(p0: usize, p1: usize, p2: usize, p3: usize, run: i32, h: i32, pp: usize): void {
  const t = changetype<T>(<usize>0);
  const a = t.codes(p0, run >> 2, run & 3, h);
  const b = t.codes(p1, run >> 2, run & 3, h);
  const c = t.codes(p2, run >> 2, run & 3, h);
  storeCodes(pp, 32, a, b, c, t.codes(p3, run >> 2, run & 3, h), t.signed());
}

function unpackScales<T>(p0: usize, p1: usize, p2: usize, p3: usize, ps: usize): void {
  const t = changetype<T>(<usize>0);
  const a = t.scales(p0);
  const b = t.scales(p1);
  const c = t.scales(p2);
  const d = t.scales(p3);
  storeScales(ps, low8(a), low8(b), low8(c), low8(d));
  if (!t.wide()) storeScales(ps + 256, high8(a), high8(b), high8(c), high8(d));
}


@inline
function low8(v: v128): v128 {
  return i16x8.extend_low_i8x16_s(v);
}


@inline
function high8(v: v128): v128 {
  return i16x8.extend_high_i8x16_s(v);
}

/** Scales of a panel of `nb` super-blocks, i32: each twice as i16, as they stand where sumsPairs(). */
export function pairScales(nb: i32, pp: usize): void {
  const end = pp + weightsAt(nb);
  for (let p = pp + scalesAt(nb); p < end; p += 16) {
    const high = i32x4.shl(v128.load(p), 16);
    v128.store(p, v128.or(high, i32x4.shr_u(high, 16)));
  }
}

// Eight i16 of four rows as i32.
@inline
function storeScales(p: usize, a: v128, b: v128, c: v128, d: v128): void {
  storeTransposed(
    p,
    32,
    i32x4.extend_low_i16x8_s(a),
    i32x4.extend_low_i16x8_s(b),
    i32x4.extend_low_i16x8_s(c),
    i32x4.extend_low_i16x8_s(d),
  );
  storeTransposed(
    p + 128,
    32,
    i32x4.extend_high_i16x8_s(a),
    i32x4.extend_high_i16x8_s(b),
    i32x4.extend_high_i16x8_s(c),
    i32x4.extend_high_i16x8_s(d),
  );
}

function unpackWeights<T>(p0: usize, p1: usize, p2: usize, p3: usize, pm: usize): void {
  const t = changetype<T>(<usize>0);
  const seeds = ASC_FEATURE_RELAXED_SIMD && t.signed();
  if (!t.hasMin() && t.zero() == 0 && !seeds) return;
  const z = i16x8.splat(t.hasMin() || seeds ? 1 : <i16>-t.zero());
  const a = weightsOf<T>(p0);
  const b = weightsOf<T>(p1);
  const c = weightsOf<T>(p2);
  const d = weightsOf<T>(p3);
  storeTransposed(pm, 32, times(low8(a), z), times(low8(b), z), times(low8(c), z), times(low8(d), z));
  if (t.wide()) return;
  pm += 128;
  storeTransposed(pm, 32, times(high8(a), z), times(high8(b), z), times(high8(c), z), times(high8(d), z));
}

// The minimum or scale of each group; the minima of wide types come twice each.
@inline
function weightsOf<T>(p: usize): v128 {
  const t = changetype<T>(<usize>0);
  const m = t.hasMin() ? t.mins(p) : t.scales(p);
  return t.hasMin() && t.wide()
    ? i8x16.shuffle(m, m, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14)
    : m;
}


@inline
function times(v: v128, z: v128): v128 {
  return i16x8.mul(v, z);
}

function unpackFactors<T>(p0: usize, p1: usize, p2: usize, p3: usize, pd: usize): void {
  const t = changetype<T>(<usize>0);
  store<f32>(pd, t.d(p0));
  store<f32>(pd, t.d(p1), 4);
  store<f32>(pd, t.d(p2), 8);
  store<f32>(pd, t.d(p3), 12);
  store<f32>(pd, t.dmin(p0), 32);
  store<f32>(pd, t.dmin(p1), 36);
  store<f32>(pd, t.dmin(p2), 40);
  store<f32>(pd, t.dmin(p3), 44);
}
