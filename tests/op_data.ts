// Data of operator cases: seeded values, their bytes in a type, and the elements a reference sees.

import { fromBF16, fromF16, toBF16, toF16 } from "../ts/graph/elements.ts";
import { nelements, rowBytes, shape4 } from "../ts/shape.ts";
import { isQuantized, Type, typeInfo } from "../ts/types.ts";
import type { At, Fill, Source } from "./cases/case.ts";

/** A stream of numbers in [0, 1), the same for the same seed. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Bytes of a stored source, and its values as the type holds them. */
export interface Stored {
  readonly bytes: Uint8Array;
  readonly values: ArrayLike<number>;
}

/** Makes the data of a source. */
export function makeData({ type, ne, fill = "normal" }: Source, next: () => number): Stored {
  const n = nelements(shape4(ne));
  if (isQuantized(type)) return makeBlocks(type, n, next);
  return encode(type, makeValues(n, ne[0]!, fill, next));
}

function makeValues(n: number, n0: number, fill: Fill, next: () => number): number[] {
  if (typeof fill !== "string") return Array.from({ length: n }, (_, i) => fill[i % fill.length]!);
  if (fill === "shuffled") return Array.from({ length: n / n0 }, () => shuffled(n0, next)).flat();
  if (fill === "positive") return Array.from({ length: n }, () => 0.1 + 3.9 * next());
  const width = fill === "wide" ? 10 : 1;
  return Array.from({ length: n }, () => width * (next() + next() + next() + next() - 2) * 1.5);
}

function shuffled(n: number, next: () => number): number[] {
  const row = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [row[i], row[j]] = [row[j]!, row[i]!];
  }
  return row;
}

function encode(type: Type, values: readonly number[]): Stored {
  switch (type) {
    case Type.F32:
      return stored(Float32Array.from(values));
    case Type.F16: {
      const codes = Uint16Array.from(values, toF16);
      return { ...stored(codes), values: Array.from(codes, fromF16) };
    }
    case Type.BF16: {
      const codes = Uint16Array.from(values, toBF16);
      return { ...stored(codes), values: Array.from(codes, fromBF16) };
    }
    case Type.I64:
      return { ...stored(BigInt64Array.from(values, BigInt)), values };
    case Type.I32:
      return stored(Int32Array.from(values));
    case Type.I16:
      return stored(Int16Array.from(values));
    case Type.I8:
      return stored(Int8Array.from(values));
    default:
      throw new Error(`no test data for ${Type[type]}`);
  }
}

type Numbers = Float32Array | Uint16Array | Int32Array | Int16Array | Int8Array;

function stored(a: Numbers): Stored;
function stored(a: BigInt64Array): { readonly bytes: Uint8Array };
function stored(a: Numbers | BigInt64Array): { readonly bytes: Uint8Array } {
  const bytes = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  return a instanceof BigInt64Array ? { bytes } : ({ bytes, values: a } as Stored);
}

// Random codes with a small scale: value = d (q - 8) or d q.
function makeBlocks(type: Type, n: number, next: () => number): Stored {
  const { blockSize, typeSize } = typeInfo(type)!;
  const bytes = new Uint8Array(rowBytes(type, n));
  const view = new DataView(bytes.buffer);
  const values: number[] = [];
  for (let b = 0; b < n / blockSize; b++) {
    const at = b * typeSize;
    view.setUint16(at, toF16((next() - 0.5) / 8), true);
    const d = fromF16(view.getUint16(at, true));
    for (let i = 2; i < typeSize; i++) bytes[at + i] = Math.floor(next() * 255);
    for (let i = 0; i < blockSize; i++) {
      const q =
        type === Type.Q8_0
          ? view.getInt8(at + 2 + i)
          : ((bytes[at + 2 + (i % 16)]! >> (i < 16 ? 0 : 4)) & 15) - 8;
      values.push(Math.fround(d * q));
    }
  }
  return { bytes, values };
}

/** Reads elements of a stored source by the indices of the (permuted) source; indices wrap. */
export function accessor(
  source: Source,
  values: ArrayLike<number>,
): { readonly at: At; readonly ne: readonly number[] } {
  const ne = shape4(source.ne);
  const axes = source.axes ?? [0, 1, 2, 3];
  const seen = axes.map((_, i) => ne[axes.indexOf(i)]!);
  const steps = [1, ne[0], ne[0] * ne[1], ne[0] * ne[1] * ne[2]];
  const at: At = (...i) => {
    let index = 0;
    axes.forEach((to, k) => (index += ((i[to] ?? 0) % ne[k]!) * steps[k]!));
    return values[index]!;
  };
  return { at, ne: seen };
}

/** The nearest value that a type can hold. */
export function roundTo(type: Type, x: number): number {
  switch (type) {
    case Type.F32:
      return Math.fround(x);
    case Type.F16:
      return fromF16(toF16(x));
    case Type.BF16:
      return fromBF16(toBF16(x));
    default:
      return Math.trunc(x);
  }
}
