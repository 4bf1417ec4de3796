// NORM RMS_NORM L2_NORM.

import { Op } from "../../assembly/abi.ts";
import { type Case, dims, f32, range, SHAPES, sum } from "./case.ts";

type Rule = (row: readonly number[], eps: number) => { readonly shift: number; readonly size: number };

const RULES = {
  [Op.NORM](row, eps) {
    const shift = sum(row) / row.length;
    return { shift, size: Math.sqrt(sum(row.map((v) => (v - shift) ** 2)) / row.length + eps) };
  },
  [Op.RMS_NORM]: (row, eps) => ({ shift: 0, size: Math.sqrt(sum(row.map((v) => v * v)) / row.length + eps) }),
  [Op.L2_NORM]: (row, eps) => ({ shift: 0, size: Math.max(Math.sqrt(sum(row.map((v) => v * v))), eps) }),
} as const satisfies { readonly [op: number]: Rule };

/** Cases of one of the norms. */
export function normCases(op: keyof typeof RULES): readonly Case[] {
  return [1e-6, 0.1, 100].flatMap((eps) =>
    SHAPES.map((ne) => ({
      op,
      title: `${dims(ne)} eps ${eps}`,
      src: [f32(ne)],
      params: { eps },
      ne,
      value({ x, ne: [a] }, [i0, i1, i2, i3]) {
        const row = range(a![0]!).map((j) => x[0]!(j, i1, i2, i3));
        const { shift, size } = RULES[op](row, eps);
        return (row[i0]! - shift) / size;
      },
    })),
  );
}
