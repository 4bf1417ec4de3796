// FLASH_ATTN_EXT: attention of all heads in one operator.

import {
  ATTN_CELLS,
  ATTN_CELL_BYTES,
  ATTN_PARTIAL_BYTES,
  ATTN_ROWS,
  ATTN_WEIGHT_BYTES,
  ATTN_WORK_BYTES,
} from "../../assembly/abi.ts";
import { isContiguousRows, str } from "../shape.ts";
import { Type, typeInfo } from "../types.ts";
import {
  type OpDef,
  type Operand,
  type Result,
  f32bits,
  need,
  needParam,
  needShape,
  needType,
} from "./op.ts";

const OP = "flash_attn_ext";
const KV: readonly Type[] = [
  Type.F32,
  Type.F16,
  Type.BF16,
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.IQ4_NL,
];

/** Parameters of flash_attn_ext. */
export interface FlashAttnParams {
  /** factor of q k, usually 1 / sqrt D */
  readonly scale: number;
  /** ALiBi bias; 0 = none. With a mask it is the mask's factor, without one that of the distance in cells. */
  readonly maxBias?: number;
  /** scores are c tanh(z / c); 0 = none */
  readonly softcap?: number;
  /** sliding window in cells, the token's own included; needs a length or spans; 0 = none */
  readonly window?: number;
  /** the window looks both ways: window / 2 cells before and after, needs spans */
  readonly twoSided?: boolean;
}

export const flashAttnExtDef: OpDef<FlashAttnParams> = {
  name: OP,
  doc:
    "q [D, N, H, S], k [D, KV, Hk, S], v [Dv, KV, Hv, S], mask [KV, >= N, ..]?, sinks [H]?, length I32 [2]?, spans I32 [2, >= N]? " +
    "-> [Dv, H, N, S]: softmax(scale q k + mask) v. Length {live cells, position of the first token} makes it causal without a mask; " +
    "spans {first cell, end} say for each token which cells it may see, its own being that of its index.",
  inplace: false,
  options: ["scale", "maxBias", "softcap", "window", "twoSided"],

  infer(src, params): Result {
    const q = need(OP, src, 0);
    const k = need(OP, src, 1);
    const v = need(OP, src, 2);
    needType(OP, "q", q.type, [Type.F32]);
    needType(OP, "k", k.type, KV);
    needType(OP, "v", v.type, KV);
    checkHeads(q, k, v);
    for (const x of [q, k, v]) {
      needShape(OP, isContiguousRows(x.type, x.ne, x.nb), x.ne, x.nb, "rows have gaps between elements");
    }
    if (src[3]) checkMask(q, k, src[3]);
    if (src[4]) checkVector("sinks", src[4], Type.F32, q.ne[2]);
    if (src[5]) checkVector("length", src[5], Type.I32, 2);
    if (src[6]) checkSpans(q, src[6]);
    return {
      type: Type.F32,
      ne: [v.ne[0], q.ne[2], q.ne[1], q.ne[3]],
      params: pack(params, src),
    };
  },

  scratch({ ne: [, heads, tokens, sequences] }, src, nThreads): number {
    const rows = Math.min(ATTN_ROWS, heads * tokens * sequences);
    const [q, k, v] = [src[0]!, src[1]!, src[2]!];
    const nbd = 64 * Math.ceil(q.ne[0] / 16);
    const nbv = 64 * Math.ceil(v.ne[0] / 16);
    const wide = Math.max(nbd, nbv);
    const side = Math.max(1, Math.min(Math.max(k.ne[2], v.ne[2]), Math.floor(ATTN_CELL_BYTES / wide)));
    const perRow = 64 + ATTN_WEIGHT_BYTES + nbd + nbv;
    const bytes = ATTN_WORK_BYTES + ATTN_PARTIAL_BYTES + rows * perRow + ATTN_CELLS * side * wide;
    return nThreads * 64 * Math.ceil(bytes / 64);
  },

  flops(dst, src): number {
    return 2 * dst.ne[1] * dst.ne[2] * dst.ne[3] * src[1]!.ne[1] * (src[0]!.ne[0] + dst.ne[0]);
  },
};

function checkHeads(q: Operand, k: Operand, v: Operand): void {
  needShape(OP, q.ne[0] === k.ne[0], q.ne, k.ne, "rows of q and k differ in length");
  needShape(OP, k.ne[1] === v.ne[1], k.ne, v.ne, "k and v have different numbers of cells");
  for (const x of [k, v]) {
    const { blockSize } = typeInfo(x.type)!;
    needShape(OP, x.ne[0] % blockSize === 0, q.ne, x.ne, `rows are no multiple of ${blockSize}`);
    const divides = x.ne[2] > 0 && q.ne[2] % x.ne[2] === 0 && x.ne[3] > 0 && q.ne[3] % x.ne[3] === 0;
    needShape(OP, divides, q.ne, x.ne, "heads or sequences of q are no multiples of those of k and v");
  }
  const [few, many] = k.ne[2] < v.ne[2] ? [k, v] : [v, k];
  needShape(OP, many.ne[2] % few.ne[2] === 0, k.ne, v.ne, "heads of k and v do not divide each other");
}

function checkMask(q: Operand, k: Operand, mask: Operand): void {
  needType(OP, "mask", mask.type, [Type.F16, Type.F32]);
  const fits = mask.ne[0] >= k.ne[1] && mask.ne[1] >= q.ne[1];
  needShape(OP, fits, mask.ne, [k.ne[1], q.ne[1]], "the mask is smaller than cells times tokens");
  const repeats = q.ne[2] % mask.ne[2] === 0 && q.ne[3] % mask.ne[3] === 0;
  needShape(OP, repeats, mask.ne, q.ne, "dimensions 2 and 3 of the mask do not divide heads and sequences");
}

function checkVector(what: string, x: Operand, type: Type, n: number): void {
  needType(OP, what, x.type, [type]);
  needShape(OP, x.ne[0] === n, x.ne, [n], `${what} must be ${str([n])}`);
}

function checkSpans(q: Operand, spans: Operand): void {
  checkVector("spans", spans, Type.I32, 2);
  needShape(OP, spans.ne[1] >= q.ne[1], q.ne, spans.ne, "fewer spans than tokens");
}

function pack(p: FlashAttnParams, src: readonly (Operand | undefined)[]): number[] {
  const { scale, maxBias = 0, softcap = 0, window = 0, twoSided = false } = p;
  const placed = src[5] !== undefined || src[6] !== undefined; // tokens have cells of their own
  needParam(OP, "scale", scale, Number.isFinite(scale), "a finite number");
  const biased = maxBias > 0 && Number.isFinite(maxBias) && (src[3] !== undefined || placed);
  needParam(OP, "maxBias", maxBias, maxBias === 0 || biased, "0, or positive with a mask, a length or spans");
  needParam(OP, "softcap", softcap, softcap >= 0 && Number.isFinite(softcap), "0 or a positive number");
  const fits = Number.isSafeInteger(window) && window >= 0 && window < 2 ** 31;
  const rule = "0, or a positive integer with a length or spans";
  needParam(OP, "window", window, fits && (window === 0 || placed), rule);
  needParam(OP, "twoSided", twoSided, !twoSided || src[6] !== undefined, "false without spans");
  return [f32bits(scale), f32bits(maxBias), f32bits(softcap), 0, window, twoSided ? 1 : 0];
}
