// UNARY: one of 22 functions, element by element.

import { Unary } from "../../assembly/abi.ts";
import { mapDef } from "./map.ts";
import { f32bits, needFinite, needInteger, type OpDef } from "./op.ts";

export { Unary };

/** Parameters of UNARY. The four numbers belong to XIELU, as its weights store them after softplus. */
export interface UnaryParams {
  readonly fn: Unary;
  readonly alphaN?: number;
  readonly alphaP?: number;
  readonly beta?: number;
  readonly eps?: number;
}

export const unaryDef: OpDef<UnaryParams> = mapDef(
  "unary",
  "a [...] -> fn(a), element by element: abs, sgn, neg, step, tanh, elu, relu, sigmoid, gelu (tanh form, computed exactly), " +
    "gelu_quick, silu, hardswish, hardsigmoid, exp, expm1, softplus, gelu_erf, xielu, floor, ceil, round (half away from 0), trunc.",
  ({ fn, alphaN, alphaP, beta, eps }) => {
    needInteger("unary", "fn", fn, 0, Unary.COUNT - 1);
    if (fn !== Unary.XIELU) return [fn];
    const numbers = { alphaN: alphaN ?? NaN, alphaP: alphaP ?? NaN, beta: beta ?? NaN, eps: eps ?? NaN };
    for (const [name, value] of Object.entries(numbers)) needFinite("unary", name, value);
    return [fn, ...Object.values(numbers).map(f32bits)];
  },
);
