// ADD SUB MUL DIV: same shapes, src1 repeated in each dimension, mixed types, permuted sources.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, type Fill, f32, SHAPES, type Source } from "./case.ts";

const FUNCTIONS: { readonly [op: number]: (a: number, b: number) => number } = {
  [Op.ADD]: (a, b) => a + b,
  [Op.SUB]: (a, b) => a - b,
  [Op.MUL]: (a, b) => a * b,
  [Op.DIV]: (a, b) => a / b,
};

function binary(
  op: Op,
  title: string,
  a: Source,
  b: Source,
  ne: readonly number[],
  type: Type = Type.F32,
): Case {
  const value: Case["value"] = ({ x }, i) => FUNCTIONS[op]!(x[0]!(...i), x[1]!(...i));
  const params = type === a.type ? {} : { type };
  return { op, title, src: [a, b], params, ne, type, value };
}

// Shapes that repeat over [33, 4, 3, 2].
const REPEATED = [[1], [11], [33], [33, 4], [33, 1, 3], [1, 4], [1, 1, 3, 2], [11, 2, 3, 2], [33, 4, 3]];

/** Cases of one of the four operators. */
export function casesOf(op: Op): readonly Case[] {
  const b: Fill = op === Op.DIV ? "positive" : "normal";
  const wide = [33, 4, 3, 2];
  const types = [Type.F32, Type.F16, Type.BF16];
  return [
    ...SHAPES.map((ne) => binary(op, `two of ${dims(ne)}`, f32(ne), f32(ne, b), ne)),
    ...REPEATED.map((ne) =>
      binary(op, `${dims(ne)} repeated over ${dims(wide)}`, f32(wide), f32(ne, b), wide),
    ),
    ...types.flatMap((ta) =>
      types.flatMap((tb) =>
        types.map((ty) => {
          const a = { type: ta, ne: [7, 3] };
          return binary(
            op,
            `${Type[ta]} and ${Type[tb]} into ${Type[ty]}`,
            a,
            { type: tb, ne: [7], fill: b },
            [7, 3],
            ty,
          );
        }),
      ),
    ),
    binary(op, "a transposed", { type: Type.F32, ne: [5, 9], axes: [1, 0, 2, 3] }, f32([9, 5], b), [9, 5]),
    binary(
      op,
      "b permuted",
      f32([9, 5, 2]),
      { type: Type.F32, ne: [2, 9, 5], fill: b, axes: [2, 0, 1, 3] },
      [9, 5, 2],
    ),
  ];
}
