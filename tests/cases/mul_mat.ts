// MUL_MAT: shapes around the edges of rows, blocks, panels and tiles, and the product in double precision.

/** a [k, m, p, q] times b [k, n, p r, q s]. */
export interface Product {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** p, q, r, s; all 1 when absent */
  readonly batch?: readonly [number, number, number, number];
}

/** Rows and columns around 1, 4, 8, 16 and 32; k in elements, to be rounded up to a block. */
export const PRODUCTS: readonly Product[] = [
  { m: 1, n: 1, k: 1 },
  { m: 3, n: 1, k: 31 },
  { m: 3, n: 2, k: 33 },
  { m: 17, n: 3, k: 96 },
  { m: 8, n: 4, k: 64 },
  { m: 9, n: 5, k: 160 },
  { m: 7, n: 31, k: 7 },
  { m: 31, n: 32, k: 32 },
  { m: 32, n: 33, k: 129 },
  { m: 33, n: 70, k: 257 },
  { m: 70, n: 6, k: 1030 },
  { m: 1, n: 9, k: 520 },
  { m: 5, n: 2, k: 40, batch: [2, 1, 3, 2] },
  { m: 5, n: 6, k: 40, batch: [2, 3, 2, 1] },
];

/** Values of a and b in order -> values of the result in order. */
export function multiply(p: Product, k: number, a: ArrayLike<number>, b: ArrayLike<number>): Float64Array {
  const { m, n } = p;
  const [a2, a3, r2, r3] = p.batch ?? [1, 1, 1, 1];
  const y = new Float64Array(m * n * a2 * a3 * r2 * r3);
  for (let i = 0; i < y.length; i++) {
    const column = Math.floor(i / m);
    const plane = Math.floor(column / n);
    const i2 = Math.floor((plane % (a2 * r2)) / r2);
    const i3 = Math.floor(plane / (a2 * r2) / r3);
    const row = (i % m) + m * (i2 + a2 * i3);
    for (let j = 0; j < k; j++) y[i]! += a[row * k + j]! * b[column * k + j]!;
  }
  return y;
}
