// Rows in quads: four rows interleaved in place, the same bytes in another order, so that a product reads one stream
// and feeds four rows with each dot.
//
// Block b of the four rows of a quad is one block of four times the size: their scales, then vectors of codes
// (quants/quad.ts; the layouts stand in quads_32.ts, quads_256.ts and quad_codes.ts). Rows are whole and follow each
// other.

import { Type } from "../abi";
import { QUAD_ROWS, isLiftable } from "./quad";
import { bytesOf, factorAt, hasMin, isSuper } from "./quad_types";
import { gatherSuper, scatterSuper } from "./quads_256";
import { gatherBlock, scatterBlock } from "./quads_32";

/** Bytes of scratch beside the four rows of a quad. */
const SCRATCH: usize = 256;

/** Bytes of scratch that {@link toQuads} and {@link fromQuads} need for rows of this size. */
export function quadScratch(rowBytes: i32): usize {
  return 4 * <usize>rowBytes + SCRATCH;
}

/**
 * Puts `nRows` rows at p in quads, in place; ps is scratch of {@link quadScratch} bytes. False, and nothing is changed,
 * when they cannot be: no such layout of the type, rows that are no multiple of four, a scale not finite or of 64 and
 * above.
 */
export function toQuads(type: i32, p: usize, rowBytes: i32, nRows: i32, ps: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  if (!liftable(type, p, rowBytes, nRows)) return false;
  const quad = (<usize>rowBytes) << 2;
  for (let r = 0; r < nRows; r += QUAD_ROWS, p += quad) {
    memory.copy(ps, p, quad);
    layQuad(type, ps, rowBytes, p, ps + quad);
  }
  return true;
}

/** The same from rows that lie elsewhere, at pf; pt is scratch of 256 bytes. */
export function toQuadsFrom(type: i32, pf: usize, p: usize, rowBytes: i32, nRows: i32, pt: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  if (!liftable(type, pf, rowBytes, nRows)) return false;
  const quad = (<usize>rowBytes) << 2;
  for (let r = 0; r < nRows; r += QUAD_ROWS, p += quad, pf += quad) layQuad(type, pf, rowBytes, p, pt);
  return true;
}

// Four rows at pf to a quad at p.
function layQuad(type: i32, pf: usize, rowBytes: i32, p: usize, pt: usize): void {
  const block = <i32>(bytesOf(type) >> 2);
  for (const end = pf + rowBytes; pf < end; pf += block, p += 4 * <usize>block) {
    if (isSuper(type)) gatherSuper(type, pf, rowBytes, p, pt);
    else gatherBlock(type, pf, rowBytes, p, pt);
  }
}

/** The inverse of {@link toQuads}, byte for byte. */
export function fromQuads(type: i32, p: usize, rowBytes: i32, nRows: i32, ps: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  const block = <i32>(bytesOf(type) >> 2);
  const pt = ps + 4 * <usize>rowBytes;
  for (let r = 0; r < nRows; r += QUAD_ROWS, p += 4 * <usize>rowBytes) {
    memory.copy(ps, p, 4 * <usize>rowBytes);
    for (let at = 0, pq = ps; at < rowBytes; at += block, pq += 4 * <usize>block) {
      if (isSuper(type)) scatterSuper(type, pq, p + at, rowBytes, pt);
      else scatterBlock(type, pq, p + at, rowBytes, pt);
    }
  }
  return true;
}

function fits(type: i32, rowBytes: i32, nRows: i32): bool {
  const block = <i32>(bytesOf(type) >> 2);
  return block != 0 && rowBytes % block == 0 && nRows % QUAD_ROWS == 0;
}

// Can all scales of these rows, in file order, be lifted?
function liftable(type: i32, p: usize, rowBytes: i32, nRows: i32): bool {
  if (type == Type.MXFP4) return true;
  const bytes = bytesOf(type) >> 2;
  let blocks = <u32>nRows * (<u32>rowBytes / <u32>bytes);
  p += factorAt(type);
  for (; blocks > 0; blocks--, p += bytes) {
    if (!isLiftable(load<u16>(p))) return false;
    if (hasMin(type) && !isLiftable(load<u16>(p, 2))) return false;
  }
  return true;
}
