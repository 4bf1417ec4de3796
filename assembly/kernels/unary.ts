// Elementwise operators of one source: UNARY with its 22 functions, SQR SQRT LOG SIN COS SCALE CLAMP LEAKY_RELU FILL.
//
// One driver splits the elements; one loop template per function does them four at a time. F16 and BF16 are computed in
// f32 and rounded once. An element is read before its result is written, so dst may be src0.

import { Type, Unary } from "../abi";
import { loadLanes, storeLanes } from "../math/lanes";
import {
  Abs,
  Ceil,
  Clamp,
  Cos,
  Elu,
  Exp,
  Expm1,
  Fill,
  Floor,
  Gelu,
  GeluErf,
  GeluQuick,
  HardSigmoid,
  HardSwish,
  LeakyRelu,
  Log,
  Neg,
  Relu,
  Round,
  Scale,
  Sgn,
  Sigmoid,
  Silu,
  Sin,
  Softplus,
  Sqr,
  Sqrt,
  Step,
  Tanh,
  Trunc,
  Xielu,
} from "../math/unary";
import { isPacked, liveRows, Node, paramI, paramPtr, rowPtr, share, shareFlat } from "../node";

// Functions of operators other than UNARY, numbered after Unary.
const SQR: i32 = Unary.COUNT;
const SQRT: i32 = Unary.COUNT + 1;
const LOG: i32 = Unary.COUNT + 2;
const SIN: i32 = Unary.COUNT + 3;
const COS: i32 = Unary.COUNT + 4;
const SCALE: i32 = Unary.COUNT + 5;
const CLAMP: i32 = Unary.COUNT + 6;
const LEAKY_RELU: i32 = Unary.COUNT + 7;
const FILL: i32 = Unary.COUNT + 8;

if (Unary.COUNT != 22) ERROR("unary.ts: new function without a case in applyRow()");

/** Parameters: function, then those of the function (XIELU has four). */
export function unary(n: Node, ith: i32, nth: i32): void {
  apply(n, paramI(n, 0), paramPtr(n, 1), ith, nth);
}

/** x^2 */
export function sqr(n: Node, ith: i32, nth: i32): void {
  apply(n, SQR, 0, ith, nth);
}

/** Square root; NaN below 0. */
export function sqrt(n: Node, ith: i32, nth: i32): void {
  apply(n, SQRT, 0, ith, nth);
}

/** Natural logarithm. */
export function log(n: Node, ith: i32, nth: i32): void {
  apply(n, LOG, 0, ith, nth);
}

/** Sine of an angle in radians. */
export function sin(n: Node, ith: i32, nth: i32): void {
  apply(n, SIN, 0, ith, nth);
}

/** Cosine of an angle in radians. */
export function cos(n: Node, ith: i32, nth: i32): void {
  apply(n, COS, 0, ith, nth);
}

/** Parameters s, b: s x + b */
export function scale(n: Node, ith: i32, nth: i32): void {
  apply(n, SCALE, paramPtr(n, 0), ith, nth);
}

/** Parameters min, max. */
export function clamp(n: Node, ith: i32, nth: i32): void {
  apply(n, CLAMP, paramPtr(n, 0), ith, nth);
}

/** Parameter: slope below 0. */
export function leakyRelu(n: Node, ith: i32, nth: i32): void {
  apply(n, LEAKY_RELU, paramPtr(n, 0), ith, nth);
}

/** Parameter c: c everywhere, in the shape of src0. */
export function fill(n: Node, ith: i32, nth: i32): void {
  apply(n, FILL, paramPtr(n, 0), ith, nth);
}

// This thread's share of `fn` over src0: a stretch of elements when both are without gaps, else rows.
function apply(n: Node, fn: i32, pp: usize, ith: i32, nth: i32): void {
  const a = n.src0!;
  const rows = liveRows(n);
  if (isPacked(a) && isPacked(n)) {
    const total = <usize>rows * n.ne0;
    const first = shareFlat(total, ith, nth);
    const count = shareFlat(total, ith + 1, nth) - first;
    return applyRow(
      fn,
      a.type,
      a.data + first * a.nb0,
      a.nb0,
      n.type,
      n.data + first * n.nb0,
      n.nb0,
      count,
      pp,
    );
  }
  for (let r = share(rows, ith, nth), end = share(rows, ith + 1, nth); r < end; r++) {
    applyRow(fn, a.type, rowPtr(a, r), a.nb0, n.type, rowPtr(n, r), n.nb0, n.ne0, pp);
  }
}

// prettier-ignore
function applyRow(fn: i32, tx: i32, px: usize, sx: usize, ty: i32, py: usize, sy: usize, n: usize, pp: usize): void {
  switch (fn) {
    case Unary.ABS: return row<Abs>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.SGN: return row<Sgn>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.NEG: return row<Neg>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.STEP: return row<Step>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.TANH: return row<Tanh>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.ELU: return row<Elu>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.RELU: return row<Relu>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.SIGMOID: return row<Sigmoid>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.GELU: return row<Gelu>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.GELU_QUICK: return row<GeluQuick>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.SILU: return row<Silu>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.HARDSWISH: return row<HardSwish>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.HARDSIGMOID: return row<HardSigmoid>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.EXP: return row<Exp>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.EXPM1: return row<Expm1>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.SOFTPLUS: return row<Softplus>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.GELU_ERF: return row<GeluErf>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.XIELU: return row<Xielu>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.FLOOR: return row<Floor>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.CEIL: return row<Ceil>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.ROUND: return row<Round>(tx, px, sx, ty, py, sy, n, pp);
    case Unary.TRUNC: return row<Trunc>(tx, px, sx, ty, py, sy, n, pp);
    case SQR: return row<Sqr>(tx, px, sx, ty, py, sy, n, pp);
    case SQRT: return row<Sqrt>(tx, px, sx, ty, py, sy, n, pp);
    case LOG: return row<Log>(tx, px, sx, ty, py, sy, n, pp);
    case SIN: return row<Sin>(tx, px, sx, ty, py, sy, n, pp);
    case COS: return row<Cos>(tx, px, sx, ty, py, sy, n, pp);
    case SCALE: return row<Scale>(tx, px, sx, ty, py, sy, n, pp);
    case CLAMP: return row<Clamp>(tx, px, sx, ty, py, sy, n, pp);
    case LEAKY_RELU: return row<LeakyRelu>(tx, px, sx, ty, py, sy, n, pp);
    case FILL: return row<Fill>(tx, px, sx, ty, py, sy, n, pp);
    default: unreachable();
  }
}

// n elements of type tx at px, sx bytes apart, to type ty at py, sy bytes apart.
function row<F>(tx: i32, px: usize, sx: usize, ty: i32, py: usize, sy: usize, n: usize, pp: usize): void {
  const f = changetype<F>(<usize>0);
  if (tx == Type.F32 && ty == Type.F32 && sx == 4 && sy == 4) {
    for (; n >= 4; n -= 4) {
      v128.store(py, f.apply(v128.load(px), pp));
      px += 16;
      py += 16;
    }
  }
  while (n > 0) {
    const k = <i32>min<usize>(n, 4);
    storeLanes(ty, py, sy, k, f.apply(loadLanes(tx, px, sx, k), pp));
    px += <usize>k * sx;
    py += <usize>k * sy;
    n -= k;
  }
}
