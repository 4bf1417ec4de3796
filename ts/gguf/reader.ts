// The strict GGUF reader: header bytes to plain data. Versions 2 and 3, little-endian.

import { FormatError } from "../errors.ts";
import { alignUp } from "../shape.ts";
import { Cursor, Underrun } from "./cursor.ts";
import {
  FIRST_READ,
  MAX_HEADER_BYTES,
  MAX_KEYS,
  MAX_TENSORS,
  MIN_KEY_BYTES,
  MIN_TENSOR_BYTES,
} from "./limits.ts";
import { describeBytes, isGgufMagic } from "./magic.ts";
import { alignmentOf, newBudget, readKeyValue } from "./metadata.ts";
import type { ByteSource } from "./source.ts";
import { type TensorInfo, type UnplacedTensor, placeTensors, readTensorInfo } from "./tensors.ts";
import type { MetaValue } from "./values.ts";

/** The header of a GGUF file. Plain data; it keeps nothing of the source. */
export interface GgufFile {
  /** 2 or 3 */
  readonly version: number;
  /** of the data section, in bytes: a power of two from 8 on */
  readonly alignment: number;
  /** keys in the file's order */
  readonly metadata: ReadonlyMap<string, MetaValue>;
  /** tensors in the order of the header, which need not be that of their data */
  readonly tensors: readonly TensorInfo[];
  readonly tensorByName: ReadonlyMap<string, TensorInfo>;
  /** where the data section starts, in bytes; the end of the header in a file without tensors */
  readonly dataOffset: number;
  /** bytes of the file; undefined for a stream without a length */
  readonly fileSize: number | undefined;
}

/**
 * Reads the header from the start of a file.
 *
 * @param bytes the start of the file, at least to the end of its header
 * @param size bytes of the whole file
 * @param name for messages
 * @throws {FormatError} as {@link readGguf}; truncated also when `bytes` end before the header does
 */
export function parseGguf(bytes: Uint8Array, size: number = bytes.length, name = "gguf"): GgufFile {
  const parser = new Parser(name);
  const need = parser.advance(bytes, size);
  if (need !== undefined) throw cutShort(name, need, bytes.length);
  return parser.finish();
}

/**
 * Reads the header of a source in growing ranges.
 *
 * @throws {FormatError} bad-magic, unsupported-version, truncated, limit, bad-type, bad-key, bad-value, duplicate-key,
 *   bad-alignment, bad-name, duplicate-tensor, bad-dims, overflow, block-size, bad-offset, nesting; with the byte
 *   position, and the key or tensor where known
 * @throws {DeviceError} io
 * @throws the reason of `signal`
 */
export async function readGguf(
  source: ByteSource,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<GgufFile> {
  const parser = new Parser(source.name);
  let want = FIRST_READ;
  for (;;) {
    options.signal?.throwIfAborted();
    const asked = Math.min(want, source.size ?? want);
    const bytes = await source.read(0, asked, options.signal);
    const ended = bytes.length < asked;
    if (ended && source.size !== undefined && bytes.length < source.size) {
      throw cutShort(source.name, asked, bytes.length);
    }
    const need = parser.advance(bytes, source.size ?? (ended ? bytes.length : undefined));
    if (need === undefined) return parser.finish();
    want = Math.min(Math.max(need, 2 * want), MAX_HEADER_BYTES);
  }
}

function cutShort(name: string, expected: number, actual: number): FormatError {
  const text = `${name}: only ${actual} bytes could be read, the header needs ${expected} or more`;
  return new FormatError("truncated", text, { expected, actual, offset: actual });
}

/** Goes through the header step by step; a step whose bytes are not at hand yet leaves no trace and is done again. */
class Parser {
  readonly #name: string;
  readonly #cursor = new Cursor();
  readonly #metadata = new Map<string, MetaValue>();
  readonly #tensors: UnplacedTensor[] = [];
  readonly #tensorByName = new Map<string, UnplacedTensor>();
  readonly #budget = newBudget();
  #version = 0;
  #nTensors = 0;
  #nKeys = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Reads on. Returns the bytes it must have at least to do more, or undefined when the header is read. */
  advance(bytes: Uint8Array, size: number | undefined): number | undefined {
    const cursor = this.#cursor;
    cursor.refill(bytes, size);
    for (;;) {
      const { pos } = cursor;
      const { arrays } = this.#budget;
      try {
        if (!this.#step(bytes)) return undefined;
      } catch (error) {
        if (!(error instanceof Underrun)) throw error;
        cursor.pos = pos;
        this.#budget.arrays = arrays;
        return error.need;
      }
    }
  }

  /** The file, once {@link advance} has returned undefined. */
  finish(): GgufFile {
    const { pos, size } = this.#cursor;
    const alignment = alignmentOf(this.#metadata);
    const dataOffset = this.#nTensors === 0 ? pos : alignUp(pos, alignment);
    if (size !== undefined && dataOffset > size) {
      const text = `${this.#name}: the data section starts at byte ${dataOffset}, the file has ${size} bytes`;
      throw new FormatError("truncated", text, { expected: dataOffset, actual: size, offset: size });
    }
    placeTensors(this.#tensors, dataOffset, alignment, size);
    return {
      version: this.#version,
      alignment,
      metadata: this.#metadata,
      tensors: this.#tensors,
      tensorByName: this.#tensorByName,
      dataOffset,
      fileSize: size,
    };
  }

  /** Reads the next thing; false at the end of the header. */
  #step(bytes: Uint8Array): boolean {
    const cursor = this.#cursor;
    cursor.key = cursor.tensor = undefined;
    if (this.#version === 0) this.#readStart(bytes);
    else if (this.#metadata.size < this.#nKeys) readKeyValue(cursor, this.#metadata, this.#budget);
    else if (this.#tensors.length < this.#nTensors) this.#readTensor();
    else return false;
    return true;
  }

  #readStart(bytes: Uint8Array): void {
    const cursor = this.#cursor;
    if (!isGgufMagic(bytes.subarray(0, 4))) {
      const text = `${this.#name} is not GGUF, it looks like ${describeBytes(bytes)}`;
      cursor.fail("bad-magic", text, 0, { expected: "GGUF" });
    }
    cursor.skip(4);
    const version = cursor.u32();
    checkVersion(cursor, version);
    const nTensors = cursor.count("tensor count", MIN_TENSOR_BYTES, MAX_TENSORS);
    const nKeys = cursor.count("key count", MIN_KEY_BYTES, MAX_KEYS);
    [this.#nTensors, this.#nKeys, this.#version] = [nTensors, nKeys, version];
  }

  #readTensor(): void {
    const tensor = readTensorInfo(this.#cursor, this.#tensorByName);
    this.#tensors.push(tensor);
    this.#tensorByName.set(tensor.name, tensor);
  }
}

function checkVersion(cursor: Cursor, version: number): void {
  if (version === 2 || version === 3) return;
  const swapped =
    ((version << 24) | ((version & 0xff00) << 8) | ((version >>> 8) & 0xff00) | (version >>> 24)) >>> 0;
  const text =
    swapped === 3 || swapped === 2
      ? `version ${swapped} in big-endian byte order; only little-endian files are read`
      : `version ${version}; only versions 2 and 3 are read`;
  cursor.fail("unsupported-version", text, 4, { expected: [2, 3], actual: version });
}
