// ROPE: rotary position embedding.

import { RopeMode } from "../../assembly/abi.ts";
import { Type } from "../types.ts";
import {
  f32bits,
  need,
  needFinite,
  needInteger,
  needParam,
  needRows,
  needShape,
  needType,
  type Operand,
} from "./op.ts";
import type { OpDef, Result } from "./op.ts";

/** Parameters of ROPE. Named as in ggml. */
export interface RopeParams {
  /** elements of a head that are rotated, an even number */
  readonly nDims: number;
  /** 0 adjacent pairs (when absent), 2 NeoX, 8 M-RoPE, 24 vision, 40 interleaved M-RoPE */
  readonly mode?: number;
  /** context the model was trained for; matters with extFactor */
  readonly nCtxOrig?: number;
  /** 10000 when absent */
  readonly freqBase?: number;
  /** 1 when absent; 1/factor for linear scaling */
  readonly freqScale?: number;
  /** YaRN's mix; 0 (absent) switches it off */
  readonly extFactor?: number;
  /** magnitude, 1 when absent */
  readonly attnFactor?: number;
  /** 32 when absent */
  readonly betaFast?: number;
  /** 1 when absent */
  readonly betaSlow?: number;
  /** pairs per axis t, h, w, e, for the modes with several axes */
  readonly sections?: readonly number[];
  /** first element that is rotated */
  readonly offset?: number;
}

const MODES: readonly number[] = [0, 2, 8, 24, 40];

export const ropeDef: OpDef<RopeParams> = {
  name: "rope",
  doc: "x [d, h, t, b] F32 or F16, positions [t] I32 (four planes [4t] with several axes), factors? [>= nDims/2] F32 -> x with pairs of elements rotated by position base^(-2p/nDims).",
  inplace: true,
  options: [
    "nDims",
    "mode",
    "nCtxOrig",
    "freqBase",
    "freqScale",
    "extFactor",
    "attnFactor",
    "betaFast",
    "betaSlow",
    "sections",
    "offset",
  ],
  infer(src, params): Result {
    const x = need("rope", src, 0);
    const pos = need("rope", src, 1);
    needType("rope", "x", x.type, [Type.F32, Type.F16]);
    needRows("rope", "x", x);
    needType("rope", "positions", pos.type, [Type.I32]);
    const slots = pack(x, params);
    const planes = ((params.mode ?? 0) & RopeMode.MULTI_AXIS) !== 0 ? 4 : 1;
    needShape(
      "rope",
      pos.ne[0] === planes * x.ne[2],
      x.ne,
      pos.ne,
      `expected ${planes} position(s) per token (ne[2])`,
    );
    if (src[2] !== undefined) checkFactors(x, src[2], params);
    return { type: x.type, ne: x.ne, params: slots };
  },
  // cosines and sines of one token, and the angle of each axis
  scratch: (dst, _src, nThreads) => nThreads * (4 * dst.ne[0] + 16),
  flops: (dst) => 6 * dst.ne[0] * dst.ne[1] * dst.ne[2] * dst.ne[3],
};

function checkFactors(x: Operand, factors: Operand, { nDims, mode }: RopeParams): void {
  needType("rope", "factors", factors.type, [Type.F32]);
  const pairs = mode === RopeMode.VISION ? x.ne[0] / 2 : nDims / 2;
  needShape("rope", factors.ne[0] >= pairs, x.ne, factors.ne, `expected a factor for each of ${pairs} pairs`);
}

function pack(x: Operand, params: RopeParams): readonly number[] {
  const { nDims, mode = 0, nCtxOrig = 0, sections = [], offset = 0 } = params;
  needParam("rope", "mode", mode, MODES.includes(mode), MODES.join(", "));
  needParam("rope", "nDims", nDims, nDims % 2 === 0, "an even number");
  needInteger("rope", "nDims", nDims, 2, mode === RopeMode.VISION ? x.ne[0] / 2 : x.ne[0]);
  needInteger("rope", "nCtxOrig", nCtxOrig, 0, 2 ** 31 - 1);
  needInteger("rope", "offset", offset, 0, mode === RopeMode.VISION ? 0 : x.ne[0] - nDims);
  return [0, nDims, mode, 0, nCtxOrig, ...packFloats(params), ...packSections(mode, sections), offset];
}

function packFloats(params: RopeParams): number[] {
  const {
    freqBase = 10000,
    freqScale = 1,
    extFactor = 0,
    attnFactor = 1,
    betaFast = 32,
    betaSlow = 1,
  } = params;
  const numbers = { freqBase, freqScale, extFactor, attnFactor, betaFast, betaSlow };
  for (const [name, value] of Object.entries(numbers)) needFinite("rope", name, value);
  needParam("rope", "freqBase", freqBase, Math.fround(freqBase) > 0, "a positive number");
  return Object.values(numbers).map(f32bits);
}

function packSections(mode: number, sections: readonly number[]): number[] {
  const slots = [0, 1, 2, 3].map((i) => sections[i] ?? 0);
  for (const s of slots) needInteger("rope", "sections", s, 0, 2 ** 16);
  const total = slots.reduce((a, b) => a + b, 0);
  needParam(
    "rope",
    "sections",
    sections.join(","),
    (mode & RopeMode.MULTI_AXIS) === 0 || total > 0,
    "pairs per axis, not all 0",
  );
  return slots;
}
