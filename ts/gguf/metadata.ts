// Reads one metadata key with its value.
//
//     key     u64 length, bytes (UTF-8, no NUL)
//     type    u32, one of GgufType
//     value   scalar: 1 to 8 bytes
//             string: u64 length, bytes
//             array:  u32 element type, u64 count, the elements without types of their own

import type { Cursor } from "./cursor.ts";
import { DEFAULT_ALIGNMENT, MAX_KEY_BYTES, MAX_NESTED_ARRAYS, MAX_NESTING, MIN_ALIGNMENT } from "./limits.ts";
import {
  type ElementsOf,
  GgufType,
  type MetaArray,
  type MetaString,
  type MetaValue,
  SCALAR_BYTES,
  StringArray,
  decodeStrict,
  decodeText,
  valueTypeName,
} from "./values.ts";

/** The key that sets the alignment of the data section. */
export const ALIGNMENT_KEY = "general.alignment";

/** Arrays inside arrays that the rest of the file may still hold. */
export interface Budget {
  arrays: number;
}

/** A full budget. */
export function newBudget(): Budget {
  return { arrays: MAX_NESTED_ARRAYS };
}

/**
 * Reads a key and its value at the cursor into `metadata`, which stays as it is when the bytes at hand run out.
 *
 * @throws {FormatError} bad-key, duplicate-key, bad-type, bad-value, bad-alignment, nesting, limit, truncated
 */
export function readKeyValue(cursor: Cursor, metadata: Map<string, MetaValue>, budget: Budget): void {
  const at = cursor.pos;
  const key = readKey(cursor);
  cursor.key = key;
  if (metadata.has(key)) cursor.fail("duplicate-key", "stands twice", at);
  const valueAt = cursor.pos;
  const value = readValue(cursor, budget);
  if (key === ALIGNMENT_KEY) checkAlignment(cursor, value, valueAt);
  metadata.set(key, value);
}

/** Alignment of the data section, in bytes. */
export function alignmentOf(metadata: ReadonlyMap<string, MetaValue>): number {
  const value = metadata.get(ALIGNMENT_KEY);
  return value?.type === GgufType.UINT32 ? value.value : DEFAULT_ALIGNMENT;
}

function readKey(cursor: Cursor): string {
  const at = cursor.pos;
  const length = cursor.length("key length");
  if (length === 0) cursor.fail("bad-key", "a key is empty", at);
  if (length > MAX_KEY_BYTES) {
    cursor.fail("bad-key", `a key has ${length} bytes, at most ${MAX_KEY_BYTES} are allowed`, at);
  }
  const key = decodeStrict(cursor.take(length));
  if (key === undefined) return cursor.fail("bad-key", "a key is not valid UTF-8", at);
  if (key.includes("\0")) cursor.fail("bad-key", `NUL in key ${JSON.stringify(key)}`, at);
  return key;
}

function readValue(cursor: Cursor, budget: Budget): MetaValue {
  const type = readType(cursor, "");
  if (type === GgufType.STRING) return readString(cursor);
  if (type === GgufType.ARRAY) return readArray(cursor, 1, budget);
  return readScalar(cursor, type);
}

function readType(cursor: Cursor, of: string): GgufType {
  const at = cursor.pos;
  const type = cursor.u32();
  if (type > GgufType.FLOAT64) cursor.fail("bad-type", `${of}type ${type} is none of GGUF's (0 to 12)`, at);
  return type as GgufType;
}

/** Bad UTF-8 is data: the format forbids it, real files have it. */
function readString(cursor: Cursor): MetaString {
  const bytes = cursor.take(cursor.length("string length"));
  const value = decodeStrict(bytes);
  if (value !== undefined) return { type: GgufType.STRING, value };
  return { type: GgufType.STRING, value: decodeText(bytes), bytes: copyOf(bytes) };
}

function readScalar(cursor: Cursor, type: GgufType): MetaValue {
  const at = cursor.pos;
  const view = cursor.takeView(SCALAR_BYTES[type]!);
  switch (type) {
    case GgufType.UINT8:
      return { type, value: view.getUint8(0) };
    case GgufType.INT8:
      return { type, value: view.getInt8(0) };
    case GgufType.UINT16:
      return { type, value: view.getUint16(0, true) };
    case GgufType.INT16:
      return { type, value: view.getInt16(0, true) };
    case GgufType.UINT32:
      return { type, value: view.getUint32(0, true) };
    case GgufType.INT32:
      return { type, value: view.getInt32(0, true) };
    case GgufType.FLOAT32:
      return { type, value: view.getFloat32(0, true) };
    case GgufType.UINT64:
      return { type, value: view.getBigUint64(0, true) };
    case GgufType.INT64:
      return { type, value: view.getBigInt64(0, true) };
    case GgufType.FLOAT64:
      return { type, value: view.getFloat64(0, true) };
    case GgufType.BOOL:
      return { type, value: checkBool(cursor, view.getUint8(0), at) === 1 };
    default:
      return cursor.fail("bad-type", `${valueTypeName(type)} is no scalar`, at);
  }
}

/** `depth` is 1 for an array that is a value itself. */
function readArray(cursor: Cursor, depth: number, budget: Budget): MetaArray {
  const type = GgufType.ARRAY;
  const elementType = readType(cursor, "element ");
  const at = cursor.pos;
  const count = cursor.count("array length", leastBytes(elementType), Number.MAX_SAFE_INTEGER);
  if (elementType === GgufType.STRING) return { type, elementType, value: readStrings(cursor, count) };
  if (elementType === GgufType.ARRAY) {
    if (depth === MAX_NESTING) cursor.fail("nesting", `arrays are nested deeper than ${MAX_NESTING}`, at);
    return { type, elementType, value: readArrays(cursor, count, depth, budget) };
  }
  // The count fits in the file, so the product is exact.
  const bytes = cursor.take(count * SCALAR_BYTES[elementType]!);
  if (elementType === GgufType.BOOL) {
    for (let i = 0; i < count; i++) checkBool(cursor, bytes[i]!, cursor.pos - count + i);
  }
  return { type, elementType, value: numbers(elementType, copyOf(bytes).buffer) } as MetaArray;
}

/** Least bytes of an array element in the file. */
function leastBytes(type: GgufType): number {
  if (type === GgufType.STRING) return 8;
  return type === GgufType.ARRAY ? 12 : SCALAR_BYTES[type]!;
}

/** Passes over the strings once to find their end before it allocates anything. */
function readStrings(cursor: Cursor, count: number): StringArray {
  const start = cursor.pos;
  cursor.skipStrings(count);
  const nBytes = cursor.pos - start;
  cursor.pos = start;
  const block = copyOf(cursor.take(nBytes));
  const view = new DataView(block.buffer);
  const starts = new Uint32Array(count + 1);
  let at = 8;
  for (let i = 0; i < count; i++) {
    starts[i] = at;
    at += view.getUint32(at - 8, true) + 8;
  }
  starts[count] = at;
  return new StringArray(block, starts);
}

/** Arrays in an array: counted against the budget before the first of them is made. */
function readArrays(cursor: Cursor, count: number, depth: number, budget: Budget): MetaArray[] {
  budget.arrays -= count;
  if (budget.arrays < 0) cursor.fail("limit", `more than ${MAX_NESTED_ARRAYS} arrays stand inside arrays`);
  const arrays: MetaArray[] = [];
  for (let i = 0; i < count; i++) arrays.push(readArray(cursor, depth + 1, budget));
  return arrays;
}

/** The host is little-endian, as is wasm: bytes are the numbers. */
function numbers(type: keyof ElementsOf, buffer: ArrayBuffer): ElementsOf[keyof ElementsOf] {
  switch (type) {
    case GgufType.INT8:
      return new Int8Array(buffer);
    case GgufType.UINT16:
      return new Uint16Array(buffer);
    case GgufType.INT16:
      return new Int16Array(buffer);
    case GgufType.UINT32:
      return new Uint32Array(buffer);
    case GgufType.INT32:
      return new Int32Array(buffer);
    case GgufType.FLOAT32:
      return new Float32Array(buffer);
    case GgufType.UINT64:
      return new BigUint64Array(buffer);
    case GgufType.INT64:
      return new BigInt64Array(buffer);
    case GgufType.FLOAT64:
      return new Float64Array(buffer);
    default:
      return new Uint8Array(buffer);
  }
}

/** The format calls other bytes invalid; a reader that takes them for true hides a shifted file. */
function checkBool(cursor: Cursor, byte: number, at: number): number {
  if (byte > 1) cursor.fail("bad-value", `a bool is the byte ${byte}, allowed are 0 and 1`, at);
  return byte;
}

/** Also where no tensor needs it: a file that is wrong here was made by something wrong. */
function checkAlignment(cursor: Cursor, value: MetaValue, at: number): void {
  if (value.type !== GgufType.UINT32) {
    cursor.fail("bad-alignment", `has type ${valueTypeName(value.type)}, expected uint32`, at);
  }
  const n = value.value;
  if (n < MIN_ALIGNMENT || (n & (n - 1)) !== 0) {
    cursor.fail("bad-alignment", `${n} is no power of two from ${MIN_ALIGNMENT} on`, at, { actual: n });
  }
}

/** A copy in memory of its own: sources lend their bytes. */
function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes.length);
  copy.set(bytes);
  return copy;
}
