// Rows of any storage type to f32 and back, and which type a weight is multiplied with.

import { Type } from "../abi";
import { bf16RowToF32, f16RowToF32, f32RowToBf16, f32RowToF16 } from "../math/f16";
import { dequantizeQ4_0, quantizeQ4_0 } from "./q4_0";
import { dequantizeQ8_0, quantizeQ8_0 } from "./q8_0";

/** `n` f32 at px to a row of `type` at py; n is a multiple of the block. False for a type that cannot be written. */
export function quantizeRow(type: i32, px: usize, py: usize, n: i32): bool {
  switch (type) {
    case Type.F32:
      memory.copy(py, px, (<usize>n) << 2);
      break;
    case Type.F16:
      f32RowToF16(px, py, n);
      break;
    case Type.BF16:
      f32RowToBf16(px, py, n);
      break;
    case Type.Q4_0:
      quantizeQ4_0(px, py, n);
      break;
    case Type.Q8_0:
      quantizeQ8_0(px, py, n);
      break;
    default:
      return false;
  }
  return true;
}

/** A row of `type` at px to `n` f32 at py; n is a multiple of the block. False for a type that cannot be read. */
export function dequantizeRow(type: i32, px: usize, py: usize, n: i32): bool {
  switch (type) {
    case Type.F32:
      memory.copy(py, px, (<usize>n) << 2);
      break;
    case Type.F16:
      f16RowToF32(px, py, n);
      break;
    case Type.BF16:
      bf16RowToF32(px, py, n);
      break;
    case Type.Q4_0:
      dequantizeQ4_0(px, py, n);
      break;
    case Type.Q8_0:
      dequantizeQ8_0(px, py, n);
      break;
    default:
      return false;
  }
  return true;
}

/** Type of the activations that weights of `type` are multiplied with: integer dots for block types. */
export function dotType(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
    case Type.Q8_0:
      return Type.Q8_0;
    default:
      return type;
  }
}

/** Elements per block. */
export function blockSize(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
    case Type.Q8_0:
      return 32;
    default:
      return 1;
  }
}
