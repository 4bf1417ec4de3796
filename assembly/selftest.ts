// Known-answer test of the instructions whose result depends on the engine. Run once before a build is chosen.

import { CTRL_WIDE } from "./abi";
import { WIDE_NONE, WIDE_SIGNED, WIDE_UNSIGNED, dotq, productPairs } from "./math/dot";

// 16 signed bytes with both extremes, and 16 codes 0..127 with theirs.
const X = memory.data<i8>(
  [-128, 127, -1, 0, 1, -128, -128, 127, 127, 127, 127, 127, -128, -128, -128, -128],
  16,
);
const Q = memory.data<i8>([127, 127, 64, 1, 0, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127], 16);

/** 1 when the dot products of this build are exact on this engine. */
export function selfTest(): i32 {
  if (!ASC_FEATURE_RELAXED_SIMD) return 1;
  return isSpecified() && (takesMagnitudes() || isExact(true, false) || isExact(true, true)) ? 1 : 0;
}

// Second operands in 0..127.
function isSpecified(): bool {
  const got = dotq(v128.load(X), v128.load(Q), i32x4.splat(-7));
  let want = i32x4.splat(-7);
  want = i32x4.replace_lane(want, 0, expected(0));
  want = i32x4.replace_lane(want, 1, expected(1));
  want = i32x4.replace_lane(want, 2, expected(2));
  want = i32x4.replace_lane(want, 3, expected(3));
  return i32x4.all_true(i32x4.eq(got, want));
}

function expected(lane: i32): i32 {
  let sum = -7;
  for (let i = lane << 2, end = i + 4; i < end; i++) sum += <i32>load<i8>(X + i) * <i32>load<i8>(Q + i);
  return sum;
}

// Is 128, the magnitude of -128 (matmul/columns.ts), unsigned as second operand, next to either end and itself? An engine
// may take signed bytes instead, but then all of them.
function takesMagnitudes(): bool {
  for (let x = 0; x < 16; x++) {
    const a = <i32>load<i8>(X + x);
    const b = <i32>load<i8>(X + ((x + 1) & 15));
    const xs = i16x8.splat(<i16>((a & 255) | (b << 8)));
    for (let q = 0; q <= 128; q += q == 0 ? 127 : 1) {
      const qs = i16x8.splat(<i16>(128 | (q << 8)));
      const want = 128 * a + q * b;
      const pairs = productPairs(xs, qs);
      const fours = dotq(xs, qs, i32x4.splat(-7));
      if (!i16x8.all_true(i16x8.eq(pairs, i16x8.splat(<i16>want)))) return false;
      if (!i32x4.all_true(i32x4.eq(fours, i32x4.splat(2 * want - 7)))) return false;
    }
  }
  return true;
}

/**
 * Finds out whether this engine's relaxed dot is exact for any byte as second operand, and as what it takes it; leaves
 * the answer in the control block for products of integers. To be called before the first run.
 */
export function probeDot(): i32 {
  let wide = WIDE_NONE;
  if (ASC_FEATURE_RELAXED_SIMD) {
    if (isExact(false, false)) wide = WIDE_UNSIGNED;
    else if (isExact(true, false)) wide = WIDE_SIGNED;
  }
  store<i32>(CTRL_WIDE, wide);
  return wide;
}

// Every byte q next to every kind of neighbour, against activations at both ends and around 0. `pairs`: in sums of pairs as well,
// which need not hold a pair of -128 times -128: it is beyond i16, and no quantizer makes it of weights and activations.
function isExact(signed: bool, pairs: bool): bool {
  for (let x = 0; x < 16; x++) {
    const a = <i32>load<i8>(X + x);
    const b = <i32>load<i8>(X + ((x + 1) & 15));
    const xs = i16x8.splat(<i16>((a & 255) | (b << 8)));
    for (let q = 0; q < 256; q++) {
      for (let r = q; r < 512; r += 85) {
        const c = signed ? <i32>(<i8>q) : q;
        const d = signed ? <i32>(<i8>r) : r & 255;
        const sum = a * c + b * d;
        if (pairs && sum == 2 * 128 * 128) continue;
        const qs = i16x8.splat(<i16>(q | ((r & 255) << 8)));
        const got = dotq(xs, qs, i32x4.splat(-7));
        if (!i32x4.all_true(i32x4.eq(got, i32x4.splat(2 * sum - 7)))) return false;
        if (pairs && !i16x8.all_true(i16x8.eq(productPairs(xs, qs), i16x8.splat(<i16>sum)))) return false;
      }
    }
  }
  return true;
}
