// UNARY and the other functions of one element: SQR SQRT LOG SIN COS SCALE CLAMP LEAKY_RELU FILL.

import { Op, Unary } from "../../../assembly/abi.ts";
import type { ProgramNode } from "../../graph/program.ts";
import { isContiguous, nelements, sameShape } from "../../shape.ts";
import { typeName } from "../../types.ts";
import { f32, type GpuKernel, nbParams, type Dispatch, slotF32 } from "../kernel.ts";
import { address, eachElement } from "../wgsl/elements.ts";
import { FLOAT_TYPES, loadFloat, roundSource, storeFloat } from "../wgsl/float.ts";
import { MATH, TURN } from "../wgsl/math.ts";
import { needsAtomic } from "../wgsl/quantize.ts";
import { isReadable } from "../wgsl/quants.ts";

/** Expressions of x and of the parameters P.p0 .. 3, which stand in the node's slots from `first` on. */
interface Fn {
  readonly name: string;
  readonly y: string;
  readonly first?: number;
  readonly count?: number;
  /** a NaN does not stay one */
  readonly loses?: boolean;
}

const UNARY: { readonly [K in Exclude<Unary, Unary.COUNT>]: Omit<Fn, "name"> } = {
  [Unary.ABS]: { y: "abs(x)" },
  [Unary.SGN]: { y: "sign(x)", loses: true },
  [Unary.NEG]: { y: "-x" },
  [Unary.STEP]: { y: "select(0.0, 1.0, x > 0.0)", loses: true },
  [Unary.TANH]: { y: "tanh1(x)" },
  [Unary.ELU]: { y: "select(expm1_(x), x, x > 0.0)" },
  [Unary.RELU]: { y: "select(0.0, x, x > 0.0)", loses: true },
  [Unary.SIGMOID]: { y: "sigmoid(x)" },
  [Unary.GELU]: { y: "gelu(x)" },
  [Unary.GELU_QUICK]: { y: "gelu_quick(x)" },
  [Unary.SILU]: { y: "silu(x)" },
  [Unary.HARDSWISH]: { y: "x * clamp((x + 3.0) / 6.0, 0.0, 1.0)" },
  [Unary.HARDSIGMOID]: { y: "clamp((x + 3.0) / 6.0, 0.0, 1.0)" },
  [Unary.EXP]: { y: "exp1(x)" },
  [Unary.EXPM1]: { y: "expm1_(x)" },
  [Unary.SOFTPLUS]: { y: "softplus(x)" },
  [Unary.GELU_ERF]: { y: "gelu_erf(x)" },
  [Unary.XIELU]: {
    y: "select((expm1_(min(x, P.p3)) - x) * P.p0, P.p1 * x * x, x > 0.0) + P.p2 * x",
    first: 1,
    count: 4,
  },
  [Unary.FLOOR]: { y: "floor(x)" },
  [Unary.CEIL]: { y: "ceil(x)" },
  [Unary.ROUND]: { y: "select(trunc(x), trunc(x) + sign(x), abs(x - trunc(x)) >= 0.5)" },
  [Unary.TRUNC]: { y: "trunc(x)" },
};

const OTHERS: { readonly [op: number]: Fn } = {
  [Op.SQR]: { name: "sqr", y: "x * x" },
  [Op.SQRT]: { name: "sqrt", y: "root(x)" },
  [Op.LOG]: { name: "log", y: "ln(x)" },
  [Op.SIN]: { name: "sin", y: "finite(x, turn(x).y)" },
  [Op.COS]: { name: "cos", y: "finite(x, turn(x).x)" },
  [Op.SCALE]: { name: "scale", y: "x * P.p0 + P.p1", count: 2 },
  [Op.CLAMP]: { name: "clamp", y: "between(x, P.p0, P.p1)", count: 2 },
  [Op.LEAKY_RELU]: { name: "leaky_relu", y: "select(x, x * P.p0, x < 0.0)", count: 1 },
  [Op.FILL]: { name: "fill", y: "P.p0", count: 1, loses: true },
};

// Results that are no numbers are made from bits: WGSL leaves open what its own functions give there.
const LIMITS = `
var<private> NAN: u32 = 0x7fc00000u;
var<private> LOW: u32 = 0xff800000u;        // -infinity
fn root(x: f32) -> f32 { if (x < 0.0) { return bitcast<f32>(NAN); } return sqrt(x); }
fn ln(x: f32) -> f32 {
  if (x < 0.0) { return bitcast<f32>(NAN); }
  if (x == 0.0) { return bitcast<f32>(LOW); }
  return log(x);
}
fn finite(x: f32, y: f32) -> f32 { return select(y, bitcast<f32>(NAN), (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u); }
fn between(x: f32, low: f32, high: f32) -> f32 { let y = select(x, high, high < x); return select(y, low, y < low); }
`;

function fnOf({ tensor }: ProgramNode): Fn {
  if (tensor.op !== Op.UNARY) return OTHERS[tensor.op]!;
  const fn = tensor.params[0] as Exclude<Unary, Unary.COUNT>;
  return { name: Unary[fn]!.toLowerCase(), ...UNARY[fn] };
}

/** Kernel of every operator named in the head of the file. */
export const unaryKernel: GpuKernel = {
  supports: ({ tensor, src }) =>
    [tensor, src[0]!].every((t) => FLOAT_TYPES.includes(t.type) && isReadable(t)),
  dispatches: (node) => [dispatch(node)],
};

function dispatch(node: ProgramNode): Dispatch {
  const dst = node.tensor;
  const a = node.src[0]!;
  const { name, y, first = 0, count = 0, loses = false } = fnOf(node);
  const flat = [dst, a].every((t) => isContiguous(t.type, t.ne, t.nb)) && sameShape(a.ne, dst.ne);
  return eachElement(node, {
    label: `${name} ${typeName(a.type)} ${typeName(dst.type)}`,
    bind: [
      { name: "dst", of: "dst", access: "write", atomic: needsAtomic(dst.type) },
      { name: "a", of: 0, access: "read" },
    ],
    params: [
      ...nbParams("dst", dst),
      ...nbParams("a", a),
      ...Array.from({ length: count }, (_, i) => f32(`p${i}`, slotF32(dst.params[first + i]))),
    ],
    functions: `${MATH}${y.includes("turn") ? TURN : ""}${LIMITS}${roundSource(dst.type)}`,
    body: `
  let x = ${loadFloat("a", a.type, address("a"))};
  var y = ${y};
  ${loses ? "" : "if (is_nan(x)) { y = x; }"}
  ${storeFloat("dst", dst.type, address("dst"), "y")}`,
    flat: flat && nelements(dst.ne) > 0,
  });
}
