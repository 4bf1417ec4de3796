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
