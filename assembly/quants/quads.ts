// Rows in quads: four rows interleaved in place, the same bytes in another order, so that a product reads one stream
// and feeds four rows with each dot.
//
// Block b of the four rows of a quad is one block of four times the size: their scales, then vectors of codes
// (quants/quad.ts; the layouts stand in quads_32.ts and quads_256.ts). Rows are whole and follow each other.

import { Type } from "../abi";
import { f16ToF32 } from "../math/f16";
import { QUAD_ROWS, isLiftable, scaleOf } from "./quad";
import { QuadQ4_K, QuadQ6_K } from "./quads_256";
import { QuadQ4_0, QuadQ5_0, QuadQ8_0 } from "./quads_32";

/** Bytes of scratch beside the four rows of a quad. */
const SCRATCH: usize = 256;

/** Bytes of a block of a quad; 0 for a type that has none. */
export function quadBytes(type: i32): usize {
  switch (type) {
    case Type.Q4_0:
      return changetype<QuadQ4_0>(<usize>0).bytes();
    case Type.Q5_0:
      return changetype<QuadQ5_0>(<usize>0).bytes();
    case Type.Q8_0:
      return changetype<QuadQ8_0>(<usize>0).bytes();
    case Type.Q4_K:
      return changetype<QuadQ4_K>(<usize>0).bytes();
    case Type.Q6_K:
      return changetype<QuadQ6_K>(<usize>0).bytes();
    default:
      return 0;
  }
}

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
  const blocks = <u32>nRows * (<u32>rowBytes / ((<u32>quadBytes(type)) >> 2));
  if (!liftable(type, p, blocks)) return false;
  for (let r = 0; r < nRows; r += QUAD_ROWS, p += 4 * <usize>rowBytes) {
    memory.copy(ps, p, 4 * <usize>rowBytes);
    gather(type, ps, rowBytes, p);
  }
  return true;
}

/** The inverse of {@link toQuads}, byte for byte. */
export function fromQuads(type: i32, p: usize, rowBytes: i32, nRows: i32, ps: usize): bool {
  if (!fits(type, rowBytes, nRows)) return false;
  for (let r = 0; r < nRows; r += QUAD_ROWS, p += 4 * <usize>rowBytes) {
    memory.copy(ps, p, 4 * <usize>rowBytes);
    scatter(type, ps, rowBytes, p);
  }
  return true;
}

function fits(type: i32, rowBytes: i32, nRows: i32): bool {
  const block = <i32>(quadBytes(type) >> 2);
  return block != 0 && rowBytes % block == 0 && nRows % QUAD_ROWS == 0;
}

// Can all scales of these blocks, in file order, be lifted?
function liftable(type: i32, p: usize, blocks: u32): bool {
  const bytes = quadBytes(type) >> 2;
  if (type == Type.Q6_K) p += 208;
  for (; blocks > 0; blocks--, p += bytes) {
    if (!isLiftable(load<u16>(p))) return false;
    if (type == Type.Q4_K && !isLiftable(load<u16>(p, 2))) return false;
  }
  return true;
}

// Four rows at p, with scratch behind them, to the quad at pq.
function gather(type: i32, p: usize, rowBytes: i32, pq: usize): void {
  switch (type) {
    case Type.Q4_0:
      return gatherRows<QuadQ4_0>(p, rowBytes, pq);
    case Type.Q5_0:
      return gatherRows<QuadQ5_0>(p, rowBytes, pq);
    case Type.Q8_0:
      return gatherRows<QuadQ8_0>(p, rowBytes, pq);
    case Type.Q4_K:
      return gatherRows<QuadQ4_K>(p, rowBytes, pq);
    case Type.Q6_K:
      return gatherRows<QuadQ6_K>(p, rowBytes, pq);
    default:
      unreachable();
  }
}

function gatherRows<T>(p: usize, rowBytes: i32, pq: usize): void {
  const t = changetype<T>(<usize>0);
  const pt = p + 4 * <usize>rowBytes;
  for (const end = p + rowBytes; p < end; p += t.bytes() >> 2, pq += t.bytes()) t.gather(p, rowBytes, pq, pt);
}

// The quad at pq, with scratch behind it, to four rows at p.
function scatter(type: i32, pq: usize, rowBytes: i32, p: usize): void {
  switch (type) {
    case Type.Q4_0:
      return scatterRows<QuadQ4_0>(pq, rowBytes, p);
    case Type.Q5_0:
      return scatterRows<QuadQ5_0>(pq, rowBytes, p);
    case Type.Q8_0:
      return scatterRows<QuadQ8_0>(pq, rowBytes, p);
    case Type.Q4_K:
      return scatterRows<QuadQ4_K>(pq, rowBytes, p);
    case Type.Q6_K:
      return scatterRows<QuadQ6_K>(pq, rowBytes, p);
    default:
      unreachable();
  }
}

function scatterRows<T>(pq: usize, rowBytes: i32, p: usize): void {
  const t = changetype<T>(<usize>0);
  const pt = pq + 4 * <usize>rowBytes;
  for (const end = p + rowBytes; p < end; p += t.bytes() >> 2, pq += t.bytes())
    t.scatter(pq, p, rowBytes, pt);
}

/** Row `row` (0..3) of the quad at pq as `n` f32 at py; the bits of dequantizeRow() in file order. */
export function dequantizeQuadRow(type: i32, pq: usize, row: i32, py: usize, n: i32): void {
  switch (type) {
    case Type.Q4_0:
      return dequantizeBlocks<QuadQ4_0>(pq, row, py, n);
    case Type.Q5_0:
      return dequantizeBlocks<QuadQ5_0>(pq, row, py, n);
    case Type.Q8_0:
      return dequantizeBlocks<QuadQ8_0>(pq, row, py, n);
    case Type.Q4_K:
      return dequantizeSupers<QuadQ4_K>(pq, row, py, n);
    case Type.Q6_K:
      return dequantizeSupers<QuadQ6_K>(pq, row, py, n);
    default:
      unreachable();
  }
}

function dequantizeBlocks<T>(pq: usize, row: i32, py: usize, n: i32): void {
  const t = changetype<T>(<usize>0);
  for (const end = py + ((<usize>n) << 2); py < end; pq += t.bytes()) {
    const d = f32x4.splat(f16ToF32(scaleOf(pq, row)));
    for (let i = 0; i < 8; i++, py += 16) {
      v128.store(py, f32x4.mul(values(t.four(pq, i), row, t.zero()), d));
    }
  }
}

// Four bytes of a row, less the zero point.
@inline
function values(v: v128, row: i32, zero: i32): v128 {
  const bytes = i8x16.swizzle(v, i32x4.splat((row << 2) * 0x01010101 + 0x03020100));
  const q = i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(bytes));
  return f32x4.convert_i32x4_s(i32x4.sub(q, i32x4.splat(zero)));
}

// Byte j of the lane of a row, signed.
@inline
function byteOf(v: v128, row: i32, j: i32): i32 {
  return <i32>(<i8>i8x16.extract_lane_u(i8x16.swizzle(v, i8x16.splat(<i8>((row << 2) + j))), 0));
}

function dequantizeSupers<T>(pq: usize, row: i32, py: usize, n: i32): void {
  const t = changetype<T>(<usize>0);
  for (const end = py + ((<usize>n) << 2); py < end; pq += t.bytes()) {
    const d = f16ToF32(scaleOf(pq, row));
    const dmin: f32 = t.hasMin() ? f16ToF32(scaleOf(pq + t.dminAt(), row)) : 0;
    for (let g = 0; g < 16; g++) {
      const s = t.wide() ? g >> 1 : g;
      const scale = f32x4.splat(d * <f32>byteOf(t.scales(pq, s >> 2), row, s & 3));
      const min = f32x4.splat(dmin * <f32>byteOf(t.mins(pq, s >> 2), row, s & 3));
      for (let i = 0; i < 4; i++, py += 16) {
        const x = f32x4.mul(values(t.four(pq, g, i), row, t.zero()), scale);
        v128.store(py, t.hasMin() ? f32x4.sub(x, min) : x);
      }
    }
  }
}
