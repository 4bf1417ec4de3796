// POOL_1D POOL_2D: windows that hang over the edge, strides, F16.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, range, sum } from "./case.ts";

const POOLS = ["max", "avg"] as const;
const TYPES = [Type.F32, Type.F16];
// k, s, p
const WINDOWS = [
  [1, 1, 0],
  [2, 2, 0],
  [3, 1, 1],
  [3, 2, 2],
  [5, 3, 4],
] as const;

function count(n: number, k: number, s: number, p: number): number {
  return Math.floor((n + 2 * p - k) / s) + 1;
}

function indices(o: number, k: number, s: number, p: number, n: number): number[] {
  return range(k)
    .map((i) => o * s + i - p)
    .filter((i) => i >= 0 && i < n);
}

export const pool1dCases: readonly Case[] = POOLS.flatMap((pool) =>
  TYPES.flatMap((type) =>
    WINDOWS.flatMap(([k, s, p]) =>
      [5, 33].map((n) => ({
        op: Op.POOL_1D,
        title: `${pool} ${Type[type]} of ${n}, k ${k} s ${s} p ${p}`,
        src: [{ type, ne: [n, 3, 2] }],
        params: { pool, k, s, p },
        ne: [count(n, k, s, p), 3, 2],
        value({ x }, [o, i1, i2]) {
          const inside = indices(o, k, s, p, n).map((i) => x[0]!(i, i1, i2));
          return pool === "max" ? Math.max(...inside) : sum(inside) / inside.length;
        },
      })),
    ),
  ),
);

export const pool2dCases: readonly Case[] = POOLS.flatMap((pool) =>
  TYPES.flatMap((type) =>
    WINDOWS.map(([k, s, p]) => ({
      op: Op.POOL_2D,
      title: `${pool} ${Type[type]} k ${k} s ${s} p ${p}`,
      src: [{ type, ne: [11, 9, 2, 2] }],
      params: { pool, k0: k, k1: 3, s0: s, s1: 2, p0: p, p1: 1 },
      ne: [count(11, k, s, p), count(9, 3, 2, 1), 2, 2],
      value({ x }, [o, u, c, n]) {
        const inside = indices(u, 3, 2, 1, 9).flatMap((j) =>
          indices(o, k, s, p, 11).map((i) => x[0]!(i, j, c, n)),
        );
        return pool === "max" ? Math.max(...inside) : sum(inside) / (k * 3);
      },
    })),
  ),
);
