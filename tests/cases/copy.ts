// DUP CONT CPY REPEAT CONCAT: every pair of types, permuted sources, other shapes.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, type Fill, i32, SHAPES, type Source } from "./case.ts";

type Axes = readonly [number, number, number, number];

const AXES: readonly Axes[] = [
  [0, 1, 2, 3],
  [1, 0, 2, 3],
  [0, 2, 1, 3],
  [2, 0, 1, 3],
  [1, 2, 0, 3],
  [3, 2, 1, 0],
];
const STORED = [5, 4, 3, 2];
const WHOLE: Fill = [0, 1, -1, 7, -8, 100, 2049, -65000];
const INTEGERS = [Type.I32, Type.I16, Type.I8, Type.I64];

function permuted(axes: Axes): number[] {
  const ne = [0, 0, 0, 0];
  axes.forEach((to, i) => (ne[to] = STORED[i]!));
  return ne;
}

const same: Case["value"] = ({ x }, i) => x[0]!(...i);

function contOf(op: Op, type: Type, axes: Axes): Case {
  const ne = permuted(axes);
  const src: Source = {
    type,
    ne: STORED,
    axes,
    ...(INTEGERS.includes(type) ? { fill: [3, -4, 5, 100, 0] } : {}),
  };
  return {
    op,
    title: `${Type[type]} axes ${axes.join("")}`,
    src: [src],
    params: {},
    ne,
    type,
    value: same,
    tolerance: 0,
  };
}

const MOVED = [Type.F32, Type.F16, Type.BF16, ...INTEGERS];

export const dupCases: readonly Case[] = MOVED.flatMap((type) =>
  AXES.map((axes) => contOf(Op.DUP, type, axes)),
);

export const contCases: readonly Case[] = [
  ...MOVED.flatMap((type) => AXES.map((axes) => contOf(Op.CONT, type, axes))),
  {
    op: Op.CONT,
    title: "into another shape",
    src: [{ type: Type.F32, ne: STORED, axes: [1, 0, 2, 3] }],
    params: { ne: [20, 6] },
    ne: [20, 6],
    value: ({ x }, [i0, i1]) => x[0]!(i0 % 4, Math.floor(i0 / 4), i1 % 3, Math.floor(i1 / 3)),
    tolerance: 0,
  },
];

// Conversions; a cast makes a new tensor, with a target the result is a view of it.
function cast(from: Type, to: Type, ne: readonly number[], axes: Axes, fill: Fill = "normal"): Case {
  const title = `${Type[from]} to ${Type[to]} ${dims(ne)} axes ${axes.join("")}`;
  const out = ne.map((_, i) => ne[axes.indexOf(i)] ?? 1);
  return {
    op: Op.CPY,
    title,
    src: [{ type: from, ne, axes, fill }],
    params: { type: to },
    ne: out,
    type: to,
    value: same,
    tolerance: 0,
  };
}

const FLOATS = [Type.F32, Type.F16, Type.BF16];

export const cpyCases: readonly Case[] = [
  ...FLOATS.flatMap((from) =>
    FLOATS.flatMap((to) => [
      ...SHAPES.map((ne) => cast(from, to, ne, AXES[0]!)),
      ...AXES.map((axes) => cast(from, to, STORED, axes)),
    ]),
  ),
  ...AXES.flatMap((axes) => [
    cast(Type.F32, Type.I32, STORED, axes, WHOLE),
    { ...cast(Type.I32, Type.F32, STORED, axes, WHOLE) },
  ]),
  ...[Type.Q4_0, Type.Q8_0].flatMap((type) => [
    cast(type, Type.F32, [64, 3, 2], AXES[0]!),
    cast(type, Type.F32, [64, 3, 2], AXES[2]!),
  ]),
  {
    op: Op.CPY,
    title: "permuted, into a target of another shape and type",
    src: [
      { type: Type.F32, ne: [6, 5, 4], axes: [0, 2, 1, 3] },
      { type: Type.F16, ne: [24, 5] },
    ],
    params: {},
    ne: [24, 5],
    type: Type.F16,
    value: ({ x }, [i0, i1]) => x[0]!(i0 % 6, Math.floor(i0 / 6), i1),
    tolerance: 0,
  },
];

function repeat(type: Type, ne: readonly number[], to: readonly number[]): Case {
  const fill: Fill = FLOATS.includes(type) ? "normal" : [1, 2, 3, -4, 5];
  return {
    op: Op.REPEAT,
    title: `${Type[type]} ${dims(ne)} over ${dims(to)}`,
    src: [{ type, ne, fill }],
    params: { ne: to },
    ne: to,
    type,
    value: same,
    tolerance: 0,
  };
}

export const repeatCases: readonly Case[] = [
  ...[Type.F32, Type.F16, Type.BF16, Type.I32, Type.I16].map((type) => repeat(type, [3, 2, 2], [6, 4, 2, 3])),
  repeat(Type.F32, [1], [33, 2]),
  repeat(Type.F32, [33, 1, 2], [33, 3, 2, 2]),
  repeat(Type.F32, [5, 2], [5, 2]),
];

function concat(dim: number, a: Source, b: Source, ne: readonly number[]): Case {
  return {
    op: Op.CONCAT,
    title: `${Type[a.type]} ${dims(a.ne)} and ${dims(b.ne)} along ${dim}${a.axes === undefined ? "" : ", a permuted"}`,
    src: [a, b],
    params: { dim },
    ne,
    type: a.type,
    value({ x, ne: [first] }, i) {
      const n = first![dim]!;
      const at = [...i] as [number, number, number, number];
      if (i[dim]! < n) return x[0]!(...at);
      at[dim] = i[dim]! - n;
      return x[1]!(...at);
    },
    tolerance: 0,
  };
}

export const concatCases: readonly Case[] = [
  ...[Type.F32, Type.F16, Type.BF16].flatMap((type) => [
    concat(0, { type, ne: [5, 4, 3, 2] }, { type, ne: [7, 4, 3, 2] }, [12, 4, 3, 2]),
    concat(1, { type, ne: [5, 4, 3, 2] }, { type, ne: [5, 1, 3, 2] }, [5, 5, 3, 2]),
    concat(2, { type, ne: [5, 4, 3, 2] }, { type, ne: [5, 4, 2, 2] }, [5, 4, 5, 2]),
    concat(3, { type, ne: [5, 4, 3, 2] }, { type, ne: [5, 4, 3, 1] }, [5, 4, 3, 3]),
  ]),
  concat(0, i32([2, 3], [1, 2, 3]), i32([1, 3], [4, 5]), [3, 3]),
  concat(0, { type: Type.Q8_0, ne: [32, 3] }, { type: Type.Q8_0, ne: [64, 3] }, [96, 3]),
  concat(1, { type: Type.F32, ne: [4, 5, 2], axes: [1, 0, 2, 3] }, f32([5, 3, 2]), [5, 7, 2]),
];
