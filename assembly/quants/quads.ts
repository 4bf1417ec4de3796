// Rows in quads: eight rows interleaved in place, the same bytes in another order, so that a product reads one stream
// and feeds eight rows with each four activations.
//
// Block b of the four rows of a quad is one block of four times the size: their scales, then vectors of codes
// (quants/quad.ts; the layouts stand in quads_32.ts, quads_256.ts and quad_codes.ts). Two quads lie side by side: each
// field of the one is followed by that of the other. Rows are whole and follow each other.
//
//   Q4_0   quads   d[4] | V0 | V1 | V2 | V3      e[4] | W0 | W1 | W2 | W3
//          pair    d[4] e[4] | V0 W0 | V1 W1 | V2 W2 | V3 W3
//
// What stands at o in a quad, s bytes, stands at 2 * o and 2 * o + s in a pair.

import { Type } from "../abi";
import { PAIR_ROWS, isLiftable, isNormal } from "./quad";
import { bytesOf, factorAt, hasMin, isSuper } from "./quad_types";
import { gatherSuper, scatterSuper } from "./quads_256";
import { gatherBlock, scatterBlock } from "./quads_32";

/** Bytes of scratch beside the rows of a pair. */
const SCRATCH: usize = 256;

/** Bytes of scratch that {@link toQuads} and {@link fromQuads} need for rows of this size. */
export function quadScratch(rowBytes: i32): usize {
  return 8 * <usize>rowBytes + SCRATCH;
}

/**
 * Puts `nRows` rows at p in quads, in place; ps is scratch of {@link quadScratch} bytes. False, and nothing is changed,
 * when they cannot be: no such layout of the type, rows that are no multiple of eight, a scale not finite or of 64 and
 * above, of MXFP4 one that is no normal f32.
 */
export function toQuads(type: i32, p: usize, rowBytes: i32, nRows: i32, ps: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  if (!liftable(type, p, rowBytes, nRows)) return false;
  const pair = (<usize>rowBytes) << 3;
  for (let r = 0; r < nRows; r += PAIR_ROWS, p += pair) {
    memory.copy(ps, p, pair);
    layPair(type, ps, rowBytes, p, ps + pair);
  }
  return true;
}

/** The same from rows that lie elsewhere, at pf; pt is scratch of 256 bytes. */
export function toQuadsFrom(type: i32, pf: usize, p: usize, rowBytes: i32, nRows: i32, pt: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  if (!liftable(type, pf, rowBytes, nRows)) return false;
  const pair = (<usize>rowBytes) << 3;
  for (let r = 0; r < nRows; r += PAIR_ROWS, p += pair, pf += pair) layPair(type, pf, rowBytes, p, pt);
  return true;
}

// Eight rows at pf to a pair of quads at p.
function layPair(type: i32, pf: usize, rowBytes: i32, p: usize, pt: usize): void {
  const block = bytesOf(type) >> 2;
  for (const end = pf + rowBytes; pf < end; pf += block, p += 8 * block) {
    for (let h = 0; h < 2; h++) {
      const from = pf + 4 * h * rowBytes;
      if (isSuper(type)) gatherSuper(type, from, rowBytes, p, h, pt);
      else gatherBlock(type, from, rowBytes, p, h, pt);
    }
  }
}

/** The inverse of {@link toQuads}, byte for byte. */
export function fromQuads(type: i32, p: usize, rowBytes: i32, nRows: i32, ps: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  const pair = (<usize>rowBytes) << 3;
  for (let r = 0; r < nRows; r += PAIR_ROWS, p += pair) {
    memory.copy(ps, p, pair);
    fromPair(type, ps, rowBytes, p, ps + pair);
  }
  return true;
}

// A pair of quads at pq to eight rows at p.
function fromPair(type: i32, pq: usize, rowBytes: i32, p: usize, pt: usize): void {
  const block = bytesOf(type) >> 2;
  for (const end = p + rowBytes; p < end; p += block, pq += 8 * block) {
    for (let h = 0; h < 2; h++) {
      const to = p + 4 * h * rowBytes;
      if (isSuper(type)) scatterSuper(type, pq, h, to, rowBytes, pt);
      else scatterBlock(type, pq, h, to, rowBytes, pt);
    }
  }
}

function fits(type: i32, rowBytes: i32, nRows: i32): bool {
  const block = <i32>(bytesOf(type) >> 2);
  return block != 0 && rowBytes % block == 0 && nRows % PAIR_ROWS == 0;
}

// Can all scales of these rows, in file order, be stored?
function liftable(type: i32, p: usize, rowBytes: i32, nRows: i32): bool {
  const bytes = bytesOf(type) >> 2;
  let blocks = <u32>nRows * (<u32>rowBytes / <u32>bytes);
  p += factorAt(type);
  for (; blocks > 0; blocks--, p += bytes) {
    if (type == Type.MXFP4) {
      if (!isNormal(p)) return false;
      continue;
    }
    if (!isLiftable(load<u16>(p))) return false;
    if (hasMin(type) && !isLiftable(load<u16>(p, 2))) return false;
  }
  return true;
}
