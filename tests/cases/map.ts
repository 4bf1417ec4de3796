// The other elementwise operators of one source.

import { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, type Fill, SHAPES } from "./case.ts";

interface Family {
  readonly fn: (x: number) => number;
  readonly params?: object;
  readonly fill?: Fill;
}

const FAMILY = {
  [Op.SQR]: { fn: (x) => x * x },
  [Op.SQRT]: { fn: Math.sqrt, fill: "positive" },
  [Op.LOG]: { fn: Math.log, fill: "positive" },
  [Op.SIN]: { fn: Math.sin, fill: "wide" },
  [Op.COS]: { fn: Math.cos, fill: "wide" },
  [Op.SCALE]: { fn: (x) => -2.5 * x + 1.25, params: { s: -2.5, b: 1.25 } },
  [Op.CLAMP]: { fn: (x) => Math.min(0.75, Math.max(-0.5, x)), params: { min: -0.5, max: 0.75 } },
  [Op.LEAKY_RELU]: { fn: (x) => (x > 0 ? x : 0.25 * x), params: { slope: 0.25 } },
  [Op.FILL]: { fn: () => 3.5, params: { c: 3.5 } },
} as const satisfies { readonly [op: number]: Family };

/** Cases of one of these operators. */
export function mapCases(op: keyof typeof FAMILY): readonly Case[] {
  const family: Family = FAMILY[op];
  const fill: Fill = family.fill ?? "normal";
  const value: Case["value"] = ({ x }, i) => family.fn(x[0]!(...i));
  const params = family.params === undefined ? {} : { params: family.params };
  const floats = [Type.F32, Type.F16, Type.BF16];
  return [
    ...floats.flatMap((type) =>
      SHAPES.map((ne) => ({
        op,
        title: `${Type[type]} ${dims(ne)}`,
        src: [{ type, ne, fill }],
        ...params,
        ne,
        type,
        value,
      })),
    ),
    {
      op,
      title: "transposed",
      src: [{ type: Type.F32, ne: [5, 6], fill, axes: [1, 0, 2, 3] }],
      ...params,
      ne: [6, 5],
      value,
    },
  ];
}
