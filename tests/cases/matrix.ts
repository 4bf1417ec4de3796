// TRI DIAG DIAG_MASK_ZERO ACC SET ADD1 GROUP_NORM SSM_CONV.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, range, sum } from "./case.ts";

const KEEP: readonly ((i: number, j: number) => boolean)[] = [
  (i, j) => i >= j,
  (i, j) => i > j,
  (i, j) => i <= j,
  (i, j) => i < j,
];

export const triCases: readonly Case[] = KEEP.flatMap((inside, keep) =>
  [1, 3, 33].map((n) => ({
    op: Op.TRI,
    title: `kind ${keep} of ${n}`,
    src: [f32([n, n, 2])],
    params: { keep },
    ne: [n, n, 2],
    value: ({ x }, [i, j, c]) => (inside(i, j) ? x[0]!(i, j, c) : 0),
    tolerance: 0,
  })),
);

export const diagCases: readonly Case[] = [1, 7, 33].map((n) => ({
  op: Op.DIAG,
  title: `of ${n}`,
  src: [f32([n, 1, 2, 3])],
  ne: [n, n, 2, 3],
  value: ({ x }, [i, j, c, d]) => (i === j ? x[0]!(i, 0, c, d) : 0),
  tolerance: 0,
}));

export const diagMaskZeroCases: readonly Case[] = [0, 3, 40].map((nPast) => ({
  op: Op.DIAG_MASK_ZERO,
  title: `after ${nPast}`,
  src: [f32([33, 5, 2])],
  params: { nPast },
  ne: [33, 5, 2],
  value: ({ x }, [i, j, c]) => (i > nPast + j ? 0 : x[0]!(i, j, c)),
  tolerance: 0,
}));

interface Window {
  readonly title: string;
  readonly ne: readonly number[];
  readonly nb: readonly [number, number, number];
  readonly offset: number;
}

// In a of [16, 8, 3]: inside, crossing the ends of rows, with rows that overlap, single.
const WINDOWS: readonly Window[] = [
  { title: "inside", ne: [10, 4, 2], nb: [64, 512, 0], offset: 140 },
  { title: "across rows", ne: [13, 5, 2], nb: [80, 512, 0], offset: 32 },
  { title: "overlapping itself", ne: [9, 6], nb: [12, 0, 0], offset: 60 },
  { title: "one element", ne: [1], nb: [64, 512, 512], offset: 1532 },
];

function patched(op: Op.ACC | Op.SET, type: Type, { title, ne, nb, offset }: Window): Case {
  const [n0, n1, n2] = [ne[0]!, ne[1] ?? 1, ne[2] ?? 1];
  return {
    op,
    title: `${Type[type]} ${title}`,
    src: [
      { type, ne: [16, 8, 3], fill: type === Type.I32 ? range(384) : "normal" },
      { type, ne, fill: type === Type.I32 ? range(77).map((i) => -i) : "normal" },
    ],
    params: { nb, offset },
    ne: [16, 8, 3],
    type,
    value({ x }, [i, j, c]) {
      let y = x[0]!(i, j, c);
      const at = 4 * (i + 16 * (j + 8 * c));
      for (const e of range(n0 * n1 * n2)) {
        const [b0, b1, b2] = [e % n0, Math.floor(e / n0) % n1, Math.floor(e / (n0 * n1))];
        if (offset + 4 * b0 + nb[0] * b1 + nb[1] * b2 !== at) continue;
        y = op === Op.ACC ? y + x[1]!(b0, b1, b2) : x[1]!(b0, b1, b2);
      }
      return y;
    },
    ...(op === Op.SET ? { tolerance: 0 } : {}),
  };
}

export const accCases: readonly Case[] = WINDOWS.map((w) => patched(Op.ACC, Type.F32, w));

export const setCases: readonly Case[] = [Type.F32, Type.I32].flatMap((type) =>
  WINDOWS.map((w) => patched(Op.SET, type, w)),
);

export const add1Cases: readonly Case[] = [Type.F32, Type.F16, Type.BF16].flatMap((type) =>
  [[1], [33, 3], [5, 4, 3, 2]].map((ne) => ({
    op: Op.ADD1,
    title: `${Type[type]} ${dims(ne)}`,
    src: [{ type, ne }, f32([1])],
    params: {},
    ne,
    type,
    value: ({ x }, i) => x[0]!(...i) + x[1]!(0),
  })),
);

function grouped(ne: readonly number[], nGroups: number, eps: number): Case {
  const [w, h, c] = [ne[0]!, ne[1]!, ne[2]!];
  const channels = Math.ceil(c / nGroups);
  return {
    op: Op.GROUP_NORM,
    title: `${dims(ne)} in ${nGroups}, eps ${eps}`,
    src: [f32(ne)],
    params: { nGroups, eps },
    ne,
    value({ x }, [i0, i1, i2, i3]) {
      const first = Math.floor(i2 / channels) * channels;
      const count = Math.min(c, first + channels) - first;
      const all = range(w * h * count).map((e) =>
        x[0]!(e % w, Math.floor(e / w) % h, first + Math.floor(e / (w * h)), i3),
      );
      const mean = sum(all) / all.length;
      const variance = sum(all.map((v) => (v - mean) ** 2)) / all.length;
      return (x[0]!(i0, i1, i2, i3) - mean) / Math.sqrt(variance + eps);
    },
    tolerance: 5e-6,
  };
}

export const groupNormCases: readonly Case[] = [
  grouped([1, 1, 1, 1], 1, 0.1),
  grouped([5, 3, 6, 2], 3, 1e-6),
  grouped([4, 4, 7, 1], 2, 1e-6),
  grouped([33, 2, 5, 2], 4, 0.1),
  grouped([3, 3, 8, 1], 8, 1e-3),
];

export const ssmConvCases: readonly Case[] = [
  [1, 1, 1, 1],
  [4, 3, 12, 2],
  [3, 7, 33, 1],
].map(([k, t, c, s]) => ({
  op: Op.SSM_CONV,
  title: `${k} over ${t} tokens of ${c}, ${s} sequence(s)`,
  src: [f32([k! - 1 + t!, c!, s!]), f32([k!, c!])],
  ne: [c!, t!, s!],
  value: ({ x }, [i, n, q]) => sum(range(k!).map((j) => x[0]!(n + j, i, q) * x[1]!(j, i))),
}));
