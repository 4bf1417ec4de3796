// SentencePiece as in llama.cpp: joins neighbouring symbols, best score first, until no pair is a token.
//
// Written here and not taken from @huggingface/tokenizers, whose BPE ranks *pairs* of texts: two pairs that join to the same token get different
// ranks (the rule is: equal scores, so the leftmost), the ranks must first be derived from all splits of all tokens, and texts that
// are not UTF-8 cannot be given to it.

import { FormatError } from "../errors.ts";
import type { Metadata } from "./metadata.ts";
import type { Splitter } from "./splitter.ts";
import { type Vocab, checkLength } from "./vocab.ts";

/** U+2581 in UTF-8: how vocabularies write a blank. */
const MARK = [0xe2, 0x96, 0x81] as const;
const BLANK = 0x20;

/**
 * Symbols are a doubly linked list over the bytes of the text: `size[i]` bytes at i, 0 when swallowed by the symbol on its left.
 * Candidate pairs wait in a heap. A pair is stale when the bytes it was made of have changed, which the sum of both sizes tells.
 */
export class Spm implements Splitter {
  readonly #vocab: Vocab;
  readonly #scores: ArrayLike<number> | undefined;
  readonly #byteIds: Int32Array;
  readonly #unk: number;
  readonly #heap: PairHeap = new PairHeap();

  /** @throws {FormatError} bad-type, vocab-mismatch; unsupported-tokenizer when some text could not be encoded at all */
  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    const key = "tokenizer.ggml.scores";
    this.#vocab = vocab;
    this.#scores = meta.f32s(key);
    if (this.#scores !== undefined) checkLength(key, this.#scores.length, vocab.size);
    this.#byteIds = byteTokens(vocab);
    this.#unk = unk;
    if (unk < 0 && this.#byteIds.includes(-1)) {
      throw new FormatError(
        "unsupported-tokenizer",
        "llama: neither tokens for all bytes nor an unknown token",
      );
    }
  }

  split(plain: Uint8Array, out: number[]): void {
    const text = marked(plain);
    const n = text.length;
    const size = new Int32Array(n);
    const prev = new Int32Array(n);
    firstSymbols(text, size, prev);
    this.#merge(text, size, prev);
    for (let i = 0; i < n; i += size[i]!) this.#emit(text, i, i + size[i]!, out);
  }

  print(text: Uint8Array): Uint8Array {
    return unmarked(text);
  }

  #merge(text: Uint8Array, size: Int32Array, prev: Int32Array): void {
    const heap = this.#heap;
    heap.clear();
    for (let i = size[0]!; i < text.length; i += size[i]!) this.#offer(text, prev[i]!, size);
    while (heap.pop()) {
      const left = heap.left;
      const right = left + size[left]!;
      if (size[left] === 0 || right >= text.length || size[left]! + size[right]! !== heap.bytes) continue;
      size[left] = heap.bytes;
      size[right] = 0;
      const next = left + heap.bytes;
      if (next < text.length) prev[next] = left;
      if (left > 0) this.#offer(text, prev[left]!, size);
      if (next < text.length) this.#offer(text, left, size);
    }
  }

  /** Puts the pair of the symbol at `left` and its right neighbour in the heap if together they are a token. */
  #offer(text: Uint8Array, left: number, size: Int32Array): void {
    const right = left + size[left]!;
    const id = this.#vocab.find(text, left, right + size[right]!);
    if (id >= 0) this.#heap.push(this.#scores?.[id] ?? 0, left, size[left]! + size[right]!);
  }

  /** A symbol that is no token is one character: its bytes, or one unknown token where a byte has no token. */
  #emit(text: Uint8Array, from: number, to: number, out: number[]): void {
    const id = this.#vocab.find(text, from, to);
    if (id >= 0) return void out.push(id);
    for (let i = from; i < to; i++) if (this.#byteIds[text[i]!]! < 0) return void out.push(this.#unk);
    for (let i = from; i < to; i++) out.push(this.#byteIds[text[i]!]!);
  }
}

/** Blanks to U+2581. */
function marked(text: Uint8Array): Uint8Array {
  let blanks = 0;
  for (const byte of text) if (byte === BLANK) blanks++;
  const out = new Uint8Array(text.length + 2 * blanks);
  let n = 0;
  for (const byte of text) {
    if (byte !== BLANK) out[n++] = byte;
    else for (const part of MARK) out[n++] = part;
  }
  return out;
}

/** U+2581 to blanks. */
export function unmarked(text: Uint8Array): Uint8Array {
  const out = new Uint8Array(text.length);
  let n = 0;
  for (let i = 0; i < text.length; i++) {
    const mark = text[i] === MARK[0] && text[i + 1] === MARK[1] && text[i + 2] === MARK[2];
    out[n++] = mark ? BLANK : text[i]!;
    if (mark) i += 2;
  }
  return out.subarray(0, n);
}

/** One symbol per UTF-8 character. */
function firstSymbols(text: Uint8Array, size: Int32Array, prev: Int32Array): void {
  let before = 0;
  for (let i = 0; i < text.length; i += size[i]!) {
    const lead = text[i]!;
    const length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    size[i] = Math.min(length, text.length - i);
    prev[i] = before;
    before = i;
  }
}

/** Ids of the 256 bytes: "<0xHH>", else the token of that single byte, else -1. */
function byteTokens(vocab: Vocab): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    const id = vocab.idOf(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    return id >= 0 ? id : vocab.find(Uint8Array.of(byte), 0, 1);
  });
}

/** Binary heap of pairs in flat arrays: highest score first, then leftmost. Pop leaves the pair in `left` and `bytes`. */
class PairHeap {
  left = 0;
  bytes = 0;
  #n = 0;
  #score = new Float64Array(64);
  #left = new Int32Array(64);
  #bytes = new Int32Array(64);

  /** Empties the heap; what a long text needed is given back. */
  clear(): void {
    this.#n = 0;
    if (this.#left.length > 1 << 16) this.#resize(64);
  }

  push(score: number, left: number, bytes: number): void {
    if (this.#n === this.#left.length) this.#resize(2 * this.#n);
    let i = this.#n++;
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (!before(score, left, this.#score[up]!, this.#left[up]!)) break;
      this.#move(up, i);
      i = up;
    }
    this.#set(i, score, left, bytes);
  }

  pop(): boolean {
    if (this.#n === 0) return false;
    this.left = this.#left[0]!;
    this.bytes = this.#bytes[0]!;
    const last = --this.#n;
    this.#sink(this.#score[last]!, this.#left[last]!, this.#bytes[last]!);
    return true;
  }

  /** Finds the place for a pair from the root down. */
  #sink(score: number, left: number, bytes: number): void {
    let i = 0;
    for (let child = 1; child < this.#n; child = 2 * i + 1) {
      const right = child + 1;
      if (
        right < this.#n &&
        before(this.#score[right]!, this.#left[right]!, this.#score[child]!, this.#left[child]!)
      )
        child = right;
      if (!before(this.#score[child]!, this.#left[child]!, score, left)) break;
      this.#move(child, i);
      i = child;
    }
    this.#set(i, score, left, bytes);
  }

  #move(from: number, to: number): void {
    this.#set(to, this.#score[from]!, this.#left[from]!, this.#bytes[from]!);
  }

  #set(i: number, score: number, left: number, bytes: number): void {
    this.#score[i] = score;
    this.#left[i] = left;
    this.#bytes[i] = bytes;
  }

  #resize(n: number): void {
    this.#score = grown(this.#score, new Float64Array(n));
    this.#left = grown(this.#left, new Int32Array(n));
    this.#bytes = grown(this.#bytes, new Int32Array(n));
  }
}

function before(score: number, left: number, otherScore: number, otherLeft: number): boolean {
  return score > otherScore || (score === otherScore && left < otherLeft);
}

function grown<A extends Float64Array | Int32Array>(from: A, to: A): A {
  to.set(from.length > to.length ? from.subarray(0, 0) : from);
  return to;
}
