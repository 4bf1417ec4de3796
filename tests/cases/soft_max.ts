// SOFT_MAX: scale, masks that repeat, ALiBi for any number of heads, sinks, rows masked altogether. DIAG_MASK_INF.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, range, SHAPES, type Source, sum } from "./case.ts";

interface Options {
  readonly scale?: number;
  readonly maxBias?: number;
  readonly mask?: Source;
  readonly sinks?: Source;
}

function slope(maxBias: number, h: number, heads: number): number {
  if (maxBias === 0) return 1;
  const n = 2 ** Math.floor(Math.log2(heads));
  return h < n ? 2 ** ((-maxBias / n) * (h + 1)) : 2 ** ((-maxBias / (2 * n)) * (2 * (h - n) + 1));
}

function softMax(
  title: string,
  ne: readonly number[],
  { scale = 1, maxBias = 0, mask, sinks }: Options,
): Case {
  const heads = ne[2] ?? 1;
  return {
    op: Op.SOFT_MAX,
    title,
    src: [f32(ne, "wide"), mask, sinks],
    params: { scale, maxBias },
    ne,
    value({ x }, [i0, i1, i2, i3]) {
      const bias = (j: number): number =>
        mask === undefined ? 0 : slope(maxBias, i2, heads) * x[1]!(j, i1, i2, i3);
      const z = range(ne[0]!).map((j) => scale * x[0]!(j, i1, i2, i3) + bias(j));
      const sink = sinks === undefined ? -Infinity : x[2]!(i2);
      const nothing = sink === -Infinity && z.every((v) => !(v > -Infinity));
      if (nothing) return Number.isNaN(z[i0]!) ? NaN : 0;
      const top = Math.max(sink, ...z);
      return Math.exp(z[i0]! - top) / (sum(z.map((v) => Math.exp(v - top))) + Math.exp(sink - top));
    },
  };
}

const HIDE = [0, -Infinity, 0.5, 0, -Infinity, -Infinity, -1];

export const softMaxCases: readonly Case[] = [
  ...SHAPES.map((ne) => softMax(dims(ne), ne, { scale: 0.3 })),
  softMax("F32 mask", [33, 3, 4, 2], { scale: 0.3, mask: f32([33, 3], HIDE) }),
  softMax("F16 mask with more rows, per head and batch", [17, 3, 4, 2], {
    mask: { type: Type.F16, ne: [17, 5, 2, 2], fill: HIDE },
  }),
  softMax("everything masked", [5, 2, 2], { mask: f32([5, 2], [-Infinity]) }),
  softMax("everything masked but a sink", [5, 2, 2], { mask: f32([5, 2], [-Infinity]), sinks: f32([2]) }),
  softMax("NaN in a masked row", [5, 2], { mask: f32([5, 2], [-Infinity, NaN, -Infinity]) }),
  softMax("sinks", [18, 4, 3], { scale: 0.3, sinks: f32([3], "wide") }),
  ...[1, 2, 6, 7].map((heads) =>
    softMax(`ALiBi with ${heads} heads`, [16, 3, heads], {
      scale: 0.3,
      maxBias: 8,
      mask: { type: Type.F16, ne: [16, 3] },
    }),
  ),
];

export const diagMaskInfCases: readonly Case[] = [0, 2, 40].flatMap((nPast) =>
  [...SHAPES, [3, 5, 2]].map((ne) => ({
    op: Op.DIAG_MASK_INF,
    title: `${dims(ne)} after ${nPast}`,
    src: [f32(ne)],
    params: { nPast },
    ne,
    value: ({ x }, [i0, i1, i2, i3]) => (i0 > nPast + i1 ? -Infinity : x[0]!(i0, i1, i2, i3)),
    tolerance: 0,
  })),
);
