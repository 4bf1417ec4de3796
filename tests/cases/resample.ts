// UPSCALE PAD PAD_REFLECT_1D ROLL ARANGE TIMESTEP_EMBEDDING.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, range, sum } from "./case.ts";

const clamp = (i: number, n: number): number => Math.max(0, Math.min(n - 1, i));

// Taps of one dimension: indices with weights that sum to 1.
type Taps = readonly (readonly [index: number, weight: number])[];
type Rule = (i: number, n: number, out: number, aligned: boolean) => Taps;

function position(i: number, n: number, out: number, aligned: boolean): number {
  if (!aligned) return ((i + 0.5) * n) / out - 0.5;
  return out > 1 && n > 1 ? (i * (n - 1)) / (out - 1) : (i * n) / out;
}

const nearest: Rule = (i, n, out, aligned) => {
  const exact = aligned ? position(i, n, out, true) : (i * n) / out;
  return [[clamp(Math.floor(exact + 1e-6), n), 1]];
};

const linear: Rule = (i, n, out, aligned) => {
  const u = Math.max(0, Math.min(n - 1, position(i, n, out, aligned)));
  const t = u - Math.floor(u);
  return [
    [Math.floor(u), 1 - t],
    [clamp(Math.floor(u) + 1, n), t],
  ];
};

// Keys' cubic convolution with a = -3/4, by distance.
function keys(d: number): number {
  const [a, x] = [-0.75, Math.abs(d)];
  if (x <= 1) return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1;
  return x < 2 ? a * x ** 3 - 5 * a * x ** 2 + 8 * a * x - 4 * a : 0;
}

const cubic: Rule = (i, n, out, aligned) => {
  const u = position(i, n, out, aligned);
  return range(4).map((k) => [clamp(Math.floor(u) - 1 + k, n), keys(u - Math.floor(u) + 1 - k)] as const);
};

const tent: Rule = (i, n, out) => {
  const center = ((i + 0.5) * n) / out - 0.5;
  const radius = Math.max(1, n / out);
  const weights = range(n).map((j) => Math.max(0, 1 - Math.abs(j - center) / radius));
  return weights.map((w, j) => [j, w / sum(weights)] as const);
};

function upscaled(
  title: string,
  rule: Rule,
  params: { readonly alignCorners?: boolean },
  ne: readonly number[],
): Case {
  return {
    op: Op.UPSCALE,
    title: `${title} to ${dims(ne)}`,
    src: [f32([6, 5, 2, 3])],
    params: { ...params, ne },
    ne,
    value({ x }, [i0, i1, i2, i3]) {
      const aligned = params.alignCorners === true;
      const [across, down] = [rule(i0, 6, ne[0]!, aligned), rule(i1, 5, ne[1]!, aligned)];
      const [j2, j3] = [Math.floor((i2 * 2) / ne[2]!), Math.floor((i3 * 3) / ne[3]!)];
      return sum(down.flatMap(([j, v]) => across.map(([i, w]) => v * w * x[0]!(i, j, j2, j3))));
    },
    tolerance: 1e-5,
  };
}

const SIZES = [
  [12, 10, 4, 3],
  [11, 13, 2, 3],
  [3, 4, 2, 6],
  [1, 1, 2, 3],
];

export const upscaleCases: readonly Case[] = SIZES.flatMap((ne) => [
  upscaled("nearest", nearest, {}, ne),
  ...[false, true].flatMap((alignCorners) => [
    upscaled(`bilinear aligned ${alignCorners}`, linear, { mode: "bilinear", alignCorners } as object, ne),
    upscaled(`bicubic aligned ${alignCorners}`, cubic, { mode: "bicubic", alignCorners } as object, ne),
  ]),
  upscaled("antialiased", tent, { mode: "bilinear", antialias: true } as object, ne),
]);

function padded(type: Type, left: readonly number[], right: readonly number[], circular: boolean): Case {
  const ne = [5, 4, 3, 2];
  return {
    op: Op.PAD,
    title: `${Type[type]} ${dims(left)} ${dims(right)}${circular ? " circular" : ""}`,
    src: [{ type, ne }],
    params: { left, right, circular },
    ne: ne.map((n, i) => n + (left[i] ?? 0) + (right[i] ?? 0)),
    type,
    value({ x }, i) {
      const at = i.map((v, k) => v - (left[k] ?? 0));
      if (!circular && at.some((v, k) => v < 0 || v >= ne[k]!)) return 0;
      const [a, b, c, d] = at.map((v, k) => (v + ne[k]!) % ne[k]!);
      return x[0]!(a!, b, c, d);
    },
    tolerance: 0,
  };
}

export const padCases: readonly Case[] = [Type.F32, Type.F16, Type.BF16].flatMap((type) =>
  [false, true].flatMap((circular) => [
    padded(type, [], [2, 1, 0, 1], circular),
    padded(type, [1, 3, 0, 1], [2, 0, 1, 0], circular),
    padded(type, [5, 4, 3, 2], [5, 4, 3, 2], circular),
    padded(type, [], [], circular),
  ]),
);

export const padReflect1dCases: readonly Case[] = [
  [1, 0, 0],
  [7, 1, 6],
  [33, 32, 5],
].map(([n, p0, p1]) => ({
  op: Op.PAD_REFLECT_1D,
  title: `${n} by ${p0} and ${p1}`,
  src: [f32([n!, 2, 2])],
  params: { p0, p1 },
  ne: [n! + p0! + p1!, 2, 2],
  value: ({ x }, [i, i1, i2]) => x[0]!(n! - 1 - Math.abs(n! - 1 - Math.abs(i - p0!)), i1, i2),
  tolerance: 0,
}));

export const rollCases: readonly Case[] = [[3, -2, 0, 1], [0], [-8, 4, 3, -1]].flatMap((shift) =>
  [Type.F32, Type.F16].map((type) => ({
    op: Op.ROLL,
    title: `${Type[type]} by ${dims(shift)}`,
    src: [{ type, ne: [9, 5, 4, 2] }],
    params: { shift },
    ne: [9, 5, 4, 2],
    type,
    value({ x }, i) {
      const [a, b, c, d] = i.map((v, k) => (v - (shift[k] ?? 0) + 2 * [9, 5, 4, 2][k]!) % [9, 5, 4, 2][k]!);
      return x[0]!(a!, b, c, d);
    },
    tolerance: 0,
  })),
);

export const arangeCases: readonly Case[] = [
  [0, 10, 1],
  [3, -4, -0.5],
  [-1.5, 30, 0.25],
  [7, 7.5, 1],
].map(([start, stop, step]) => ({
  op: Op.ARANGE,
  title: `${start} to ${stop} by ${step}`,
  src: [],
  params: { start, stop, step },
  ne: [Math.ceil((stop! - start!) / step!)],
  value: (_input, [i]) => start! + step! * i,
  tolerance: 0,
}));

export const timestepEmbeddingCases: readonly Case[] = [1, 2, 15, 32].map((dim) => ({
  op: Op.TIMESTEP_EMBEDDING,
  title: `of ${dim}`,
  src: [f32([3], [0, 1, 12.5])],
  params: { dim, maxPeriod: 1000 },
  ne: [dim, 3],
  value({ x }, [i, n]) {
    const half = Math.floor(dim / 2);
    if (i >= 2 * half) return 0;
    const angle = x[0]!(n) * Math.exp((-Math.log(1000) * (i % half)) / half);
    return i < half ? Math.cos(angle) : Math.sin(angle);
  },
  tolerance: 5e-6,
}));
