// MUL_MAT_ID ADD_ID: one column for all ids and one for each, ids that repeat, matrices that nobody uses.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, f32, i32, range, sum } from "./case.ts";

/** Ids of `n` columns for `t` tokens, below `x`, the last of which is never used. */
function idsOf(n: number, t: number, x: number): number[] {
  return range(n * t).map((i) => (i * i + 2 * i) % (x - 1));
}

interface Shape {
  readonly k: number;
  readonly m: number;
  /** matrices, ids for a token, tokens */
  readonly x: number;
  readonly n: number;
  readonly t: number;
  /** columns of b */
  readonly columns: number;
}

function mulMatId({ k, m, x, n, t, columns }: Shape, type: Type = Type.F32): Case {
  return {
    op: Op.MUL_MAT_ID,
    title: `${Type[type]} [${k},${m},${x}], ${columns} of ${n} columns, ${t} tokens`,
    src: [{ type, ne: [k, m, x] }, f32([k, columns, t]), i32([n, t], idsOf(n, t, x))],
    ne: [m, n, t],
    value: ({ x: [a, b, ids] }, [i0, i1, i2]) =>
      sum(range(k).map((j) => a!(j, i0, ids!(i1, i2)) * b!(j, i1, i2))),
    tolerance: type === Type.F32 ? 1e-5 : 5e-3,
  };
}

export const mulMatIdCases: readonly Case[] = [
  mulMatId({ k: 1, m: 1, x: 2, n: 1, t: 1, columns: 1 }),
  mulMatId({ k: 31, m: 3, x: 4, n: 2, t: 1, columns: 1 }),
  mulMatId({ k: 33, m: 17, x: 5, n: 3, t: 7, columns: 3 }),
  mulMatId({ k: 32, m: 33, x: 3, n: 2, t: 31, columns: 1 }),
  mulMatId({ k: 9, m: 40, x: 8, n: 3, t: 33, columns: 3 }),
  mulMatId({ k: 33, m: 5, x: 3, n: 2, t: 3, columns: 2 }, Type.F16),
  mulMatId({ k: 40, m: 6, x: 3, n: 2, t: 3, columns: 2 }, Type.BF16),
];

function addId(n: number, k: number, t: number, type: Type = Type.F32): Case {
  return {
    op: Op.ADD_ID,
    title: `rows of ${n} of ${Type[type]}, ${k} ids, ${t} tokens`,
    src: [f32([n, k, t]), { type, ne: [n, 6] }, i32([k, t], idsOf(k, t, 6))],
    ne: [n, k, t],
    value: ({ x: [a, b, ids] }, [i0, i1, i2]) => a!(i0, i1, i2) + b!(i0, ids!(i1, i2)),
  };
}

export const addIdCases: readonly Case[] = [
  addId(1, 1, 1),
  addId(3, 2, 5),
  addId(31, 3, 1),
  addId(32, 2, 33),
  addId(33, 4, 3, Type.F16),
  addId(130, 1, 2, Type.BF16),
];
