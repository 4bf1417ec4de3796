// Known-answer test of the instructions whose result depends on the engine. Run once before a build is chosen.

import { dotq } from "./math/dot";

// 16 signed bytes with both extremes, and 16 codes 0..127 with theirs.
const X = memory.data<i8>(
  [-128, 127, -1, 0, 1, -128, -128, 127, 127, 127, 127, 127, -128, -128, -128, -128],
  16,
);
const Q = memory.data<i8>([127, 127, 64, 1, 0, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127], 16);

/** 1 when the dot product of this build is exact on this engine. */
export function selfTest(): i32 {
  if (!ASC_FEATURE_RELAXED_SIMD) return 1;
  const got = dotq(v128.load(X), v128.load(Q), i32x4.splat(-7));
  let want = i32x4.splat(-7);
  want = i32x4.replace_lane(want, 0, expected(0));
  want = i32x4.replace_lane(want, 1, expected(1));
  want = i32x4.replace_lane(want, 2, expected(2));
  want = i32x4.replace_lane(want, 3, expected(3));
  return i32x4.all_true(i32x4.eq(got, want)) ? 1 : 0;
}

function expected(lane: i32): i32 {
  let sum = -7;
  for (let i = lane << 2, end = i + 4; i < end; i++) sum += <i32>load<i8>(X + i) * <i32>load<i8>(Q + i);
  return sum;
}
