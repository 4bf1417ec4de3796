// MUL_MAT: matrix product, and the batched products of attention and convolutions.

import {
  BLOCK_COLUMNS,
  BLOCK_COLUMNS_MAX,
  BLOCK_ELEMENTS,
  FLOAT_COLUMNS,
  FLOAT_COLUMNS_MAX,
  FLOAT_ELEMENTS,
  FLOAT_PARTIAL_BYTES,
  PANEL_COLUMNS,
} from "../../assembly/abi.ts";
import { isContiguousRows } from "../shape.ts";
import { Type, isQuantized, typeInfo } from "../types.ts";
import { type OpDef, type Result, need, needShape, needType } from "./op.ts";

const FLOATS: readonly Type[] = [Type.F32, Type.F16, Type.BF16];
/** Block types among them. */
export const BLOCK_WEIGHTS: readonly Type[] = [
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_NL,
  Type.IQ4_XS,
  Type.MXFP4,
];

/** Types that weights can have. */
export const WEIGHTS: readonly Type[] = [...FLOATS, ...BLOCK_WEIGHTS];

/** Type that the CPU wants its activations in, for weights of a type. */
export function dotType(weights: Type): Type {
  const block = typeInfo(weights)!.blockSize;
  if (block === 1) return Type.F32;
  if (block === 256) return Type.Q8_K;
  return weights === Type.Q4_1 || weights === Type.Q5_1 ? Type.Q8_1 : Type.Q8_0;
}

export const mulMatDef: OpDef = {
  name: "mul_mat",
  doc: "a [k, m, p, q], b [k, n, p*r, q*s] -> [m, n, p*r, q*s]: sum over k of a * b; a is repeated over dimensions 2 and 3.",
  inplace: false,

  infer(src): Result {
    const a = need("mul_mat", src, 0);
    const b = need("mul_mat", src, 1);
    needType("mul_mat", "a", a.type, WEIGHTS);
    needType("mul_mat", "b", b.type, partners(a.type));
    needShape("mul_mat", a.ne[0] === b.ne[0], a.ne, b.ne, "rows differ in length");
    const repeats = a.ne[2] > 0 && a.ne[3] > 0 && b.ne[2] % a.ne[2] === 0 && b.ne[3] % a.ne[3] === 0;
    needShape("mul_mat", repeats, a.ne, b.ne, "dimensions 2 and 3 of b are no multiples of a's");
    const { blockSize } = typeInfo(a.type)!;
    needShape("mul_mat", a.ne[0] % blockSize === 0, a.ne, b.ne, `rows are no multiple of ${blockSize}`);
    for (const x of [a, b]) {
      needShape(
        "mul_mat",
        isContiguousRows(x.type, x.ne, x.nb),
        x.ne,
        x.nb,
        "rows have gaps between elements",
      );
    }
    return { type: Type.F32, ne: [a.ne[1], b.ne[1], b.ne[2], b.ne[3]] };
  },

  scratch(_dst, src, nThreads): number {
    const a = src[0]!;
    const b = src[1]!;
    const k = a.ne[0];
    const perThread = isQuantized(a.type)
      ? blockBytes(k / 32, Math.min(blockColumns(k), 4 * Math.ceil(b.ne[1] / 4)))
      : floatBytes(a.type, b.type, k, b.ne[1]);
    return nThreads * 64 * Math.ceil(perThread / 64);
  },

  flops(dst, src): number {
    return 2 * src[0]!.ne[0] * dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3];
  },
};

function blockColumns(k: number): number {
  return Math.max(BLOCK_COLUMNS, Math.min(BLOCK_COLUMNS_MAX, 4 * Math.floor(BLOCK_ELEMENTS / k / 4)));
}

/** Types that activations can have for weights of a type. */
export function partners(a: Type): readonly Type[] {
  if (isQuantized(a)) return [Type.F32, dotType(a)];
  return a === Type.F32 ? [Type.F32] : [Type.F32, a];
}

/**
 * Columns spread out to two bytes an element, scales and seeds; with more than three columns a panel of eight rows and tiles too,
 * with fewer what is kept behind each, 512 bytes.
 */
export function blockBytes(nb: number, columns: number): number {
  return columns * nb * 80 + (8 * 64 + 128) * nb + 768;
}

// What n columns need, and fewer.
function floatBytes(a: Type, b: Type, k: number, n: number): number {
  const most = Math.max(FLOAT_COLUMNS, Math.min(FLOAT_COLUMNS_MAX, 8 * Math.floor(FLOAT_ELEMENTS / k / 8)));
  const panels = n < PANEL_COLUMNS ? 0 : 2 + Math.ceil(Math.min(n, most) / 8);
  const converted = b === Type.F32 ? 0 : 4 * k * Math.min(n, PANEL_COLUMNS - 1);
  // partial tiles and panels of eight rows or columns as f32: sixteen parts, 64 bytes after each unless they are short
  const part = 32 * Math.ceil(k / 16);
  const panel = 16 * (part < 512 ? part : part + 64);
  return Math.max(FLOAT_PARTIAL_BYTES + panels * panel, floatRowBytes(a, k) + converted);
}

/** Scratch of assembly/matmul/float_rows.ts: sums; of 16-bit weights a column, spread out, and a row as f32. */
export function floatRowBytes(a: Type, k: number): number {
  return 256 + (a === Type.F32 ? 0 : 128 * Math.ceil(k / 16));
}
