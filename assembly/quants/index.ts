// Rows of any storage type to f32 and back, and which type a weight is multiplied with.

import { Type } from "../abi";
import { bf16RowToF32, f16RowToF32, f32RowToBf16, f32RowToF16 } from "../math/f16";
import { dequantizeIQ4_XS, quantizeIQ4_XS } from "./iq4_xs";
import { dequantizeIQ4_NL, quantizeIQ4_NL, quantizeIQ4_NLWeighted } from "./iq4_nl";
import { dequantizeMXFP4, quantizeMXFP4 } from "./mxfp4";
import { dequantizeQ2_K, quantizeQ2_K } from "./q2_k";
import { dequantizeQ3_K, quantizeQ3_K } from "./q3_k";
import { dequantizeQ4_K, quantizeQ4_K } from "./q4_k";
import { dequantizeQ5_K, quantizeQ5_K } from "./q5_k";
import { dequantizeQ6_K, quantizeQ6_K } from "./q6_k";
import { dequantizeQ8_K, quantizeQ8_K } from "./q8_k";
import { dequantizeQ4_0, quantizeQ4_0 } from "./q4_0";
import { dequantizeQ4_1, quantizeQ4_1 } from "./q4_1";
import { dequantizeQ5_0, quantizeQ5_0 } from "./q5_0";
import { dequantizeQ5_1, quantizeQ5_1 } from "./q5_1";
import { dequantizeQ8_0, quantizeQ8_0 } from "./q8_0";
import { dequantizeQ8_1, quantizeQ8_1 } from "./q8_1";
import { quantizeWeighted } from "./weighted";

/**
 * `n` f32 at px to a row of `type` at py; n is a multiple of the block. False for a type that cannot be written.
 *
 * @param pq importance of each column, f32; 0 = none. Types without a search do not look at it
 * @param ps SEARCH_BYTES of scratch for types with super-blocks, and for any type with importance
 */
export function quantizeRow(type: i32, px: usize, py: usize, n: i32, pq: usize, ps: usize): bool {
  return (pq != 0 && quantizeSearched(type, px, pq, py, n, ps)) || quantizePlain(type, px, py, n, ps);
}

// With importance; false for types that do not look at it.
function quantizeSearched(type: i32, px: usize, pq: usize, py: usize, n: i32, ps: usize): bool {
  switch (type) {
    case Type.Q4_0:
      quantizeWeighted(4, false, px, pq, py, n, ps);
      break;
    case Type.Q4_1:
      quantizeWeighted(4, true, px, pq, py, n, ps);
      break;
    case Type.Q5_0:
      quantizeWeighted(5, false, px, pq, py, n, ps);
      break;
    case Type.Q5_1:
      quantizeWeighted(5, true, px, pq, py, n, ps);
      break;
    case Type.IQ4_NL:
      quantizeIQ4_NLWeighted(px, pq, py, n, ps);
      break;
    default:
      return quantizeSuper(type, px, pq, py, n, ps);
  }
  return true;
}

function quantizeSuper(type: i32, px: usize, pq: usize, py: usize, n: i32, ps: usize): bool {
  switch (type) {
    case Type.Q2_K:
      quantizeQ2_K(px, pq, py, n, ps);
      break;
    case Type.Q3_K:
      quantizeQ3_K(px, pq, py, n, ps);
      break;
    case Type.Q4_K:
      quantizeQ4_K(px, pq, py, n, ps);
      break;
    case Type.Q5_K:
      quantizeQ5_K(px, pq, py, n, ps);
      break;
    case Type.Q6_K:
      quantizeQ6_K(px, pq, py, n, ps);
      break;
    case Type.IQ4_XS:
      quantizeIQ4_XS(px, pq, py, n, ps);
      break;
    default:
      return false;
  }
  return true;
}

function quantizePlain(type: i32, px: usize, py: usize, n: i32, ps: usize): bool {
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
    case Type.Q4_1:
      quantizeQ4_1(px, py, n);
      break;
    case Type.Q5_0:
      quantizeQ5_0(px, py, n);
      break;
    case Type.Q5_1:
      quantizeQ5_1(px, py, n);
      break;
    case Type.Q8_0:
      quantizeQ8_0(px, py, n);
      break;
    case Type.Q8_1:
      quantizeQ8_1(px, py, n);
      break;
    case Type.Q8_K:
      quantizeQ8_K(px, py, n);
      break;
    case Type.IQ4_NL:
      quantizeIQ4_NL(px, py, n);
      break;
    case Type.MXFP4:
      quantizeMXFP4(px, py, n);
      break;
    default:
      return quantizeSuper(type, px, 0, py, n, ps);
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
    case Type.Q4_1:
      dequantizeQ4_1(px, py, n);
      break;
    case Type.Q5_0:
      dequantizeQ5_0(px, py, n);
      break;
    case Type.Q5_1:
      dequantizeQ5_1(px, py, n);
      break;
    case Type.Q8_0:
      dequantizeQ8_0(px, py, n);
      break;
    case Type.Q8_1:
      dequantizeQ8_1(px, py, n);
      break;
    case Type.Q2_K:
      dequantizeQ2_K(px, py, n);
      break;
    case Type.Q3_K:
      dequantizeQ3_K(px, py, n);
      break;
    case Type.Q4_K:
      dequantizeQ4_K(px, py, n);
      break;
    case Type.Q5_K:
      dequantizeQ5_K(px, py, n);
      break;
    case Type.Q6_K:
      dequantizeQ6_K(px, py, n);
      break;
    case Type.Q8_K:
      dequantizeQ8_K(px, py, n);
      break;
    case Type.IQ4_XS:
      dequantizeIQ4_XS(px, py, n);
      break;
    case Type.IQ4_NL:
      dequantizeIQ4_NL(px, py, n);
      break;
    case Type.MXFP4:
      dequantizeMXFP4(px, py, n);
      break;
    default:
      return false;
  }
  return true;
}

/** Elements per block. */
export function blockSize(type: i32): i32 {
  switch (type) {
    case Type.Q4_0:
    case Type.Q4_1:
    case Type.Q5_0:
    case Type.Q5_1:
    case Type.Q8_0:
    case Type.Q8_1:
    case Type.IQ4_NL:
    case Type.MXFP4:
      return 32;
    case Type.Q2_K:
    case Type.Q3_K:
    case Type.Q4_K:
    case Type.Q5_K:
    case Type.Q6_K:
    case Type.IQ4_XS:
    case Type.Q8_K:
      return 256;
    default:
      return 1;
  }
}
