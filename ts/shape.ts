// Shapes and strides: pure arithmetic, exact to 2^53.

import { type Type, typeInfo } from "./types.ts";

/** Elements per dimension, innermost first (GGUF's order, the reverse of NumPy's shape). Always four entries. */
export type Shape = readonly [number, number, number, number];
/** Bytes between neighbours per dimension, innermost first. For block types nb[0] is the bytes of a block. */
export type Strides = readonly [number, number, number, number];

/** Pads a list of up to four dimensions with ones. */
export function shape4(ne: readonly number[]): Shape {
  return [ne[0] ?? 1, ne[1] ?? 1, ne[2] ?? 1, ne[3] ?? 1];
}

/** Number of elements. */
export function nelements(ne: Shape): number {
  return ne[0] * ne[1] * ne[2] * ne[3];
}

/** Number of rows: all dimensions but the first. */
export function nrows(ne: Shape): number {
  return ne[1] * ne[2] * ne[3];
}

/** Bytes of a contiguous row of `n` elements. */
export function rowBytes(type: Type, n: number): number {
  const { blockSize, typeSize } = typeInfo(type)!;
  return (n / blockSize) * typeSize;
}

/** Strides of a contiguous tensor. */
export function contiguous(type: Type, ne: Shape): Strides {
  const nb0 = typeInfo(type)!.typeSize;
  const nb1 = rowBytes(type, ne[0]);
  const nb2 = nb1 * ne[1];
  return [nb0, nb1, nb2, nb2 * ne[2]];
}

/** Bytes from the first to past the last element, as ggml counts them. */
export function nbytes(type: Type, ne: Shape, nb: Strides): number {
  if (nelements(ne) === 0) return 0;
  const { blockSize, typeSize } = typeInfo(type)!;
  const rest = (ne[1] - 1) * nb[1] + (ne[2] - 1) * nb[2] + (ne[3] - 1) * nb[3];
  return blockSize === 1 ? typeSize + (ne[0] - 1) * nb[0] + rest : (ne[0] * nb[0]) / blockSize + rest;
}

/** True when the elements stand without gaps in order (a dimension of one element may have any stride). */
export function isContiguous(type: Type, ne: Shape, nb: Strides): boolean {
  const c = contiguous(type, ne);
  return ne.every((n, i) => n === 1 || nb[i] === c[i]);
}

/** True when each row is without gaps, whatever lies between rows. */
export function isContiguousRows(type: Type, ne: Shape, nb: Strides): boolean {
  return ne[0] === 1 || nb[0] === typeInfo(type)!.typeSize;
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.every((n, i) => n === b[i]);
}

/** True when `b` repeated some whole number of times in each dimension gives `a`. */
export function canRepeat(b: Shape, a: Shape): boolean {
  return a.every((n, i) => (b[i]! === 0 ? n === 0 : n % b[i]! === 0));
}

/** `value` rounded up to a multiple of `align`. */
export function alignUp(value: number, align: number): number {
  return Math.ceil(value / align) * align;
}

/** "[64,8,1,1]", for messages. */
export function str(ne: readonly number[]): string {
  return `[${ne.join(",")}]`;
}

/** Elements at these strides, the first at `offs`, bytes. */
export interface Region {
  readonly type: Type;
  readonly ne: Shape;
  readonly nb: Strides;
  readonly offs: number;
}

/** True when two different indices name the same bytes: a tensor that cannot be written to. */
export function foldsOnto({ type, ne, nb }: Omit<Region, "offs">): boolean {
  if (nelements(ne) === 0) return false;
  const { blockSize, typeSize } = typeInfo(type)!;
  const counts = [ne[0] / blockSize, ne[1], ne[2], ne[3]];
  const dims = counts.map((n, i) => ({ n, step: nb[i]! })).filter(({ n }) => n > 1);
  let extent = typeSize;
  for (const { n, step } of dims.sort((a, b) => a.step - b.step)) {
    if (step < extent) return true;
    extent += (n - 1) * step;
  }
  return false;
}

/**
 * True when two regions of one memory have bytes in common. Exact for equal strides that nest; with other strides
 * regions count as meeting when one begins before the other ends.
 */
export function meet(a: Region, b: Region): boolean {
  const apart = b.offs - a.offs;
  if (nelements(a.ne) === 0 || nelements(b.ne) === 0) return false;
  if (apart >= nbytes(a.type, a.ne, a.nb) || -apart >= nbytes(b.type, b.ne, b.nb)) return false;
  const { blockSize, typeSize } = typeInfo(a.type)!;
  const dims = [3, 2, 1, 0].map((i) => {
    const per = i === 0 ? blockSize : 1;
    return { step: a.nb[i]!, up: a.ne[i]! / per - 1, down: b.ne[i]! / per - 1, same: a.nb[i] === b.nb[i] };
  });
  const real = dims.filter(({ up, down }) => up > 0 || down > 0);
  if (!real.every(({ same }) => same)) return true;
  real.sort((p, q) => q.step - p.step);
  // apart = sum of k step for some k in [-down, up] of each dimension, up to less than an element
  const reach = (rest: number, i: number): boolean => {
    if (i === real.length) return Math.abs(rest) < typeSize;
    const { step, up, down } = real[i]!;
    const k = Math.floor(rest / step);
    return [k, k + 1].some((n) => n >= -down && n <= up && reach(rest - n * step, i + 1));
  };
  return reach(apart, 0);
}
