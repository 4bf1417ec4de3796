// What the convolutions and pools share: strides, paddings, dilations and the length that results.

import type { Shape } from "../shape.ts";
import { GraphError } from "../errors.ts";
import { Type } from "../types.ts";
import { needInteger, needShape, needType, type Operand } from "./op.ts";

/** Steps of a window over an image, 0 = along the width, 1 = along the height. */
export interface ConvParams {
  /** elements from one window to the next, 1 when absent */
  readonly s0?: number;
  readonly s1?: number;
  /** zeros in front and behind, 0 when absent */
  readonly p0?: number;
  readonly p1?: number;
  /** elements between neighbours of the kernel, 1 when absent */
  readonly d0?: number;
  readonly d1?: number;
}

/** Largest stride, padding, dilation or window: sums of products of two stay below 2^53, positions below 2^31. */
export const MAX_STEP: number = 2 ** 20;

/** The six slots s0 s1 p0 p1 d0 d1, checked. */
export function convSlots(op: string, params: ConvParams): readonly number[] {
  const { s0 = 1, s1 = 1, p0 = 0, p1 = 0, d0 = 1, d1 = 1 } = params;
  for (const [name, value] of Object.entries({ s0, s1, d0, d1 })) needInteger(op, name, value, 1, MAX_STEP);
  for (const [name, value] of Object.entries({ p0, p1 })) needInteger(op, name, value, 0, MAX_STEP);
  return [s0, s1, p0, p1, d0, d1];
}

/** Windows of `k` elements, `d` apart, that fit into `n` elements with `p` zeros on either side, `s` apart. */
export function windows(op: string, n: number, k: number, s: number, p: number, d: number): number {
  const out = Math.floor((n + 2 * p - d * (k - 1) - 1) / s) + 1;
  if (k >= 1 && out >= 1) return out;
  throw new GraphError("bad-shape", `${op}: a window of ${k} does not fit into ${n} elements`, {
    op,
    expected: d * (k - 1) + 1,
    actual: n + 2 * p,
  });
}

/** Refuses kernels that are neither F32 nor F16, and images that are not F32 (F16 only with a kernel of F16). */
export function needConvTypes(op: string, kernel: Operand, x: Operand): void {
  needType(op, "kernel", kernel.type, [Type.F32, Type.F16]);
  needType(op, "x", x.type, kernel.type === Type.F16 ? [Type.F32, Type.F16] : [Type.F32]);
}

/** Refuses shapes whose last dimensions, from `from` on, are not 1. */
export function needFlat(op: string, what: string, ne: Shape, from: number): void {
  const flat = ne.slice(from).every((n) => n === 1);
  needShape(op, flat, ne, ne.slice(0, from), `${what} has more than ${from} dimension(s)`);
}
