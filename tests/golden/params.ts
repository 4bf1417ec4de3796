// ggml's raw parameter slots back to the named parameters of our operators.

import { Glu, Op, Unary } from "../../assembly/abi.ts";
import type { Type } from "../../ts/types.ts";

/** What decoding needs of the result besides the slots. */
export interface Decoded {
  readonly type: Type;
  readonly ne: readonly number[];
  readonly nb: readonly number[];
}

const bits = new DataView(new ArrayBuffer(4));

function f32(raw: readonly number[], i: number): number {
  bits.setInt32(0, raw[i] ?? 0);
  return bits.getFloat32(0);
}

function i32(raw: readonly number[], i: number): number {
  return raw[i] ?? 0;
}

function rope(raw: readonly number[]): object {
  return {
    nDims: i32(raw, 1),
    mode: i32(raw, 2),
    nCtxOrig: i32(raw, 4),
    freqBase: f32(raw, 5),
    freqScale: f32(raw, 6),
    extFactor: f32(raw, 7),
    attnFactor: f32(raw, 8),
    betaFast: f32(raw, 9),
    betaSlow: f32(raw, 10),
    sections: [11, 12, 13, 14].map((i) => i32(raw, i)),
    offset: i32(raw, 15),
  };
}

function unary(raw: readonly number[]): object {
  const fn = i32(raw, 0);
  if (fn !== Unary.XIELU) return { fn };
  return { fn, alphaN: f32(raw, 1), alphaP: f32(raw, 2), beta: f32(raw, 3), eps: f32(raw, 4) };
}

function glu(raw: readonly number[]): object {
  const fn = i32(raw, 0);
  const swapped = i32(raw, 1) === 1;
  return fn === Glu.SWIGLU_OAI ? { fn, swapped, alpha: f32(raw, 2), limit: f32(raw, 3) } : { fn, swapped };
}

function conv(raw: readonly number[]): object {
  const [s0, s1, p0, p1, d0, d1] = [0, 1, 2, 3, 4, 5].map((i) => i32(raw, i));
  return { s0, s1, p0, p1, d0, d1 };
}

// In one dimension the slots of the second are 0.
function im2col(raw: readonly number[], { type }: Decoded): object {
  const is2D = i32(raw, 6) === 1;
  return { ...conv(raw), ...(is2D ? {} : { s1: 1, d1: 1 }), is2D, type };
}

function pool(raw: readonly number[]): "max" | "avg" {
  return i32(raw, 0) === 0 ? "max" : "avg";
}

function pool2d(raw: readonly number[]): object {
  const [k0, k1, s0, s1, p0, p1] = [1, 2, 3, 4, 5, 6].map((i) => i32(raw, i));
  return { pool: pool(raw), k0, k1, s0, s1, p0, p1 };
}

function patch(raw: readonly number[]): object {
  return { nb: [0, 1, 2].map((i) => i32(raw, i)), offset: i32(raw, 3), inplace: i32(raw, 4) === 1 };
}

function upscale(raw: readonly number[], { ne }: Decoded): object {
  const flags = i32(raw, 0);
  const mode = ["nearest", "bilinear", "bicubic"][flags & 255];
  return { ne, mode, alignCorners: (flags & 256) !== 0, antialias: (flags & 512) !== 0 };
}

function pad(raw: readonly number[]): object {
  const left = [0, 2, 4, 6].map((i) => i32(raw, i));
  const right = [1, 3, 5, 7].map((i) => i32(raw, i));
  return { left, right, circular: i32(raw, 8) === 1 };
}

const DECODE: { readonly [op: number]: (raw: readonly number[], dst: Decoded) => object } = {
  [Op.RESHAPE]: (_raw, { ne }) => ({ ne }),
  [Op.VIEW]: (raw, { ne, nb }) => ({ ne, nb, offs: (i32(raw, 0) >>> 0) + i32(raw, 1) * 2 ** 32 }),
  [Op.PERMUTE]: (raw) => ({ axes: [0, 1, 2, 3].map((i) => i32(raw, i)) }),
  [Op.CONT]: (_raw, { ne }) => ({ ne }),
  [Op.CPY]: (_raw, { type }) => ({ type }),
  [Op.ADD]: (_raw, { type }) => ({ type }),
  [Op.SUB]: (_raw, { type }) => ({ type }),
  [Op.MUL]: (_raw, { type }) => ({ type }),
  [Op.DIV]: (_raw, { type }) => ({ type }),
  [Op.SCALE]: (raw) => ({ s: f32(raw, 0), b: f32(raw, 1) }),
  [Op.CLAMP]: (raw) => ({ min: f32(raw, 0), max: f32(raw, 1) }),
  [Op.LEAKY_RELU]: (raw) => ({ slope: f32(raw, 0) }),
  [Op.FILL]: (raw) => ({ c: f32(raw, 0) }),
  [Op.UNARY]: unary,
  [Op.GLU]: glu,
  [Op.ARGSORT]: (raw) => ({ order: i32(raw, 0) === 1 ? "desc" : "asc" }),
  [Op.TOP_K]: (_raw, { ne }) => ({ k: ne[0] }),
  [Op.REPEAT]: (_raw, { ne }) => ({ ne }),
  [Op.CONCAT]: (raw) => ({ dim: i32(raw, 0) }),
  [Op.NORM]: (raw) => ({ eps: f32(raw, 0) }),
  [Op.RMS_NORM]: (raw) => ({ eps: f32(raw, 0) }),
  [Op.L2_NORM]: (raw) => ({ eps: f32(raw, 0) }),
  [Op.DIAG_MASK_INF]: (raw) => ({ nPast: i32(raw, 0) }),
  [Op.DIAG_MASK_ZERO]: (raw) => ({ nPast: i32(raw, 0) }),
  [Op.ACC]: patch,
  [Op.SET]: patch,
  [Op.GROUP_NORM]: (raw) => ({ nGroups: i32(raw, 0), eps: f32(raw, 1) }),
  [Op.IM2COL]: im2col,
  [Op.CONV_2D]: conv,
  [Op.CONV_2D_DW]: conv,
  [Op.CONV_TRANSPOSE_1D]: (raw) => ({ s0: i32(raw, 0) }),
  [Op.CONV_TRANSPOSE_2D]: (raw) => ({ stride: i32(raw, 0) }),
  [Op.POOL_1D]: (raw) => ({ pool: pool(raw), k: i32(raw, 1), s: i32(raw, 2), p: i32(raw, 3) }),
  [Op.POOL_2D]: pool2d,
  [Op.UPSCALE]: upscale,
  [Op.PAD]: pad,
  [Op.PAD_REFLECT_1D]: (raw) => ({ p0: i32(raw, 0), p1: i32(raw, 1) }),
  [Op.ROLL]: (raw) => ({ shift: [0, 1, 2, 3].map((i) => i32(raw, i)) }),
  [Op.ARANGE]: (raw) => ({ start: f32(raw, 0), stop: f32(raw, 1), step: f32(raw, 2) }),
  [Op.TIMESTEP_EMBEDDING]: (raw) => ({ dim: i32(raw, 0), maxPeriod: i32(raw, 1) }),
  [Op.TRI]: (raw) => ({ keep: i32(raw, 0) }),
  [Op.SOFT_MAX]: (raw) => ({ scale: f32(raw, 0), maxBias: f32(raw, 1) }),
  [Op.ROPE]: rope,
  [Op.FLASH_ATTN_EXT]: (raw) => ({ scale: f32(raw, 0), maxBias: f32(raw, 1), softcap: f32(raw, 2) }),
};

/** Named parameters of an operator; `dst` is the result as ggml made it. */
export function decodeParams(op: Op, raw: readonly number[], dst: Decoded): object {
  return DECODE[op]?.(raw, dst) ?? {};
}

/** Leading slots that mean the same in both: the fourth of FLASH_ATTN_EXT is a hint in ggml and a window here. */
export function comparableSlots(op: Op): number {
  return op === Op.FLASH_ATTN_EXT ? 3 : 16;
}
