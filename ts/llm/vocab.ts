// The token table: texts as bytes in one buffer, kinds, and a hash table from bytes to id.

import { FormatError } from "../errors.ts";
import { type Metadata, type StringList, missingKey } from "./metadata.ts";
import { bytesOf, textOf } from "./utf8.ts";

/** Kinds of tokens, GGUF's numbers (tokenizer.ggml.token_type). */
export const NORMAL = 1;
export const UNKNOWN = 2;
export const CONTROL = 3;
export const USER_DEFINED = 4;
export const UNUSED = 5;
export const BYTE = 6;

/**
 * Token texts. Texts are bytes, not strings: some vocabularies hold pieces of characters.
 *
 *     bytes   | text 0 | text 1 | ...          start[i] .. start[i + 1]
 *     slots   open addressing, id + 1 per slot, 0 = free; a power of two, at most half full
 */
export class Vocab {
  readonly size: number;
  /** kind per id; may be changed while a tokenizer is set up */
  readonly types: Uint8Array;
  /** bytes of the longest text */
  readonly longest: number;
  readonly #bytes: Uint8Array;
  readonly #start: Int32Array;
  readonly #slots: Int32Array;

  constructor(texts: StringList, types: Uint8Array) {
    this.size = texts.length;
    this.types = types;
    this.#start = new Int32Array(this.size + 1);
    this.#bytes = pack(texts, this.#start);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(this.size + 1) + 1));
    this.longest = this.#index();
  }

  /** Text of a token, without a copy. */
  bytes(id: number): Uint8Array {
    return this.#bytes.subarray(this.#start[id]!, this.#start[id + 1]!);
  }

  /** Bytes in a token's text. */
  length(id: number): number {
    return this.#start[id + 1]! - this.#start[id]!;
  }

  /** Byte i of a token's text; -1 past its end. */
  byteAt(id: number, i: number): number {
    return i < this.length(id) ? this.#bytes[this.#start[id]! + i]! : -1;
  }

  /** Order of two texts by their bytes: below 0, 0 or above. */
  compare(a: number, b: number): number {
    for (let i = 0; ; i++) {
      const [x, y] = [this.byteAt(a, i), this.byteAt(b, i)];
      if (x !== y || x < 0) return x - y;
    }
  }

  /** Text of a token as a string; broken UTF-8 becomes U+FFFD. */
  text(id: number): string {
    return textOf(this.bytes(id));
  }

  /** Lowest id whose text is `text[from .. to)`; -1 when there is none. Empty texts are never found. */
  find(text: Uint8Array, from: number, to: number): number {
    if (to - from > this.longest) return -1;
    const mask = this.#slots.length - 1;
    for (let slot = hash(text, from, to) & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot]! - 1;
      if (id < 0 || this.#equals(id, text, from, to)) return id;
    }
  }

  /** Id of a text given as a string; -1 when there is none. */
  idOf(text: string): number {
    const bytes = bytesOf(text);
    return this.find(bytes, 0, bytes.length);
  }

  /** Enters all texts; the first of equal texts stays. Returns the longest length. */
  #index(): number {
    const mask = this.#slots.length - 1;
    let longest = 0;
    for (let id = 0; id < this.size; id++) {
      const from = this.#start[id]!;
      const to = this.#start[id + 1]!;
      if (from === to) continue;
      longest = Math.max(longest, to - from);
      let slot = hash(this.#bytes, from, to) & mask;
      while (this.#slots[slot] !== 0 && !this.#equals(this.#slots[slot]! - 1, this.#bytes, from, to))
        slot = (slot + 1) & mask;
      if (this.#slots[slot] === 0) this.#slots[slot] = id + 1;
    }
    return longest;
  }

  #equals(id: number, text: Uint8Array, from: number, to: number): boolean {
    const start = this.#start[id]!;
    if (this.#start[id + 1]! - start !== to - from) return false;
    for (let i = from; i < to; i++) if (text[i] !== this.#bytes[start + i - from]) return false;
    return true;
  }
}

/** FNV-1a with a final mix, so that low bits depend on all bytes. */
function hash(text: Uint8Array, from: number, to: number): number {
  let h = 0x811c9dc5;
  for (let i = from; i < to; i++) h = Math.imul(h ^ text[i]!, 0x01000193);
  return (h ^ (h >>> 15)) >>> 0;
}

function pack(texts: StringList, start: Int32Array): Uint8Array {
  for (let i = 0; i < texts.length; i++) start[i + 1] = start[i]! + texts.bytes(i).length;
  const bytes = new Uint8Array(start[texts.length]!);
  for (let i = 0; i < texts.length; i++) bytes.set(texts.bytes(i), start[i]!);
  return bytes;
}

/**
 * Reads the token list and kinds.
 *
 * @throws {FormatError} missing-key, bad-type, bad-value, vocab-mismatch
 */
export function readVocab(meta: Metadata): Vocab {
  const key = "tokenizer.ggml.tokens";
  const texts = meta.strings(key);
  if (texts === undefined) throw missingKey(key);
  if (texts.length === 0) throw new FormatError("vocab-mismatch", `${key}: empty`, { key });
  return new Vocab(texts, readTypes(meta, texts.length));
}

function readTypes(meta: Metadata, size: number): Uint8Array {
  const key = "tokenizer.ggml.token_type";
  const list = meta.i32s(key);
  const types = new Uint8Array(size).fill(NORMAL);
  if (list === undefined) return types;
  checkLength(key, list.length, size);
  for (let i = 0; i < size; i++) {
    const type = list[i]!;
    if (!(type >= 0 && type <= BYTE)) {
      throw new FormatError("bad-value", `${key}[${i}]: ${type} is not a token type (0..${BYTE})`, {
        key,
        actual: type,
      });
    }
    types[i] = type === 0 ? NORMAL : type;
  }
  return types;
}

/** @throws {FormatError} vocab-mismatch when a per-token list is shorter than the token list */
export function checkLength(key: string, actual: number, size: number): void {
  if (actual >= size) return;
  throw new FormatError("vocab-mismatch", `${key}: ${actual} entries for ${size} tokens`, {
    key,
    expected: size,
    actual,
  });
}
