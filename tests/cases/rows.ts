// GET_ROWS SET_ROWS: types, batches, ids that repeat.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, f32, i32, range } from "./case.ts";

function getRows(type: Type, n: number): Case {
  return {
    op: Op.GET_ROWS,
    title: `from ${Type[type]} rows of ${n}`,
    src: [{ type, ne: [n, 7] }, i32([5], [3, 0, 6, 3, 1])],
    ne: [n, 5],
    type: type === Type.I32 ? Type.I32 : Type.F32,
    value: ({ x }, [i0, i1]) => x[0]!(i0, x[1]!(i1)),
    tolerance: 0,
  };
}

export const getRowsCases: readonly Case[] = [
  ...[Type.F32, Type.F16, Type.BF16, Type.I32].flatMap((type) =>
    [1, 3, 31, 32, 33].map((n) => getRows(type, n)),
  ),
  ...[Type.Q4_0, Type.Q8_0].flatMap((type) => [32, 96].map((n) => getRows(type, n))),
  {
    op: Op.GET_ROWS,
    title: "in batches",
    src: [f32([5, 4, 3, 2]), i32([3, 3, 2], [2, 0, 3, 1, 1, 0, 2, 3, 3, 0, 1, 2, 3, 2, 1, 0, 0, 3])],
    ne: [5, 3, 3, 2],
    value: ({ x }, [i0, i1, i2, i3]) => x[0]!(i0, x[1]!(i1, i2, i3), i2, i3),
    tolerance: 0,
  },
];

// Element of the target after the later of equal ids has won.
function written(ids: readonly number[]): Case["value"] {
  return ({ x }, [i0, i1, i2, i3]) => {
    const row = ids.lastIndexOf(i1);
    return row < 0 ? x[2]!(i0, i1, i2, i3) : x[0]!(i0, row, i2, i3);
  };
}

function setRows(from: Type, to: Type, n: number, idType: Type = Type.I32): Case {
  const ids = [4, 0, 6, 4];
  return {
    op: Op.SET_ROWS,
    title: `${Type[from]} into ${Type[to]} rows of ${n} by ${Type[idType]}`,
    src: [
      { type: from, ne: [n, 4] },
      { type: idType, ne: [4], fill: ids },
      { type: to, ne: [n, 7] },
    ],
    ne: [n, 7],
    type: to,
    value: written(ids),
    tolerance: 0,
  };
}

export const setRowsCases: readonly Case[] = [
  ...[Type.F32, Type.F16, Type.BF16].flatMap((to) =>
    [1, 3, 31, 33, 300].map((n) => setRows(Type.F32, to, n)),
  ),
  ...[Type.F32, Type.F16, Type.BF16].map((to) => setRows(Type.F16, to, 33)),
  setRows(Type.F32, Type.F16, 32, Type.I64),
  {
    op: Op.SET_ROWS,
    title: "ids that repeat over dimension 2 and 3",
    src: [f32([5, 2, 4, 2]), i32([2, 2, 1], [3, 0, 1, 2]), f32([5, 6, 4, 2])],
    ne: [5, 6, 4, 2],
    value({ x }, [i0, i1, i2, i3]) {
      const row = range(2).findLast((r) => x[1]!(r, i2) === i1);
      return row === undefined ? x[2]!(i0, i1, i2, i3) : x[0]!(i0, row, i2, i3);
    },
    tolerance: 0,
  },
];
