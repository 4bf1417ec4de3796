// The strict GGUF reader: header bytes to plain data. Versions 2 and 3, little-endian.
//
//     "GGUF"  u32 version  u64 tensors  u64 keys
//     key, value           (metadata.ts)
//     tensor info          (tensors.ts)
//     padding to the alignment, where there are tensors
//     data                 each tensor aligned, the last one's padding may be missing

import { FormatError } from "../errors.ts";
import { alignUp } from "../shape.ts";
import { Cursor, Underrun } from "./cursor.ts";
import {
  MAX_HEADER_BYTES,
  MAX_KEYS,
  MAX_TENSORS,
  MIN_KEY_BYTES,
  MIN_TENSOR_BYTES,
  WINDOW_BYTES,
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
  const underrun = parser.advance(bytes, 0, size);
  if (underrun !== undefined) throw cutShort(name, underrun.need, bytes.length);
  return parser.finish();
}

/**
 * Reads the header of a source window by window; a window is as large as the largest value at most.
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
  let want = WINDOW_BYTES;
  for (;;) {
    options.signal?.throwIfAborted();
    const base = parser.pos;
    const asked = source.size === undefined ? want : Math.min(want, source.size - base);
    const bytes = await source.read(base, asked, options.signal);
    const end = base + bytes.length;
    // Short of what is there, or the end of a stream that had not told.
    if (bytes.length < asked && end < (source.size ?? 0)) throw cutShort(source.name, base + asked, end);
    const underrun = parser.advance(bytes, base, source.size ?? (bytes.length < asked ? end : undefined));
    if (underrun === undefined) return parser.finish();
    want = nextWindow(underrun, parser.pos, bytes.length);
  }
}

/**
 * Bytes to read from `pos` on after a window of `window` bytes: half as many again as are needed, so that a value
 * read in pieces is not read often; a hint is believed up to four windows.
 */
function nextWindow({ need, hint }: Underrun, pos: number, window: number): number {
  const want = Math.max(WINDOW_BYTES, Math.ceil(1.5 * (need - pos)), Math.min(hint - pos, 4 * window));
  return Math.min(want, MAX_HEADER_BYTES - pos);
}

function cutShort(name: string, expected: number, actual: number): FormatError {
  const text = `${name}: only ${actual} bytes could be read, the header needs ${expected} or more`;
  return new FormatError("truncated", text, { expected, actual, offset: actual });
}

/** Goes through the header step by step; a step whose bytes are not at hand yet leaves no trace and is done again. */
export class Parser {
  readonly #name: string;
  readonly #cursor = new Cursor();
  readonly #metadata = new Map<string, MetaValue>();
  readonly #tensors: UnplacedTensor[] = [];
  readonly #infoAt: number[] = [];
  readonly #tensorByName = new Map<string, UnplacedTensor>();
  readonly #budget = newBudget();
  #version = 0;
  #nTensors = 0;
  #nKeys = 0;

  constructor(name: string) {
    this.#name = name;
  }

  /** Where the next step starts: bytes before it are needed no more. */
  get pos(): number {
    return this.#cursor.pos;
  }

  /** Reads on in the bytes from `base` on. Returns what it lacks to do more, undefined when the header is read. */
  advance(bytes: Uint8Array, base: number, size: number | undefined): Underrun | undefined {
    const cursor = this.#cursor;
    cursor.refill(bytes, base, size);
    for (;;) {
      const { pos } = cursor;
      const { arrays } = this.#budget;
      try {
        if (!this.#step()) return undefined;
      } catch (error) {
        if (!(error instanceof Underrun)) throw error;
        cursor.pos = pos;
        this.#budget.arrays = arrays;
        return error;
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
    placeTensors(this.#tensors, this.#infoAt, dataOffset, alignment, size);
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
  #step(): boolean {
    const cursor = this.#cursor;
    cursor.key = cursor.tensor = undefined;
    if (this.#version === 0) this.#readStart();
    else if (this.#metadata.size < this.#nKeys) readKeyValue(cursor, this.#metadata, this.#budget);
    else if (this.#tensors.length < this.#nTensors) this.#readTensor();
    else return false;
    return true;
  }

  #readStart(): void {
    const cursor = this.#cursor;
    if (!isGgufMagic(cursor.peek(4))) {
      const text = `${this.#name} is not GGUF, it looks like ${describeBytes(cursor.peek(256))}`;
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
    const { pos } = this.#cursor;
    const tensor = readTensorInfo(this.#cursor, this.#tensorByName);
    this.#infoAt.push(pos);
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
