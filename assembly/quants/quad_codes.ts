// Codes of 32 weights of four rows in quads: how the bits of eight vectors stand in fewer.
//
// Vector t holds k = 4t .. 4t + 3 of each row (quants/quad.ts). W0, W1 .. are the stored ones; parts in the upper bits of
// several follow each other from the least significant on.
//
//   NIBBLES  W0..W3   Wt [3:0] vector t, [7:4] vector 4 + t
//   FIVES    W0..W4   Wt [4:0] vector t; vector 5: W0[7:5] W1[7:6]; 6: W2[7:5] W3[7:6]; 7: W4[7:5] W1[5] W3[5]
//   BYTES    W0..W7   as they are
//   SIXES    W0..W5   16 weights in W0..W2: Wt [5:0] vector t; vector 3: W0[7:6] W1[7:6] W2[7:6]; 16 more in W3..W5
//   THREES   W0..W2   as 16 weights of SIXES, of which [2:0] is vector t and [5:3] vector 4 + t
//   TWOS     W0 W1    [1:0] vectors 0 and 2, [5:4] 1 and 3, [3:2] 4 and 6, [7:6] 5 and 7

import { STEP, X03, X07, X08, X0C, X0F, X10, X18, X1F, X30, X3F, bitsFrom, bitsTo, quadMask } from "./quad";

export const NIBBLES: i32 = 0;
export const FIVES: i32 = 1;
export const BYTES: i32 = 2;
export const SIXES: i32 = 3;
export const THREES: i32 = 4;
export const TWOS: i32 = 5;

/** Bytes of 32 weights of four rows. */
@inline
export function runBytes(form: i32): usize {
  if (form == NIBBLES) return 64;
  if (form == FIVES) return 80;
  if (form == BYTES) return 128;
  if (form == SIXES) return 96;
  return form == THREES ? 48 : 32;
}

/** Vector t (0..7) of the codes of a quad at w. */
@inline
export function fourOf(form: i32, w: usize, t: i32): v128 {
  if (form == NIBBLES) {
    const v = v128.load(w + <usize>(t & 3) * STEP);
    return v128.and(t < 4 ? v : i16x8.shr_u(v, 4), quadMask(X0F));
  }
  if (form == FIVES) {
    return t < 5 ? v128.and(v128.load(w + <usize>t * STEP), quadMask(X1F)) : fiveFromTops(w, t);
  }
  if (form == BYTES) return v128.load(w + <usize>t * STEP);
  if (form == SIXES) return six(t < 4 ? w : w + 3 * STEP, t & 3);
  if (form == THREES) {
    const v = six(w, t & 3);
    return v128.and(t < 4 ? v : i16x8.shr_u(v, 3), quadMask(X07));
  }
  return bitsFrom(
    v128.load(w + <usize>((t >> 1) & 1) * STEP),
    ((t & 1) << 2) + ((t >> 2) << 1),
    quadMask(X03),
  );
}

/** The same for a form that is not known when compiling. */
export function fourAt(form: i32, w: usize, t: i32): v128 {
  switch (form) {
    case NIBBLES:
      return fourOf(NIBBLES, w, t);
    case FIVES:
      return fourOf(FIVES, w, t);
    case SIXES:
      return fourOf(SIXES, w, t);
    case THREES:
      return fourOf(THREES, w, t);
    case TWOS:
      return fourOf(TWOS, w, t);
    default:
      return fourOf(BYTES, w, t);
  }
}

// Vectors 5..7 of FIVES.
function fiveFromTops(w: usize, t: i32): v128 {
  const seven = quadMask(X07);
  const a = v128.load(w + STEP);
  const b = v128.load(w + 3 * STEP);
  if (t == 5) return v128.or(bitsFrom(v128.load(w), 5, seven), bitsFrom(a, 3, quadMask(X18)));
  if (t == 6) return v128.or(bitsFrom(v128.load(w + 2 * STEP), 5, seven), bitsFrom(b, 3, quadMask(X18)));
  const top = v128.or(bitsFrom(a, 2, quadMask(X08)), bitsFrom(b, 1, quadMask(X10)));
  return v128.or(bitsFrom(v128.load(w + 4 * STEP), 5, seven), top);
}


@inline
function six(w: usize, t: i32): v128 {
  if (t < 3) return v128.and(v128.load(w + <usize>t * STEP), quadMask(X3F));
  return sixFromTops(v128.load(w), v128.load(w + STEP), v128.load(w + 2 * STEP));
}

/** The six-bit values whose bits stand in pairs on top of three vectors. */
export function sixFromTops(a: v128, b: v128, c: v128): v128 {
  return v128.or(
    v128.or(bitsFrom(a, 6, quadMask(X03)), bitsFrom(b, 4, quadMask(X0C))),
    bitsFrom(c, 2, quadMask(X30)),
  );
}

/** Eight vectors of codes at pt, which are lost, to their place at w. */
export function packFours(form: i32, pt: usize, w: usize): void {
  switch (form) {
    case NIBBLES:
      mergeHalves(pt, 4);
      return place(pt, 4, w);
    case FIVES:
      packFive(pt, w);
      break;
    case SIXES:
      packSix(pt, w);
      packSix(pt + 64, w + 3 * STEP);
      break;
    case THREES:
      mergeHalves(pt, 3);
      packSix(pt, w);
      break;
    case TWOS:
      packTwo(pt, w);
      packTwo(pt + 32, w + STEP);
      break;
    default:
      place(pt, 8, w);
  }
}

// `n` vectors at pt to their places.
function place(pt: usize, n: i32, w: usize): void {
  for (; n > 0; n--, pt += 16, w += STEP) v128.store(w, v128.load(pt));
}

// Vectors 4..7 above vectors 0..3.
function mergeHalves(pt: usize, s: i32): void {
  for (const end = pt + 64; pt < end; pt += 16) {
    v128.store(pt, v128.or(v128.load(pt), i16x8.shl(v128.load(pt, 64), s)));
  }
}

function packFive(pt: usize, w: usize): void {
  const e = v128.load(pt, 80);
  const f = v128.load(pt, 96);
  const g = v128.load(pt, 112);
  v128.store(w, v128.or(v128.load(pt), bitsTo(e, 5, 0xe0)));
  v128.store(w, v128.or(v128.or(v128.load(pt, 16), bitsTo(e, 3, 0xc0)), bitsTo(g, 2, 0x20)), 32);
  v128.store(w, v128.or(v128.load(pt, 32), bitsTo(f, 5, 0xe0)), 64);
  v128.store(w, v128.or(v128.or(v128.load(pt, 48), bitsTo(f, 3, 0xc0)), bitsTo(g, 1, 0x20)), 96);
  v128.store(w, v128.or(v128.load(pt, 64), bitsTo(g, 5, 0xe0)), 128);
}

function packSix(pt: usize, w: usize): void {
  const d = v128.load(pt, 48);
  v128.store(w, v128.or(v128.load(pt), bitsTo(d, 6, 0xc0)));
  v128.store(w, v128.or(v128.load(pt, 16), bitsTo(d, 4, 0xc0)), 32);
  v128.store(w, v128.or(v128.load(pt, 32), bitsTo(d, 2, 0xc0)), 64);
}

function packTwo(pt: usize, w: usize): void {
  const low = v128.or(v128.load(pt), i16x8.shl(v128.load(pt, 64), 2));
  const high = v128.or(v128.load(pt, 16), i16x8.shl(v128.load(pt, 80), 2));
  v128.store(w, v128.or(low, i16x8.shl(high, 4)));
}
