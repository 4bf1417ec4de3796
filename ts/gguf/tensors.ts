// Reads tensor infos and places them in the file.
//
//     name     u64 length, bytes (at most 64)
//     n_dims   u32, 0 to 4
//     ne       n_dims times i64, innermost first
//     type     u32
//     offset   u64, from the start of the data section, a multiple of the alignment

import { type ErrorDetails, type FormatCode, FormatError } from "../errors.ts";
import { type Shape, shape4, str } from "../shape.ts";
import { type Type, typeInfo, typeName } from "../types.ts";
import type { Cursor } from "./cursor.ts";
import { ABSURD, MAX_DIMS, MAX_NAME_BYTES, OVERFLOW } from "./limits.ts";
import { decodeStrict } from "./values.ts";

/** One tensor of a file. Types the backends do not know are listed like any other; they fail when used. */
export interface TensorInfo {
  readonly name: string;
  readonly type: Type;
  /** elements per dimension, innermost first; missing dimensions are 1 */
  readonly ne: Shape;
  /** dimensions the file names, 0 to 4 */
  readonly nDims: number;
  /** where the data starts, from the start of the file, in bytes */
  readonly offset: number;
  /** bytes of the data */
  readonly nBytes: number;
}

/** An info whose offset still counts from the start of the data section. */
export type UnplacedTensor = { -readonly [K in keyof TensorInfo]: TensorInfo[K] };

/**
 * Reads one tensor info. `names` gets its name at the end, so a step that ran out of bytes can be done again.
 *
 * @throws {FormatError} bad-name, duplicate-tensor, bad-dims, overflow, bad-type, block-size, limit, truncated
 */
export function readTensorInfo(cursor: Cursor, names: ReadonlyMap<string, unknown>): UnplacedTensor {
  const at = cursor.pos;
  const name = readName(cursor);
  cursor.tensor = name;
  if (names.has(name)) cursor.fail("duplicate-tensor", "stands twice", at);
  const dims = readDims(cursor);
  const typeAt = cursor.pos;
  const type = cursor.u32();
  const nBytes = sizeOf(cursor, type, dims, typeAt);
  return { name, type, ne: shape4(dims.map(Number)), nDims: dims.length, offset: cursor.u64number(), nBytes };
}

function readName(cursor: Cursor): string {
  const at = cursor.pos;
  const length = cursor.length("name length");
  if (length === 0) cursor.fail("bad-name", "a tensor name is empty", at);
  if (length > MAX_NAME_BYTES) {
    cursor.fail("bad-name", `a tensor name has ${length} bytes, at most ${MAX_NAME_BYTES} are allowed`, at);
  }
  const name = decodeStrict(cursor.take(length));
  if (name === undefined) return cursor.fail("bad-name", "a tensor name is not valid UTF-8", at);
  if (name.includes("\0")) cursor.fail("bad-name", `NUL in tensor name ${JSON.stringify(name)}`, at);
  return name;
}

function readDims(cursor: Cursor): bigint[] {
  const at = cursor.pos;
  const nDims = cursor.u32();
  if (nDims > MAX_DIMS)
    cursor.fail("bad-dims", `has ${nDims} dimensions, at most ${MAX_DIMS} are allowed`, at);
  const dims: bigint[] = [];
  for (let i = 0; i < nDims; i++) dims.push(cursor.u64());
  // The format stores signed 64 bits.
  if (dims.some((n) => n >= OVERFLOW))
    cursor.fail("bad-dims", `ne[] = ${str(dims.map(signed))} is negative`, at);
  return dims;
}

function signed(n: bigint): number {
  return Number(BigInt.asIntN(64, n));
}

/** Bytes of a tensor; every product is exact, also where a dimension is 0 and the others are absurd. */
function sizeOf(cursor: Cursor, type: number, dims: readonly bigint[], at: number): number {
  const span = dims.reduce((product, n) => product * (n === 0n ? 1n : n), 1n);
  if (span >= OVERFLOW) cursor.fail("overflow", `ne[] = [${dims.join()}] overflows 64 bits`, at);
  const info = typeInfo(type);
  if (info === undefined) return cursor.fail("bad-type", `type ${type} is unknown or was removed`, at);
  const { blockSize, typeSize } = info;
  const ne0 = dims[0] ?? 1n;
  if (ne0 % BigInt(blockSize) !== 0n) {
    cursor.fail(
      "block-size",
      `ne[0] = ${ne0} is no multiple of the ${blockSize} of a ${typeName(type)} block`,
      at,
    );
  }
  const spanBytes = (span / BigInt(blockSize)) * BigInt(typeSize);
  // The largest alignment is 2^31: rounding the size up may not wrap either.
  if (spanBytes + 2n ** 31n >= OVERFLOW) cursor.fail("overflow", `${spanBytes} bytes overflow 64 bits`, at);
  if (span > Number.MAX_SAFE_INTEGER || spanBytes > Number.MAX_SAFE_INTEGER) {
    cursor.fail("limit", `${spanBytes} bytes (ne[] = [${dims.join()}]) are beyond 2^53`, at);
  }
  return dims.includes(0n) ? 0 : Number(spanBytes);
}

/**
 * Makes the offsets absolute and checks that every tensor lies in the file, aligned, apart from all others. Gaps,
 * any order, and a last tensor without tail padding are fine.
 *
 * @param infoAt where each tensor's info stands in the header, for errors
 * @param size bytes of the file, where known
 * @throws {FormatError} bad-offset, truncated, limit
 */
export function placeTensors(
  tensors: readonly UnplacedTensor[],
  infoAt: readonly number[],
  dataOffset: number,
  alignment: number,
  size: number | undefined,
): void {
  for (const [i, tensor] of tensors.entries()) {
    if (tensor.offset % alignment !== 0) {
      const text = `offset ${tensor.offset} is no multiple of the alignment ${alignment}`;
      throw refusal("bad-offset", tensor, text, { offset: infoAt[i] ?? 0 });
    }
    tensor.offset += dataOffset;
    const end = size ?? Number.MAX_SAFE_INTEGER;
    if (tensor.offset > end) {
      const text = `starts at byte ${tensor.offset}, past the end of the file at ${end}`;
      throw refusal("bad-offset", tensor, text, { offset: infoAt[i] ?? 0 });
    }
    checkEnd(tensor, end);
  }
  checkApart(tensors);
}

function checkEnd(tensor: TensorInfo, end: number): void {
  const { offset, nBytes } = tensor;
  const actual = end - offset;
  if (nBytes <= actual) return;
  const text = `needs ${nBytes} bytes from byte ${offset} on, the file has ${actual}`;
  throw refusal(nBytes >= ABSURD ? "limit" : "truncated", tensor, text, { offset, expected: nBytes, actual });
}

function checkApart(tensors: readonly TensorInfo[]): void {
  const sorted = tensors.filter((t) => t.nBytes > 0).sort((a, b) => a.offset - b.offset);
  for (let i = 1; i < sorted.length; i++) {
    const [before, tensor] = [sorted[i - 1]!, sorted[i]!];
    if (before.offset + before.nBytes <= tensor.offset) continue;
    const text = `overlaps tensor "${before.name}" at byte ${tensor.offset}`;
    throw refusal("bad-offset", tensor, text, { offset: tensor.offset });
  }
}

function refusal(code: FormatCode, { name }: TensorInfo, text: string, details: ErrorDetails): FormatError {
  return new FormatError(code, `tensor "${name}": ${text}`, { ...details, tensor: name });
}
