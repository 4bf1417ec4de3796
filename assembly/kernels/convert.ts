// A stretch of elements moved and converted on the way: the core of all copying operators.
//
//   same type                 bytes as they are
//   F32, F16, BF16 mutually   rounded to nearest even
//   F32 <-> I32               truncated / rounded
//   float -> block type       F32 directly, F16 and BF16 through a piece of scratch
//   block type -> F32         whole blocks without gaps

import { Type } from "../abi";
import { loadLanes, storeLanes } from "../math/lanes";
import { blockSize, dequantizeRow, quantizeRow } from "../quants/index";
import { SEARCH_BYTES } from "../quants/search";

/** Elements converted at once through scratch; a multiple of every block. */
const PIECE = 256;
const PIECE_BYTES: usize = PIECE * 4;
/** Scratch bytes a thread needs to write block types: a piece as f32, and what their search wants. */
export const BLOCK_SCRATCH: usize = PIECE_BYTES + SEARCH_BYTES;

/** Bytes of an element of a type without blocks; 0 for block types. */
export function elementBytes(type: i32): usize {
  switch (type) {
    case Type.F32:
    case Type.I32:
      return 4;
    case Type.F16:
    case Type.BF16:
    case Type.I16:
      return 2;
    case Type.I64:
    case Type.F64:
      return 8;
    case Type.I8:
      return 1;
    default:
      return 0;
  }
}

/** Bytes from element 0 to element `i` of a row; `nb0` as in a node, `i` at the start of a block. */
export function offsetOf(type: i32, nb0: usize, i: i32): usize {
  return <usize>(i / blockSize(type)) * nb0;
}


@inline
function isFloat(type: i32): bool {
  return type == Type.F32 || type == Type.F16 || type == Type.BF16;
}

/**
 * Moves `n` elements of type tx, sx bytes apart, to type ty, sy bytes apart (of a block: from one to the next).
 *
 * @param scratch BLOCK_SCRATCH, needed from F16 or BF16 to block types and to types with super-blocks only
 */
export function convert(
  tx: i32,
  px: usize,
  sx: usize,
  ty: i32,
  py: usize,
  sy: usize,
  n: i32,
  scratch: usize = 0,
): void {
  const bx = elementBytes(tx);
  const by = elementBytes(ty);
  if (tx == ty) return copy(bx, px, sx, py, sy, bx == 0 ? n / blockSize(tx) : n);
  if (ty == Type.F32 && (bx == 0 || sx == bx) && sy == 4 && dequantizeRow(tx, px, py, n)) return;
  if (
    tx == Type.F32 &&
    (by == 0 || sy == by) &&
    sx == 4 &&
    quantizeRow(ty, px, py, n, 0, scratch + PIECE_BYTES)
  )
    return;
  if (isFloat(tx) && isFloat(ty)) return floats(tx, px, sx, ty, py, sy, n);
  if (isFloat(tx) && by == 0) return quantizePieces(tx, px, ty, py, sy, n, scratch);
  integers(tx, px, sx, ty, py, sy, n);
}

// n elements (or blocks, size 0) as they are.
function copy(size: usize, px: usize, sx: usize, py: usize, sy: usize, n: i32): void {
  if (size == 0 || (sx == size && sy == size)) return memory.copy(py, px, <usize>n * sx);
  for (; n > 0; n--, px += sx, py += sy) {
    if (size == 4) store<u32>(py, load<u32>(px));
    else if (size == 2) store<u16>(py, load<u16>(px));
    else if (size == 8) store<u64>(py, load<u64>(px));
    else store<u8>(py, load<u8>(px));
  }
}

// F32, F16, BF16 to one another, any strides.
function floats(tx: i32, px: usize, sx: usize, ty: i32, py: usize, sy: usize, n: i32): void {
  for (; n > 0; n -= 4, px += 4 * sx, py += 4 * sy) {
    const k = min(n, 4);
    storeLanes(ty, py, sy, k, loadLanes(tx, px, sx, k));
  }
}

// F16 or BF16 to a block type, a piece at a time through f32.
function quantizePieces(tx: i32, px: usize, ty: i32, py: usize, sy: usize, n: i32, pieces: usize): void {
  for (; n > 0; n -= PIECE) {
    const k = min(n, PIECE);
    dequantizeRow(tx, px, pieces, k);
    if (!quantizeRow(ty, pieces, py, k, 0, pieces + PIECE_BYTES)) unreachable();
    px += <usize>PIECE * elementBytes(tx);
    py += offsetOf(ty, sy, PIECE);
  }
}

// F32 to I32 (towards zero, saturating) and back.
function integers(tx: i32, px: usize, sx: usize, ty: i32, py: usize, sy: usize, n: i32): void {
  for (; n > 0; n--, px += sx, py += sy) {
    if (tx == Type.I32 && ty == Type.F32) store<f32>(py, <f32>load<i32>(px));
    else if (tx == Type.F32 && ty == Type.I32) store<i32>(py, <i32>load<f32>(px));
    else unreachable();
  }
}
