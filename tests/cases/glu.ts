// GLU: the six functions, from one source (both halves) and from two.

import { Glu, Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, type Inputs, SHAPES } from "./case.ts";
import { erf, geluTanh } from "./unary.ts";

const ALPHA = 1.702;
const LIMIT = 2;

function swish(x: number, beta = 1): number {
  return x / (1 + Math.exp(-beta * x));
}

const GLU: { readonly [K in Exclude<Glu, Glu.COUNT>]: (x: number, g: number) => number } = {
  [Glu.REGLU]: (x, g) => Math.max(0, x) * g,
  [Glu.GEGLU]: (x, g) => geluTanh(x) * g,
  [Glu.SWIGLU]: (x, g) => swish(x) * g,
  [Glu.SWIGLU_OAI]: (x, g) => swish(Math.min(x, LIMIT), ALPHA) * (Math.min(LIMIT, Math.max(-LIMIT, g)) + 1),
  [Glu.GEGLU_ERF]: (x, g) => 0.5 * x * (1 + erf(x / Math.SQRT2)) * g,
  [Glu.GEGLU_QUICK]: (x, g) => swish(x, 1.702) * g,
};

function casesOf(fn: Glu): Case[] {
  const f = GLU[fn as keyof typeof GLU];
  const params = { fn, alpha: ALPHA, limit: LIMIT };
  const halves = (ne: readonly number[], type: Type, swapped: boolean): Case => {
    const n = ne[0]!;
    const value = ({ x }: Inputs, [i0, ...rest]: readonly [number, number, number, number]): number => {
      const pair: [number, number] = [x[0]!(i0, ...rest), x[0]!(i0 + n, ...rest)];
      return swapped ? f(pair[1], pair[0]) : f(...pair);
    };
    const src = [{ type, ne: [2 * n, ...ne.slice(1)] }];
    const title = `${Glu[fn]} ${Type[type]} halves of ${dims(ne)}${swapped ? ", swapped" : ""}`;
    return { op: Op.GLU, title, src, params: { ...params, swapped }, ne, type, value };
  };
  const two = (ne: readonly number[], type: Type): Case => {
    const value: Case["value"] = ({ x }, i) => f(x[0]!(...i), x[1]!(...i));
    return {
      op: Op.GLU,
      title: `${Glu[fn]} ${Type[type]} two of ${dims(ne)}`,
      src: [
        { type, ne },
        { type, ne },
      ],
      params,
      ne,
      type,
      value,
    };
  };
  return [
    ...SHAPES.flatMap((ne) => [halves(ne, Type.F32, false), halves(ne, Type.F32, true), two(ne, Type.F32)]),
    ...[Type.F16, Type.BF16].flatMap((type) => [halves([13, 3], type, true), two([13, 3], type)]),
  ];
}

export const gluCases: readonly Case[] = Object.keys(GLU).flatMap((fn) => casesOf(Number(fn)));
