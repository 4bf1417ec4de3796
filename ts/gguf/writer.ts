// Writes GGUF: what the reader reads, and nothing it would refuse or read as something else.

import { checkOptions, FormatError } from "../errors.ts";
import { alignUp } from "../shape.ts";
import { type Type, typeInfo } from "../types.ts";
import { DEFAULT_ALIGNMENT } from "./limits.ts";
import { alignmentOf } from "./metadata.ts";
import { parseGguf } from "./reader.ts";
import {
  GgufType,
  type MetaArray,
  type MetaScalar,
  type MetaString,
  type MetaValue,
  SCALAR_BYTES,
  valueTypeName,
} from "./values.ts";

/** Metadata to write: a map, or pairs in order. */
export type MetaEntries = Iterable<readonly [key: string, value: MetaValue]>;

/** What the header says of a tensor. A {@link TensorInfo} will do. */
export interface TensorHeader {
  readonly name: string;
  readonly type: Type;
  /** elements per dimension, innermost first, up to four */
  readonly ne: readonly number[];
  /** dimensions to name in the file; without it trailing ones are left out */
  readonly nDims?: number;
}

/** A tensor to write, with its bytes at once or piece by piece. */
export interface TensorData extends TensorHeader {
  readonly data: Uint8Array | (() => Iterable<Uint8Array>);
}

/** Options of the writer. */
export interface WriteOptions {
  /** 3, or 2 for the same layout with the older number */
  readonly version?: 2 | 3;
}

/** A header, padded to the data section, and where the tensors go after it. */
export interface GgufHeader {
  readonly bytes: Uint8Array;
  /** start of each tensor's data, from the start of the file */
  readonly offsets: readonly number[];
  /** bytes of each tensor's data */
  readonly nBytes: readonly number[];
  /** bytes of the whole file, the last tensor padded as all others */
  readonly fileSize: number;
}

/**
 * Header of a file whose tensors are written by the caller: data at `offsets`, zeros between. The alignment is the
 * metadata's `general.alignment`, or 32.
 *
 * @throws {FormatError} with the reader's code for whatever the reader would refuse; bad-type or bad-value for metadata that its
 * type does not hold
 * @throws {TypeError} for a misspelt option
 */
export function ggufHeader(
  metadata: MetaEntries,
  tensors: readonly TensorHeader[],
  options: WriteOptions = {},
): GgufHeader {
  checkOptions("ggufHeader", options, ["version"]);
  const entries = [...metadata];
  // Laid out first and judged after: the reader itself reads the result back.
  const alignment = layoutAlignment(entries);
  const sizes = tensors.map(sizeOf);
  const sink = new Sink();
  sink.text("GGUF");
  sink.u32(options.version ?? 3);
  sink.u64(tensors.length);
  sink.u64(entries.length);
  for (const [key, value] of entries) {
    sink.string(key);
    writeValue(sink, key, value);
  }
  let offset = 0;
  for (const [i, tensor] of tensors.entries()) {
    writeInfo(sink, tensor, offset);
    offset += alignUp(sizes[i]!, alignment);
  }
  const bytes = sink.finish(tensors.length === 0 ? 1 : alignment);
  const fileSize = bytes.length + offset;
  const file = parseGguf(bytes, fileSize, "writer");
  return {
    bytes,
    offsets: file.tensors.map((t) => t.offset),
    nBytes: file.tensors.map((t) => t.nBytes),
    fileSize,
  };
}

/**
 * A file in chunks, so that none larger than a tensor's own chunks is ever held.
 *
 * @throws {FormatError} as {@link ggufHeader}; truncated when a tensor's data is not as long as its shape says
 */
export function* ggufChunks(
  metadata: MetaEntries,
  tensors: readonly TensorData[],
  options: WriteOptions = {},
): Generator<Uint8Array, void, undefined> {
  const header = ggufHeader(metadata, tensors, options);
  yield header.bytes;
  for (const [i, { name, data }] of tensors.entries()) {
    let written = 0;
    for (const chunk of data instanceof Uint8Array ? [data] : data()) {
      written += chunk.length;
      yield chunk;
    }
    const expected = header.nBytes[i]!;
    if (written !== expected) {
      const text = `tensor "${name}": ${written} bytes of data, its type and shape need ${expected}`;
      throw new FormatError("truncated", text, { tensor: name, expected, actual: written });
    }
    const end = header.offsets[i]! + written;
    const padding = (header.offsets[i + 1] ?? header.fileSize) - end;
    if (padding > 0) yield new Uint8Array(padding);
  }
}

/** A whole file in memory. @throws as {@link ggufChunks} */
export function writeGguf(
  metadata: MetaEntries,
  tensors: readonly TensorData[],
  options: WriteOptions = {},
): Uint8Array {
  const chunks = [...ggufChunks(metadata, tensors, options)];
  const file = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    file.set(chunk, at);
    at += chunk.length;
  }
  return file;
}

/** The metadata's alignment. A bad one is for the reader to name; the layout needs some power of two meanwhile. */
function layoutAlignment(entries: MetaEntries): number {
  const alignment = alignmentOf(new Map(entries));
  return (alignment & (alignment - 1)) === 0 && alignment > 0 ? alignment : DEFAULT_ALIGNMENT;
}

/** Bytes of a tensor's data. What is wrong with a shape the reader says, when it reads the header back. */
function sizeOf({ type, ne }: TensorHeader): number {
  const { blockSize, typeSize } = typeInfo(type) ?? { blockSize: 1, typeSize: 1 };
  return (ne.reduce((product, n) => product * n, 1) / blockSize) * typeSize;
}

function writeInfo(sink: Sink, tensor: TensorHeader, offset: number): void {
  let nDims = tensor.nDims ?? tensor.ne.length;
  if (tensor.nDims === undefined) while (nDims > 1 && tensor.ne[nDims - 1] === 1) nDims--;
  sink.string(tensor.name);
  sink.u32(nDims);
  for (let i = 0; i < nDims; i++) sink.u64(extentOf(tensor, i));
  sink.u32(tensor.type);
  sink.u64(offset);
}

// Whole numbers: the reader would see others cut.
function extentOf({ name, ne }: TensorHeader, i: number): number {
  const n = ne[i] ?? 1;
  if (Number.isSafeInteger(n) && n >= 0) return n;
  throw new FormatError("bad-dims", `tensor "${name}": ne[${i}] is ${n}`, { tensor: name, actual: n });
}

function writeValue(sink: Sink, key: string, value: MetaValue): void {
  sink.u32(value.type);
  if (value.type === GgufType.ARRAY) writeArray(sink, value);
  else if (value.type === GgufType.STRING) sink.string(textOf(value));
  else {
    checkScalar(key, value);
    writeScalar(sink, value);
  }
}

// What a view would cut.
function checkScalar(key: string, { type, value }: MetaScalar): void {
  const name = valueTypeName(type);
  const range = RANGES[type];
  if (range === undefined)
    throw new FormatError("bad-type", `key "${key}": there is no ${name}`, { key, actual: type });
  const [least, most] = range;
  if (typeof value !== typeof least) {
    const text = `key "${key}": ${name} takes a ${typeof least}, got a ${typeof value}`;
    throw new FormatError("bad-type", text, { key, expected: typeof least, actual: typeof value });
  }
  const whole = typeof value !== "number" || least === -Infinity || Number.isInteger(value);
  if (whole && !(value < least) && !(value > most)) return;
  const text = `key "${key}": ${String(value)} is no ${name}`;
  throw new FormatError("bad-value", text, { key, expected: name, actual: value });
}

function textOf(value: MetaString): string | Uint8Array {
  return value.bytes ?? value.value;
}

function writeScalar(sink: Sink, { type, value }: MetaScalar): void {
  const view = sink.view(SCALAR_BYTES[type]!);
  switch (type) {
    case GgufType.UINT8:
      return view.setUint8(0, value);
    case GgufType.INT8:
      return view.setInt8(0, value);
    case GgufType.UINT16:
      return view.setUint16(0, value, true);
    case GgufType.INT16:
      return view.setInt16(0, value, true);
    case GgufType.UINT32:
      return view.setUint32(0, value, true);
    case GgufType.INT32:
      return view.setInt32(0, value, true);
    case GgufType.FLOAT32:
      return view.setFloat32(0, value, true);
    case GgufType.BOOL:
      return view.setUint8(0, value ? 1 : 0);
    case GgufType.UINT64:
      return view.setBigUint64(0, value, true);
    case GgufType.INT64:
      return view.setBigInt64(0, value, true);
    case GgufType.FLOAT64:
      return view.setFloat64(0, value, true);
  }
}

function writeArray(sink: Sink, array: MetaArray): void {
  sink.u32(array.elementType);
  sink.u64(array.value.length);
  if (array.elementType === GgufType.ARRAY) {
    for (const inner of array.value) writeArray(sink, inner);
  } else if (array.elementType === GgufType.STRING) {
    sink.bytes(array.value.encoded);
  } else {
    const { buffer, byteOffset, byteLength } = array.value;
    sink.bytes(new Uint8Array(buffer, byteOffset, byteLength));
  }
}

/** Least and greatest value of each scalar type. */
const RANGES: { readonly [type: number]: readonly [MetaScalar["value"], MetaScalar["value"]] } = {
  [GgufType.UINT8]: [0, 0xff],
  [GgufType.INT8]: [-0x80, 0x7f],
  [GgufType.UINT16]: [0, 0xffff],
  [GgufType.INT16]: [-0x8000, 0x7fff],
  [GgufType.UINT32]: [0, 0xffffffff],
  [GgufType.INT32]: [-0x80000000, 0x7fffffff],
  [GgufType.FLOAT32]: [-Infinity, Infinity],
  [GgufType.BOOL]: [false, true],
  [GgufType.UINT64]: [0n, 2n ** 64n - 1n],
  [GgufType.INT64]: [-(2n ** 63n), 2n ** 63n - 1n],
  [GgufType.FLOAT64]: [-Infinity, Infinity],
};

/** Little-endian bytes that grow. */
class Sink {
  /** the first #length are written, the rest is zero */
  #bytes = new Uint8Array(1024);
  #length = 0;
  readonly #encoder = new TextEncoder();

  u32(value: number): void {
    this.view(4).setUint32(0, value, true);
  }

  u64(value: number): void {
    const view = this.view(8);
    view.setUint32(0, value, true);
    view.setUint32(4, Math.floor(value / 2 ** 32), true);
  }

  text(value: string): void {
    this.bytes(this.#encoder.encode(value));
  }

  /** A length and the bytes. */
  string(value: string | Uint8Array): void {
    const bytes = typeof value === "string" ? this.#encoder.encode(value) : value;
    this.u64(bytes.length);
    this.bytes(bytes);
  }

  bytes(value: Uint8Array): void {
    this.#grow(value.length);
    this.#bytes.set(value, this.#length - value.length);
  }

  /** The next `n` bytes, zero. */
  view(n: number): DataView {
    this.#grow(n);
    return new DataView(this.#bytes.buffer, this.#length - n, n);
  }

  /** All bytes, padded with zeros. */
  finish(alignment: number): Uint8Array {
    this.#grow(alignUp(this.#length, alignment) - this.#length);
    return this.#bytes.slice(0, this.#length);
  }

  #grow(n: number): void {
    this.#length += n;
    if (this.#length <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#length, 2 * this.#bytes.length));
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}
