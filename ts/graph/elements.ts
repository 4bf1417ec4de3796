// Elements between JavaScript numbers and the bytes of a type.

import { GraphError } from "../errors.ts";
import { rowBytes } from "../shape.ts";
import { Type, typeName } from "../types.ts";

/** What {@link Tensor.write} takes. */
export type Elements = Float32Array | Int32Array | BigInt64Array | Uint8Array | readonly number[];

const f32 = new Float32Array(1);
const u32 = new Uint32Array(f32.buffer);

/** Half-precision bits of a number, rounded to nearest even. */
export function toF16(x: number): number {
  f32[0] = x;
  const b = u32[0]!;
  const sign = (b >>> 16) & 0x8000;
  const a = b & 0x7fffffff;
  if (a > 0x7f800000) return sign | 0x7e00;
  if (a >= 0x477ff000) return sign | 0x7c00;
  if (a >= 0x38800000) return sign | ((a - 0x38000000 + 0xfff + ((a >>> 13) & 1)) >>> 13);
  f32[0] = Math.abs(f32[0]!) + 0.5; // subnormal: the addition rounds to multiples of 2^-24
  return sign | (u32[0]! - 0x3f000000);
}

/** Value of half-precision bits. */
export function fromF16(h: number): number {
  const exponent = (h >> 10) & 31;
  const fraction = h & 1023;
  const sign = h & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** bfloat16 bits of a number, rounded to nearest even. */
export function toBF16(x: number): number {
  f32[0] = x;
  const b = u32[0]!;
  if ((b & 0x7fffffff) > 0x7f800000) return (b >>> 16) | 64;
  return ((b + 0x7fff + ((b >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Value of bfloat16 bits. */
export function fromBF16(h: number): number {
  u32[0] = h << 16;
  return f32[0]!;
}

/**
 * Bytes of `n` elements.
 *
 * @throws {GraphError} bad-data when length or kind of `data` does not fit the type
 */
export function encodeElements(label: string, type: Type, n: number, data: Elements): Uint8Array {
  if (data instanceof Uint8Array) {
    needLength(label, data.length, rowBytes(type, n), "bytes");
    return data;
  }
  needLength(label, data.length, n, "elements");
  if (data instanceof Float32Array && type === Type.F32) return bytesOf(data);
  if (data instanceof Int32Array && type === Type.I32) return bytesOf(data);
  if (data instanceof BigInt64Array) {
    if (type === Type.I64) return bytesOf(data);
    throw kindError(label, type, "64-bit integers");
  }
  return encodeNumbers(label, type, data);
}

function encodeNumbers(
  label: string,
  type: Type,
  data: Float32Array | Int32Array | readonly number[],
): Uint8Array {
  switch (type) {
    case Type.F32:
      return bytesOf(Float32Array.from(data));
    case Type.F16:
      return bytesOf(Uint16Array.from(data, toF16));
    case Type.BF16:
      return bytesOf(Uint16Array.from(data, toBF16));
    case Type.I32:
      needIntegers(label, data, 2 ** 31);
      return bytesOf(Int32Array.from(data));
    case Type.I64:
      needIntegers(label, data, 2 ** 53);
      return bytesOf(BigInt64Array.from(data as readonly number[], BigInt));
    default:
      throw kindError(label, type, "numbers");
  }
}

/** Elements of packed bytes, in the richest array the type has. */
export function decodeElements(
  type: Type,
  bytes: Uint8Array,
): Float32Array | Int32Array | BigInt64Array | Uint8Array {
  const { buffer, byteOffset, length } = bytes;
  switch (type) {
    case Type.F32:
      return new Float32Array(buffer, byteOffset, length / 4);
    case Type.F16:
      return Float32Array.from(new Uint16Array(buffer, byteOffset, length / 2), fromF16);
    case Type.BF16:
      return Float32Array.from(new Uint16Array(buffer, byteOffset, length / 2), fromBF16);
    case Type.I32:
      return new Int32Array(buffer, byteOffset, length / 4);
    case Type.I64:
      return new BigInt64Array(buffer, byteOffset, length / 8);
    default:
      return bytes;
  }
}

function bytesOf(a: Float32Array | Int32Array | Uint16Array | BigInt64Array): Uint8Array {
  return new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
}

function needLength(label: string, actual: number, expected: number, unit: string): void {
  if (actual === expected) return;
  throw new GraphError("bad-data", `${label}: ${actual} ${unit} given, ${expected} expected`, {
    expected,
    actual,
  });
}

// Integers from -limit on, below it: an index must not become another one.
function needIntegers(label: string, data: ArrayLike<number>, limit: number): void {
  for (let i = 0; i < data.length; i++) {
    const x = data[i]!;
    if (Number.isInteger(x) && x >= -limit && x < limit) continue;
    throw new GraphError(
      "bad-data",
      `${label}: element ${i} is ${String(x)}, expected an integer that fits`,
      {
        actual: x,
      },
    );
  }
}

function kindError(label: string, type: Type, kind: string): GraphError {
  return new GraphError(
    "bad-data",
    `${label}: ${kind} cannot be written to ${typeName(type)}; give raw bytes`,
  );
}
