// ARGMAX ARGSORT TOP_K, with ties and NaN.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type At, type Case, dims, f32, type Fill, range, SHAPES } from "./case.ts";

const TIES: Fill = [2, NaN, 1, 2, -Infinity, 1, NaN, Infinity, 0, -0, 2];

// Indices of a row, numbers before NaN, equals by index.
function sorted(x: At, n: number, descending: boolean, rest: readonly number[]): number[] {
  const value = (i: number): number => x(i, ...rest);
  return range(n).sort((i, j) => {
    const a = value(i);
    const b = value(j);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || i - j;
    if (a === b) return i - j;
    return a < b === descending ? 1 : -1;
  });
}

const FILLS: readonly Fill[] = ["shuffled", "normal", TIES];

export const argsortCases: readonly Case[] = (["asc", "desc"] as const).flatMap((order) =>
  SHAPES.flatMap((ne) =>
    FILLS.map((fill) => ({
      op: Op.ARGSORT,
      title: `${order} ${dims(ne)} ${typeof fill === "string" ? fill : "with ties and NaN"}`,
      src: [f32(ne, fill)],
      params: { order },
      ne,
      type: Type.I32,
      value: ({ x, ne: [a] }, [i0, ...rest]) => sorted(x[0]!, a![0]!, order === "desc", rest)[i0]!,
    })),
  ),
);

export const topKCases: readonly Case[] = [1, 3, 17, 33].flatMap((k) =>
  FILLS.map((fill) => ({
    op: Op.TOP_K,
    title: `${k} of 33 ${typeof fill === "string" ? fill : "with ties and NaN"}`,
    src: [f32([33, 2, 3], fill)],
    params: { k },
    ne: [k, 2, 3],
    type: Type.I32,
    value: ({ x, ne: [a] }, [i0, ...rest]) => sorted(x[0]!, a![0]!, true, rest)[i0]!,
  })),
);

export const argmaxCases: readonly Case[] = [
  [1, 3],
  [3, 1],
  [31, 5],
  [33, 2],
  [300, 7],
].flatMap((ne) =>
  FILLS.map((fill) => ({
    op: Op.ARGMAX,
    title: `${dims(ne)} ${typeof fill === "string" ? fill : "with ties and NaN"}`,
    src: [f32(ne, fill)],
    ne: [ne[1]!],
    type: Type.I32,
    value: ({ x, ne: [a] }, [row]) => sorted(x[0]!, a![0]!, true, [row])[0]!,
  })),
);
