// Whether a result is close enough to a golden one: the rules of golden/README.md.

import { Type, typeInfo } from "../../ts/types.ts";
import { fromBF16, fromF16 } from "../../ts/graph/elements.ts";

/** Tolerance as the files state it. */
export interface Tolerance {
  readonly kind: "exact" | "nmse" | "set_per_row" | "quant";
  readonly max?: number;
  readonly noise_nmse?: number;
}

/** Raw bytes of a tensor. */
export interface Values {
  readonly type: Type;
  readonly ne: readonly number[];
  readonly bytes: Uint8Array;
}

function numbers({ type, bytes }: Values): ArrayLike<number> {
  const b = bytes.slice().buffer;
  switch (type) {
    case Type.F32:
      return new Float32Array(b);
    case Type.F16:
      return Float64Array.from(new Uint16Array(b), fromF16);
    case Type.BF16:
      return Float64Array.from(new Uint16Array(b), fromBF16);
    case Type.I32:
      return new Int32Array(b);
    case Type.I64:
      return Float64Array.from(new BigInt64Array(b), Number);
    default:
      throw new Error(`no numbers in ${typeInfo(type)?.name}`);
  }
}

/** Sum of squared differences over the sum of squares of y; infinite when a non-finite element differs. */
export function nmse(x: ArrayLike<number>, y: ArrayLike<number>): number {
  if (x.length !== y.length) return Infinity;
  let error = 0;
  let norm = 0;
  for (let i = 0; i < y.length; i++) {
    const a = x[i]!;
    const b = y[i]!;
    if (!Number.isFinite(a) || !Number.isFinite(b)) {
      if (!Object.is(a, b)) return Infinity;
      continue;
    }
    error += (a - b) ** 2;
    norm += b * b;
  }
  return norm === 0 ? error : error / norm;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

function sameSets(x: Values, y: Values): boolean {
  const a = numbers(x);
  const b = numbers(y);
  const k = y.ne[0]!;
  for (let row = 0; row < b.length; row += k) {
    const set = new Set(Array.from(b).slice(row, row + k));
    for (let i = row; i < row + k; i++) set.delete(a[i]!);
    if (set.size > 0) return false;
  }
  return a.length === b.length;
}

/** The limit held to: far below what ggml's own tests allow, except where a 16-bit result is rounded. */
export function limitOf(tol: Tolerance, type: Type): number {
  if (type === Type.F16 || type === Type.BF16) return tol.max ?? 0;
  return Math.max(1e-10, 1000 * (tol.noise_nmse ?? 0));
}

/** Reason why `got` is not accepted; undefined when it is. `expected` are the results to be near to, any of them. */
export function mismatch(got: Values, expected: readonly Values[], tol: Tolerance): string | undefined {
  const [dst] = expected;
  if (got.type !== dst!.type) return `type ${Type[got.type]}, expected ${Type[dst!.type]}`;
  if (got.ne.some((n, i) => n !== dst!.ne[i])) return `shape [${got.ne}], expected [${dst!.ne}]`;
  if (tol.kind === "set_per_row") return sameSets(got, dst!) ? undefined : "sets of a row differ";
  if (tol.kind === "exact" || tol.kind === "quant")
    return sameBytes(got.bytes, dst!.bytes) ? undefined : "bytes differ";
  const limit = limitOf(tol, got.type);
  const errors = expected.map((y) => nmse(numbers(got), numbers(y)));
  return Math.min(...errors) <= limit ? undefined : `nmse ${Math.min(...errors)}, limit ${limit}`;
}
