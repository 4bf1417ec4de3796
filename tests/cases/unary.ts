// UNARY: all 22 functions, on F32, F16, BF16 and on a transposed source.

import { Op, Unary } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";
import { type Case, dims, f32, type Fill, SHAPES, type Source } from "./case.ts";

const XIELU = { alphaN: 1.67, alphaP: 1.07, beta: 0.5, eps: -1e-6 };

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

/** Error function by a series of positive terms, to double precision. */
export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let total = x;
  for (let n = 1; n < 300; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    total += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
}

export function geluTanh(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x)));
}

function xielu(x: number): number {
  if (x > 0) return XIELU.alphaP * x * x + XIELU.beta * x;
  return (Math.expm1(Math.min(x, XIELU.eps)) - x) * XIELU.alphaN + XIELU.beta * x;
}

/** Double-precision functions. */
export const UNARY: { readonly [K in Exclude<Unary, Unary.COUNT>]: (x: number) => number } = {
  [Unary.ABS]: Math.abs,
  [Unary.SGN]: Math.sign,
  [Unary.NEG]: (x) => -x,
  [Unary.STEP]: (x) => (x > 0 ? 1 : 0),
  [Unary.TANH]: Math.tanh,
  [Unary.ELU]: (x) => (x > 0 ? x : Math.expm1(x)),
  [Unary.RELU]: (x) => Math.max(0, x),
  [Unary.SIGMOID]: sigmoid,
  [Unary.GELU]: geluTanh,
  [Unary.GELU_QUICK]: (x) => x * sigmoid(1.702 * x),
  [Unary.SILU]: (x) => x * sigmoid(x),
  [Unary.HARDSWISH]: (x) => x * Math.min(1, Math.max(0, (x + 3) / 6)),
  [Unary.HARDSIGMOID]: (x) => Math.min(1, Math.max(0, (x + 3) / 6)),
  [Unary.EXP]: Math.exp,
  [Unary.EXPM1]: Math.expm1,
  [Unary.SOFTPLUS]: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  [Unary.GELU_ERF]: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  [Unary.XIELU]: xielu,
  [Unary.FLOOR]: Math.floor,
  [Unary.CEIL]: Math.ceil,
  [Unary.ROUND]: (x) => Math.sign(x) * Math.floor(Math.abs(x) + 0.5),
  [Unary.TRUNC]: Math.trunc,
};

function unary(fn: Unary, title: string, a: Source, ne: readonly number[]): Case {
  const f = UNARY[fn as keyof typeof UNARY];
  const params = fn === Unary.XIELU ? { fn, ...XIELU } : { fn };
  return {
    op: Op.UNARY,
    title: `${Unary[fn]} ${title}`,
    src: [a],
    params,
    ne,
    type: a.type,
    value: ({ x }, i) => f(x[0]!(...i)),
  };
}

function casesOf(fn: Unary): Case[] {
  const wide: Fill = fn === Unary.EXP || fn === Unary.EXPM1 ? "normal" : "wide";
  return [
    ...SHAPES.map((ne) => unary(fn, dims(ne), f32(ne, wide), ne)),
    unary(fn, "halves and zeros", f32([9], [0, -0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-8]), [9]),
    unary(fn, "F16", { type: Type.F16, ne: [37, 3] }, [37, 3]),
    unary(fn, "BF16", { type: Type.BF16, ne: [37, 3] }, [37, 3]),
    unary(fn, "transposed", { type: Type.F32, ne: [5, 6, 2], axes: [1, 0, 2, 3] }, [6, 5, 2]),
  ];
}

export const unaryCases: readonly Case[] = Object.keys(UNARY).flatMap((fn) => casesOf(Number(fn)));
