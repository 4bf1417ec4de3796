// ROPE: modes, partial rotation, offsets, frequency factors, linear and YaRN scaling, far positions.

import { Op } from "../../assembly/abi.ts";
import type { RopeParams } from "../../ts/ops/rope.ts";
import { Type } from "../../ts/types.ts";
import { type At, type Case, f32, i32, range, type Source } from "./case.ts";

const fround = Math.fround;

// Position of pair p, and the power its angle is raised to.
function place(
  p: number,
  pos: (axis: number) => number,
  { mode = 0, sections = [] }: RopeParams,
): [number, number] {
  if ((mode & 8) === 0) return [pos(0), p];
  const [s0 = 0, s1 = 0, s2 = 0, s3 = 0] = sections;
  const k = p % (s0 + s1 + s2 + s3);
  if (mode === 40) return [pos(k < 3 * sections[k % 3]! ? k % 3 : 3), p];
  const axis = k < s0 ? 0 : k < s0 + s1 ? 1 : k < s0 + s1 + s2 ? 2 : 3;
  return [pos(axis), mode === 24 ? k - [0, s0, s0 + s1, s0 + s1 + s2][axis]! : p];
}

// The angle is a running product in single precision by definition; sine and cosine are double.
function theta(p: number, pos: (axis: number) => number, params: RopeParams): number {
  const { nDims, freqBase = 10000 } = params;
  const [start, power] = place(p, pos, params);
  const ratio = fround(fround(freqBase) ** (-2 / nDims));
  return range(power).reduce((t) => fround(t * ratio), start);
}

function angle(
  p: number,
  pos: (axis: number) => number,
  factor: number,
  params: RopeParams,
): [number, number] {
  const {
    nDims,
    freqBase = 10000,
    freqScale = 1,
    extFactor = 0,
    attnFactor = 1,
    nCtxOrig = 0,
    betaFast = 32,
    betaSlow = 1,
  } = params;
  const far = fround(theta(p, pos, params) / factor);
  if (extFactor === 0) return [fround(freqScale * far), attnFactor];
  const corr = (beta: number): number =>
    (nDims * Math.log(nCtxOrig / (beta * 2 * Math.PI))) / (2 * Math.log(freqBase));
  const low = Math.max(0, Math.floor(corr(betaFast)));
  const high = Math.min(nDims - 1, Math.ceil(corr(betaSlow)));
  const mix = (1 - Math.min(1, Math.max(0, (p - low) / Math.max(0.001, high - low)))) * extFactor;
  return [freqScale * far * (1 - mix) + far * mix, attnFactor * (1 + 0.1 * Math.log(1 / freqScale))];
}

function rope(
  title: string,
  x: Source,
  positions: readonly number[],
  params: RopeParams,
  factors?: Source,
): Case {
  const { nDims, mode = 0, offset = 0 } = params;
  const [ne0 = 1, , tokens = 1] = x.ne;
  const pairs = mode === 24 ? ne0 / 2 : nDims / 2;
  const value: Case["value"] = ({ x: [a, pos, ff] }, [i0, i1, i2, i3]) => {
    const k = i0 - offset;
    if (k < 0 || k >= 2 * pairs) return (a as At)(i0, i1, i2, i3);
    const p = mode === 0 ? k >> 1 : k % pairs;
    const second = mode === 0 ? k % 2 === 1 : k >= pairs;
    const [first, step] = mode === 0 ? [offset + 2 * p, 1] : [offset + p, pairs];
    const [t, m] = angle(p, (axis) => pos!(axis * tokens + i2), factors === undefined ? 1 : ff!(p), params);
    const u = a!(first, i1, i2, i3);
    const v = a!(first + step, i1, i2, i3);
    return m * (second ? u * Math.sin(t) + v * Math.cos(t) : u * Math.cos(t) - v * Math.sin(t));
  };
  const src = [x, i32([positions.length], positions), factors];
  return {
    op: Op.ROPE,
    title,
    src,
    params,
    ne: x.ne,
    type: x.type,
    value,
    tolerance: x.type === Type.F16 ? 2e-3 : 4e-6,
  };
}

const POS = [0, 1, 7, 63, 511];
const PLANES = [...POS, ...POS.map((p) => p + 3), ...POS.map((p) => 2 * p), ...POS.map(() => 5)];
const X = f32([32, 3, 5, 2]);
const YARN = { nDims: 32, nCtxOrig: 512, freqScale: 0.25, extFactor: 1, attnFactor: 1.2 };

export const ropeCases: readonly Case[] = [
  ...[0, 2].flatMap((mode) => [
    rope(`mode ${mode}`, X, POS, { nDims: 32, mode }),
    rope(`mode ${mode}, one head of 2`, f32([2, 1, 5]), POS, { nDims: 2, mode }),
    rope(`mode ${mode}, 6 of 10 elements`, f32([10, 2, 5]), POS, { nDims: 6, mode }),
    rope(`mode ${mode}, 6 of 10 elements from 4`, f32([10, 2, 5]), POS, { nDims: 6, mode, offset: 4 }),
    rope(`mode ${mode}, F16`, { type: Type.F16, ne: [14, 2, 5] }, POS, { nDims: 14, mode }),
    rope(`mode ${mode}, factors`, X, POS, { nDims: 32, mode, freqBase: 500000 }, f32([16], "positive")),
    rope(`mode ${mode}, linear`, X, POS, { nDims: 32, mode, freqScale: 0.25 }),
    rope(`mode ${mode}, YaRN`, X, [0, 1, 7, 30, 50], { ...YARN, mode }),
    rope(`mode ${mode}, far positions`, X, [1000, 30000, 131071, 500000, 1000000], { nDims: 32, mode }),
  ]),
  rope("M-RoPE", f32([40, 2, 5]), PLANES, { nDims: 32, mode: 8, sections: [8, 4, 4, 0] }),
  rope("M-RoPE, sections that wrap", f32([32, 2, 5]), PLANES, { nDims: 32, mode: 8, sections: [3, 2, 1, 1] }),
  rope("interleaved M-RoPE", f32([32, 2, 5]), PLANES, { nDims: 32, mode: 40, sections: [6, 5, 5, 0] }),
  rope("vision", f32([32, 2, 5]), PLANES, { nDims: 16, mode: 24, sections: [8, 8, 0, 0] }),
];
