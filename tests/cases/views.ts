// RESHAPE VIEW PERMUTE TRANSPOSE: read through a copy, because a view computes nothing.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, f32 } from "./case.ts";

export const reshapeCases: readonly Case[] = [
  {
    op: Op.RESHAPE,
    title: "[6,4] to [3,2,4]",
    src: [f32([6, 4])],
    params: { ne: [3, 2, 4] },
    ne: [3, 2, 4],
    value: ({ x }, [i0, i1, i2]) => x[0]!(i0 + 3 * i1, i2),
    tolerance: 0,
  },
];

export const viewCases: readonly Case[] = [
  {
    op: Op.VIEW,
    title: "a window",
    src: [f32([7, 6])],
    params: { ne: [3, 4], nb: [4, 28], offs: 28 + 8 },
    ne: [3, 4],
    value: ({ x }, [i0, i1]) => x[0]!(i0 + 2, i1 + 1),
    tolerance: 0,
  },
  {
    op: Op.VIEW,
    title: "every second element of F16",
    src: [{ type: Type.F16, ne: [9, 2] }],
    params: { ne: [5, 2], nb: [4, 18] },
    ne: [5, 2],
    type: Type.F16,
    value: ({ x }, [i0, i1]) => x[0]!(2 * i0, i1),
    tolerance: 0,
  },
];

export const permuteCases: readonly Case[] = [
  {
    op: Op.PERMUTE,
    title: "axes 2 0 1 3",
    src: [f32([3, 4, 5])],
    params: { axes: [2, 0, 1, 3] },
    ne: [4, 5, 3],
    value: ({ x }, [i0, i1, i2]) => x[0]!(i2, i0, i1),
    tolerance: 0,
  },
];

export const transposeCases: readonly Case[] = [
  {
    op: Op.TRANSPOSE,
    title: "[3,4,2]",
    src: [f32([3, 4, 2])],
    ne: [4, 3, 2],
    value: ({ x }, [i0, i1, i2]) => x[0]!(i1, i0, i2),
    tolerance: 0,
  },
];
