// A position in the header: little-endian reads that never pass the end, and the errors that say where.

import { type ErrorDetails, type FormatCode, FormatError } from "../errors.ts";
import { ABSURD, MAX_HEADER_BYTES } from "./limits.ts";

const EMPTY = new Uint8Array(0);

/**
 * Thrown when the bytes at hand end before the file does: do the step again with those up to `need` at least. `hint`
 * is where the step may well end.
 */
export class Underrun {
  readonly need: number;
  readonly hint: number;

  constructor(need: number, hint: number = need) {
    this.need = need;
    this.hint = hint;
  }
}

/**
 * Reads the start of a file of which only a window is at hand:
 *
 *     0 ........ #base ......... pos ............ #base + #bytes.length ........... size
 *     read and forgotten | at hand                | still to come
 *
 * `size` is the whole file's; undefined while nobody knows it (a stream without a length).
 */
export class Cursor {
  /** byte position in the file */
  pos = 0;
  /** metadata key being read, for errors */
  key: string | undefined;
  /** tensor being read, for errors */
  tensor: string | undefined;
  #bytes: Uint8Array = EMPTY;
  #view: DataView = new DataView(EMPTY.buffer);
  #base = 0;
  #size: number | undefined;

  /** Puts the bytes of the file from `base` on at hand. */
  refill(lent: Uint8Array, base: number, size: number | undefined): void {
    // Text cannot be decoded from shared memory.
    const bytes = lent.buffer instanceof ArrayBuffer ? lent : new Uint8Array(lent);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#base = base;
    this.#size = size;
  }

  /** Bytes of the whole file, as far as known. */
  get size(): number | undefined {
    return this.#size;
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  /** A u64 as a double: exact below 2^53, and above it still above every bound. */
  u64number(): number {
    const at = this.#advance(8);
    return this.#view.getUint32(at + 4, true) * 2 ** 32 + this.#view.getUint32(at, true);
  }

  /** The next `n` bytes at hand. They are the source's: copy what is kept. */
  take(n: number): Uint8Array {
    const at = this.#advance(n);
    return this.#bytes.subarray(at, at + n);
  }

  /** A view of the next `n` bytes. */
  takeView(n: number): DataView {
    const at = this.#advance(n);
    return new DataView(this.#view.buffer, this.#view.byteOffset + at, n);
  }

  skip(n: number): void {
    this.#advance(n);
  }

  /** Up to `n` of the bytes at hand; the position stays. */
  peek(n: number): Uint8Array {
    const at = this.pos - this.#base;
    return this.#bytes.subarray(at, at + n);
  }

  /** Passes over strings: a length and that many bytes, `count` times. */
  skipStrings(count: number): void {
    const start = this.pos;
    let i = 0;
    try {
      for (; i < count; i++) this.skip(this.length("string length"));
    } catch (error) {
      if (!(error instanceof Underrun) || i === 0) throw error;
      // Where the last would end if all were like those at hand, and half as much again: later tokens are longer.
      const average = (this.pos - start) / i;
      throw new Underrun(error.need, Math.ceil(start + 1.5 * average * count));
    }
  }

  /** A u64 byte length that fits in the rest of the file. */
  length(what: string): number {
    const at = this.pos;
    const n = this.u64number();
    if (n > this.#rest()) this.#tooLong(at, what, n, n);
    return n;
  }

  /** A u64 count of things of at least `minBytes` each that fit in the rest of the file; the last reports itself. */
  count(what: string, minBytes: number, max: number): number {
    const at = this.pos;
    const n = this.u64number();
    if ((n - 1) * minBytes > this.#rest()) this.#tooLong(at, what, n, n * minBytes);
    if (n > max)
      this.fail("limit", `${what} is ${n}, at most ${max} are read`, at, { expected: max, actual: n });
    return n;
  }

  /** @throws {FormatError} always, with position, key and tensor */
  fail(code: FormatCode, text: string, offset: number = this.pos, more: ErrorDetails = {}): never {
    const { key, tensor } = this;
    const subject = tensor !== undefined ? `tensor "${tensor}"` : key !== undefined ? `key "${key}"` : "gguf";
    const details = {
      ...more,
      offset,
      ...(key === undefined ? {} : { key }),
      ...(tensor === undefined ? {} : { tensor }),
    };
    throw new FormatError(code, `${subject}: ${text} (byte ${offset})`, details);
  }

  /** Moves on by `n` bytes and returns where they start in the window. */
  #advance(n: number): number {
    const at = this.pos - this.#base;
    if (at + n > this.#bytes.length) this.#short(this.pos + n);
    this.pos += n;
    return at;
  }

  #short(need: number): never {
    if (this.#size !== undefined && need > this.#size) {
      const text = `the file ends after ${this.#size} bytes, at least ${need} are needed`;
      this.fail("truncated", text, this.pos, { expected: need, actual: this.#size });
    }
    if (need > MAX_HEADER_BYTES) this.fail("limit", `the header is longer than ${MAX_HEADER_BYTES} bytes`);
    throw new Underrun(need);
  }

  /** Bytes a declared length may still take. */
  #rest(): number {
    return Math.min(this.#size ?? MAX_HEADER_BYTES, MAX_HEADER_BYTES) - this.pos;
  }

  #tooLong(at: number, what: string, n: number, nBytes: number): never {
    const fits = this.#size !== undefined && nBytes <= this.#size - this.pos;
    const absurd = n >= ABSURD || nBytes >= ABSURD || fits || this.#size === undefined;
    const declared = this.#view.getBigUint64(at - this.#base, true);
    const text = `${what} is ${declared}, but only ${this.#rest()} bytes may follow`;
    this.fail(absurd ? "limit" : "truncated", text, at, { expected: nBytes, actual: this.#rest() });
  }
}
