// SUM SUM_ROWS MEAN CUMSUM.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, range, SHAPES, sum } from "./case.ts";

function rowsOf(ne: readonly number[]): [number, number, number, number] {
  return [1, ne[1] ?? 1, ne[2] ?? 1, ne[3] ?? 1];
}

export const sumCases: readonly Case[] = [Type.F32, Type.F16, Type.BF16].flatMap((type) =>
  SHAPES.map((ne) => ({
    op: Op.SUM,
    title: `${Type[type]} ${dims(ne)}`,
    src: [{ type, ne, fill: "positive" }],
    ne: [1],
    type,
    value({ x, ne: [a] }) {
      const [n0 = 1, n1 = 1, n2 = 1, n3 = 1] = a!;
      return sum(
        range(n0 * n1 * n2 * n3).map((i) =>
          x[0]!(i, Math.floor(i / n0), Math.floor(i / (n0 * n1)), Math.floor(i / (n0 * n1 * n2))),
        ),
      );
    },
  })),
);

export const sumRowsCases: readonly Case[] = SHAPES.map((ne) => ({
  op: Op.SUM_ROWS,
  title: dims(ne),
  src: [f32(ne)],
  ne: rowsOf(ne),
  value: ({ x, ne: [a] }, [, i1, i2, i3]) => sum(range(a![0]!).map((i0) => x[0]!(i0, i1, i2, i3))),
}));

export const meanCases: readonly Case[] = SHAPES.map((ne) => ({
  op: Op.MEAN,
  title: dims(ne),
  src: [f32(ne)],
  ne: rowsOf(ne),
  value: ({ x, ne: [a] }, [, i1, i2, i3]) => sum(range(a![0]!).map((i0) => x[0]!(i0, i1, i2, i3))) / a![0]!,
}));

export const cumsumCases: readonly Case[] = SHAPES.map((ne) => ({
  op: Op.CUMSUM,
  title: dims(ne),
  src: [f32(ne)],
  ne,
  value: ({ x }, [i0, i1, i2, i3]) => sum(range(i0 + 1).map((j) => x[0]!(j, i1, i2, i3))),
  tolerance: 1e-5,
}));
