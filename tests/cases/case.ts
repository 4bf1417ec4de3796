// What a test case of an operator is: sources, parameters and a double-precision reference for one element.

import type { Op } from "../../assembly/abi.ts";
import { Type } from "../../ts/types.ts";

/** How the elements of a source are made. All are seeded by the case, so every run sees the same. */
export type Fill =
  | "normal" // about -3 to 3
  | "wide" // about -30 to 30
  | "positive" // 0.1 to 4
  | "shuffled" // a permutation of 0, 1, 2 ... in each row
  | readonly number[]; // these, over and over

/** A source tensor. */
export interface Source {
  readonly type: Type;
  readonly ne: readonly number[];
  /** "normal" when absent */
  readonly fill?: Fill;
  /** permuted before use: dimension i of what is stored (`ne`) becomes dimension axes[i] */
  readonly axes?: readonly [number, number, number, number];
  /** its memory is never offered to the result: a cast of a source runs first */
  readonly kept?: boolean;
}

/** Element of a source as the operator sees it; indices are taken modulo the shape, which is what repeating means. */
export type At = (i0: number, i1?: number, i2?: number, i3?: number) => number;

/** What a reference may look at. */
export interface Inputs {
  readonly x: readonly At[];
  /** shape of each source as the operator sees it */
  readonly ne: readonly (readonly number[])[];
}

export interface Case {
  readonly op: Op;
  readonly title: string;
  readonly src: readonly (Source | undefined)[];
  /** named parameters of the operator */
  readonly params?: object;
  /** shape of the result */
  readonly ne: readonly number[];
  /** type of the result, F32 when absent */
  readonly type?: Type;
  /** the element at (i0, i1, i2, i3), in double precision */
  value(input: Inputs, i: readonly [number, number, number, number]): number;
  /** allowed error, of max(1, |value|); of the result's type when absent, 0 = exactly the rounded value */
  readonly tolerance?: number;
}

/** Row lengths around the width of a vector and of a block, in shapes of one to four dimensions. */
export const SHAPES: readonly (readonly number[])[] = [
  [1],
  [3, 2],
  [31, 1, 2],
  [32, 2, 1, 2],
  [33, 3, 2, 2],
  [130],
];

/** A source of type F32. */
export function f32(ne: readonly number[], fill: Fill = "normal"): Source {
  return { type: Type.F32, ne, fill };
}

/** A source of integers. */
export function i32(ne: readonly number[], values: readonly number[]): Source {
  return { type: Type.I32, ne, fill: values };
}

/** 0, 1 ... n - 1 */
export function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

export function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

/** "[3,2]" */
export function dims(ne: readonly number[]): string {
  return `[${ne.join(",")}]`;
}
