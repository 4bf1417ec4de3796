// Quads of the types with blocks of 32 (quants/quads.ts).
//
//   Q4_0, IQ4_NL   72 = d[4] | NIBBLES (quants/quad_codes.ts)
//   Q4_1           80 = d[4] | m[4] | NIBBLES
//   MXFP4          68 = e[4], one byte each, one less than in the file, where it is not 0 | NIBBLES
//   Q5_0           88 = d[4] | FIVES
//   Q5_1           96 = d[4] | m[4] | FIVES
//   Q8_0          136 = d[4] | BYTES

import { Type } from "../abi";
import { storeTransposed } from "../math/dot";
import { fiveBits } from "./five";
import {
  STEP,
  X0F,
  factorsAt,
  fileExponent,
  interleave,
  liftScales,
  quadMask,
  separate,
  storedExponent,
  unliftScales,
  vectorsAt,
} from "./quad";
import { BYTES, FIVES, fourAt, packFours } from "./quad_codes";
import { codesAt, formOf, hasMin } from "./quad_types";

// Where codes start in a block in file order, and of Q5 the upper bits before them.
function fileAt(type: i32): usize {
  return type == Type.MXFP4 ? 1 : hasMin(type) ? 4 : 2;
}

/** The blocks at p of four rows, `step` apart, to quad h of the pair at pq; pt is scratch of 128 bytes. */
export function gatherBlock(type: i32, p: usize, step: usize, pq: usize, h: i32, pt: usize): void {
  if (type == Type.MXFP4) {
    for (let r: usize = 0; r < 4; r++) store<u8>(pq + 4 * h + r, storedExponent(load<u8>(p + r * step)));
  } else liftScales(p, step, factorsAt(pq, h));
  if (hasMin(type)) liftScales(p + 2, step, factorsAt(pq, h) + 16);
  p += fileAt(type);
  pq = vectorsAt(pq, h, codesAt(type));
  if (formOf(type) == FIVES) {
    spread(p, step, 0, pt);
    spread(p, step, 1, pt + 64);
    packFours(FIVES, pt, pq);
    return;
  }
  interleave(p, step, pq);
  if (formOf(type) == BYTES) interleave(p + 16, step, pq + 4 * STEP);
}

/** And back. */
export function scatterBlock(type: i32, pq: usize, h: i32, p: usize, step: usize, pt: usize): void {
  if (type == Type.MXFP4) {
    for (let r: usize = 0; r < 4; r++) store<u8>(p + r * step, fileExponent(load<u8>(pq + 4 * h + r)));
  } else unliftScales(factorsAt(pq, h), p, step);
  if (hasMin(type)) unliftScales(factorsAt(pq, h) + 16, p + 2, step);
  p += fileAt(type);
  pq = vectorsAt(pq, h, codesAt(type));
  if (formOf(type) == FIVES) {
    for (let t = 0; t < 8; t++) v128.store(pt + ((<usize>t) << 4), fourAt(FIVES, pq, t));
    for (let r: usize = 0; r < 4; r++) joinFive(pt + (r << 2), p + r * step);
    return;
  }
  separate(pq, p, step);
  if (formOf(type) == BYTES) separate(pq + 4 * STEP, p + 16, step);
}

// The low (half 0) or high 16 codes of four blocks of five bits, interleaved to pt.
function spread(p: usize, step: usize, half: i32, pt: usize): void {
  const a = fileCodes(p, half);
  const b = fileCodes(p + step, half);
  storeTransposed(pt, 16, a, b, fileCodes(p + 2 * step, half), fileCodes(p + 3 * step, half));
}


@inline
function fileCodes(p: usize, half: i32): v128 {
  const low = quadMask(X0F);
  const h = v128.load32_splat(p);
  return half == 0 ? fiveBits(v128.load(p, 4), h, 0, low) : fiveBits(v128.load(p, 4), h, 1, low);
}

// The codes of one row, four bytes in each of eight vectors at pt, to upper bits and nibbles in file order.
function joinFive(pt: usize, p: usize): void {
  let bits: u32 = 0;
  for (let j: usize = 0; j < 16; j++) {
    const at = pt + ((j >> 2) << 4) + (j & 3);
    const lo = <u32>load<u8>(at);
    const hi = <u32>load<u8>(at, 64);
    store<u8>(p + j, <u8>((lo & 15) | ((hi & 15) << 4)), 4);
    bits |= ((lo >> 4) << (<u32>j)) | ((hi >> 4) << (<u32>j + 16));
  }
  store<u32>(p, bits);
}
