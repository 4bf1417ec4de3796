// IM2COL, the convolutions and pools: strides, paddings, dilations, both kernel types, channels first in memory.

import { Op } from "../../assembly/abi.ts";
import { fromF16, toF16 } from "../../ts/graph/elements.ts";
import { Type } from "../../ts/types.ts";
import { type At, type Case, dims, f32, range, type Source, sum } from "./case.ts";

type Steps = readonly [s0: number, s1: number, p0: number, p1: number, d0: number, d1: number];

const STEPS: readonly Steps[] = [
  [1, 1, 0, 0, 1, 1],
  [1, 1, 1, 1, 1, 1],
  [2, 1, 2, 0, 1, 2],
  [3, 2, 1, 3, 2, 1],
];
// Images and kernels: a single pixel, rows around the width of a vector, kernels wider than what is left of the image.
const IMAGES = [
  { x: [1, 1, 1, 1], k: [1, 1, 1, 1] },
  { x: [9, 7, 2, 2], k: [3, 3, 2, 3] },
  { x: [33, 6, 3, 1], k: [5, 2, 3, 4] },
  { x: [31, 5, 1, 1], k: [20, 3, 1, 2] },
] as const;

const f16 = (x: number): number => fromF16(toF16(x));

function named([s0, s1, p0, p1, d0, d1]: Steps): object {
  return { s0, s1, p0, p1, d0, d1 };
}

function windows(n: number, k: number, s: number, p: number, d: number): number {
  return Math.floor((n + 2 * p - d * (k - 1) - 1) / s) + 1;
}

// Pixel of an image, 0 outside.
function pixel(x: At, [w, h]: readonly number[], i: number, j: number, c: number, n: number): number {
  return i >= 0 && i < w! && j >= 0 && j < h! ? x(i, j, c, n) : 0;
}

interface Shapes {
  readonly x: readonly number[];
  readonly k: readonly number[];
}

function eachImage(make: (shapes: Shapes, steps: Steps, size: readonly [number, number]) => Case[]): Case[] {
  return IMAGES.flatMap((shapes) =>
    STEPS.flatMap((steps) => {
      const [s0, s1, p0, p1, d0, d1] = steps;
      const ow = windows(shapes.x[0], shapes.k[0], s0, p0, d0);
      const oh = windows(shapes.x[1], shapes.k[1], s1, p1, d1);
      return ow < 1 || oh < 1 ? [] : make(shapes, steps, [ow, oh]);
    }),
  );
}

// Kernel and image. The image of a kernel of F16 is cast first.
function pair(type: Type, kernel: readonly number[], x: readonly number[]): Source[] {
  const kept = type === Type.F16;
  return [
    { type, ne: kernel, kept },
    { type: Type.F32, ne: x, kept },
  ];
}

function titleOf(shapes: Shapes, steps: Steps, type: Type): string {
  return `${Type[type]} ${dims(shapes.k)} over ${dims(shapes.x)} steps ${steps.join("")}`;
}

function im2col2d(to: Type): readonly Case[] {
  return eachImage(({ x, k }, steps, [ow, oh]) => {
    const [s0, s1, p0, p1, d0, d1] = steps;
    const value: Case["value"] = (input, [e, o, u, n]) => {
      const [kx, ky, c] = [e % k[0]!, Math.floor(e / k[0]!) % k[1]!, Math.floor(e / (k[0]! * k[1]!))];
      return pixel(input.x[1]!, input.ne[1]!, o * s0 + kx * d0 - p0, u * s1 + ky * d1 - p1, c, n);
    };
    return [Type.F32, Type.F16].map((from) => ({
      op: Op.IM2COL,
      title: `${titleOf({ x, k }, steps, from)} to ${Type[to]}`,
      src: [f32(k), { type: from, ne: x }],
      params: { ...named(steps), type: to },
      ne: [k[0]! * k[1]! * k[2]!, ow, oh, x[3]!],
      type: to,
      value,
      tolerance: 0,
    }));
  });
}

const signals: readonly Case[] = [1, 2, 3].map((s0) => ({
  op: Op.IM2COL,
  title: `one dimension, stride ${s0}`,
  src: [f32([5, 3, 2]), f32([17, 3, 2])],
  params: { is2D: false, s0, p0: 2, d0: 2 },
  ne: [15, windows(17, 5, s0, 2, 2), 2],
  value: (input, [e, o, n]) => pixel(input.x[1]!, [17, 3], o * s0 + (e % 5) * 2 - 2, Math.floor(e / 5), n, 0),
  tolerance: 0,
}));

export const im2colCases: readonly Case[] = [...im2col2d(Type.F32), ...im2col2d(Type.F16), ...signals];

export const conv2dCases: readonly Case[] = [Type.F32, Type.F16].flatMap((type) =>
  eachImage(({ x, k }, steps, [ow, oh]) => {
    const [s0, s1, p0, p1, d0, d1] = steps;
    const round = type === Type.F16 ? f16 : (v: number) => v;
    const value: Case["value"] = (input, [o, u, oc, n]) => {
      const products = range(k[0]! * k[1]! * k[2]!).map((e) => {
        const [kx, ky, c] = [e % k[0]!, Math.floor(e / k[0]!) % k[1]!, Math.floor(e / (k[0]! * k[1]!))];
        const p = pixel(input.x[1]!, input.ne[1]!, o * s0 + kx * d0 - p0, u * s1 + ky * d1 - p1, c, n);
        return input.x[0]!(kx, ky, c, oc) * round(p);
      });
      return sum(products);
    };
    return [
      {
        op: Op.CONV_2D,
        title: titleOf({ x, k }, steps, type),
        src: pair(type, k, x),
        params: named(steps),
        ne: [ow, oh, k[3]!, x[3]!],
        value,
        tolerance: 5e-6,
      },
    ];
  }),
);

// The second layout has the channels of a pixel together.
export const conv2dDwCases: readonly Case[] = [Type.F32, Type.F16].flatMap((type) =>
  eachImage(({ x, k: [kw, kh] }, steps, [ow, oh]) => {
    const [s0, s1, p0, p1, d0, d1] = steps;
    const c = x[2]!;
    const value: Case["value"] = (input, [o, u, ch, n]) =>
      sum(
        range(kw! * kh!).map((e) => {
          const [kx, ky] = [e % kw!, Math.floor(e / kw!)];
          const p = pixel(input.x[1]!, input.ne[1]!, o * s0 + kx * d0 - p0, u * s1 + ky * d1 - p1, ch, n);
          return input.x[0]!(kx, ky, 0, ch) * p;
        }),
      );
    const base = { op: Op.CONV_2D_DW, params: named(steps), ne: [ow, oh, c, x[3]!], value, tolerance: 5e-6 };
    const title = titleOf({ x, k: [kw!, kh!, 1, c] }, steps, type);
    return [
      { ...base, title, src: [{ type, ne: [kw!, kh!, 1, c] }, f32(x)] },
      {
        ...base,
        title: `${title} channels first`,
        src: [
          { type, ne: [c, kw!, kh!, 1], axes: [3, 0, 1, 2] },
          { ...f32([c, x[0]!, x[1]!, x[3]!]), axes: [2, 0, 1, 3] },
        ],
      },
    ];
  }),
);

// y[o] = sum of k[o - i s] x[i]; with a kernel of F16 x is rounded.
function transposed1d(type: Type, k: number, s0: number, l: number): Case {
  const round = type === Type.F16 ? f16 : (v: number) => v;
  return {
    op: Op.CONV_TRANSPOSE_1D,
    title: `${Type[type]} ${k} over ${l} stride ${s0}`,
    src: pair(type, [k, 3, 4], [l, 4]),
    params: { s0 },
    ne: [(l - 1) * s0 + k, 3],
    value: ({ x }, [o, oc]) =>
      sum(
        range(l * 4).map((e) => {
          const [i, c] = [e % l, Math.floor(e / l)];
          const at = o - i * s0;
          return at >= 0 && at < k ? x[0]!(at, oc, c) * round(x[1]!(i, c)) : 0;
        }),
      ),
    tolerance: 5e-6,
  };
}

export const convTranspose1dCases: readonly Case[] = [Type.F32, Type.F16].flatMap((type) =>
  [
    [1, 1, 1],
    [3, 2, 9],
    [4, 3, 7],
    [2, 5, 3],
    [33, 8, 5],
  ].map(([k, s0, l]) => transposed1d(type, k!, s0!, l!)),
);

function transposed2d(type: Type, k: readonly [number, number], stride: number): Case {
  const round = type === Type.F16 ? f16 : (v: number) => v;
  const [w, h] = [6, 5];
  return {
    op: Op.CONV_TRANSPOSE_2D,
    title: `${Type[type]} ${dims(k)} stride ${stride}`,
    src: pair(type, [...k, 3, 4], [w, h, 4, 2]),
    params: { stride },
    ne: [(w - 1) * stride + k[0], (h - 1) * stride + k[1], 3, 2],
    value: ({ x }, [o, u, oc, n]) =>
      sum(
        range(w * h * 4).map((e) => {
          const [i, j, c] = [e % w, Math.floor(e / w) % h, Math.floor(e / (w * h))];
          const [kx, ky] = [o - i * stride, u - j * stride];
          const inside = kx >= 0 && kx < k[0] && ky >= 0 && ky < k[1];
          return inside ? x[0]!(kx, ky, oc, c) * round(x[1]!(i, j, c, n)) : 0;
        }),
      ),
    tolerance: 5e-6,
  };
}

export const convTranspose2dCases: readonly Case[] = [Type.F32, Type.F16].flatMap((type) =>
  ([1, 2, 3] as const).flatMap(
    (stride) =>
    ([[1, 1], [2, 2], [3, 4]] as const).map((k) => transposed2d(type, k, stride)), // prettier-ignore
  ),
);
