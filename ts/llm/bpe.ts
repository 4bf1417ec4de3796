// Byte-level byte-pair encoding: words by the pre-tokenizer's rules, bytes written as printable characters, pairs joined by rank.
//
// Not by @huggingface/tokenizers: it keeps two strings and a JSON text per merge rule and looks pairs up by them
// (docs/decisions/0010-tokenizers.md).

import { FormatError } from "../errors.ts";
import { type Joiner, Merger } from "./merge.ts";
import { type Metadata, type StringList, missingKey } from "./metadata.ts";
import { type PreTokenizer, preTokenizer } from "./pretokenizer.ts";
import type { Splitter } from "./splitter.ts";
import { bytesOf, textOf } from "./utf8.ts";
import type { Vocab } from "./vocab.ts";

/**
 * The character that stands for each byte: itself where it can be printed, else U+0100, U+0101, ... in order.
 */
const CHARACTERS: readonly string[] = ((): string[] => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
    return String.fromCharCode(printable ? byte : next++);
  });
})();
/** Byte by code point; -1 for code points that stand for none. */
const BYTES: Int16Array = ((): Int16Array => {
  const bytes = new Int16Array(0x144).fill(-1);
  for (const [byte, character] of CHARACTERS.entries()) bytes[character.charCodeAt(0)] = byte;
  return bytes;
})();

/** Splits by merge rules. */
export class Bpe implements Splitter {
  readonly pre: PreTokenizer;
  readonly #vocab: Vocab;
  readonly #byteIds: Int32Array;
  readonly #unk: number;
  readonly #merger: Merger;

  /** @throws {FormatError} missing-key, bad-type, bad-value, unsupported-tokenizer */
  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    this.pre = preTokenizer(meta);
    this.#vocab = vocab;
    this.#unk = unk;
    this.#byteIds = Int32Array.from(CHARACTERS, (character) => vocab.idOf(character));
    this.#merger = new Merger(new RankJoiner(meta, vocab));
  }

  split(text: Uint8Array, out: number[]): void {
    for (const word of this.pre.words(textOf(text))) this.#splitWord(word, out);
  }

  #splitWord(word: string, out: number[]): void {
    const bytes = bytesOf(word);
    const whole = this.pre.wholeWords ? this.#vocab.idOf(written(bytes)) : -1;
    if (whole >= 0) return void out.push(whole);
    const merger = this.#merger;
    merger.reset(bytes.length);
    for (const byte of bytes) merger.add(1, this.#byteIds[byte]!);
    merger.run(bytes);
    for (let at = 0; at < bytes.length; at += merger.size(at)) {
      const id = merger.id(at);
      if (id >= 0) out.push(id);
      else if (this.#unk >= 0) out.push(this.#unk); // a byte without a token; dropped when there is no unknown token either
    }
  }

  print(text: Uint8Array): Uint8Array {
    const out = new Uint8Array(text.length);
    let n = 0;
    for (let i = 0; i < text.length; i++) {
      const lead = text[i]!;
      const code = lead < 0x80 ? lead : ((lead & 0x1f) << 6) | (text[++i]! & 0x3f); // at most U+0143: two bytes
      const byte = lead < 0xc6 ? (BYTES[code] ?? -1) : -1;
      if (byte < 0) return text; // not written in these characters
      out[n++] = byte;
    }
    return out.subarray(0, n);
  }
}

/** Bytes as the characters that stand for them. */
function written(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += CHARACTERS[byte]!;
  return text;
}

/**
 * Merge rules, by the ids of their parts.
 *
 *     left, right, result   per rank
 *     slots                 open addressing by both ids, rank + 1 per slot, 0 = free; at most half full
 */
export class RankJoiner implements Joiner {
  priority = 0;
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #result: Int32Array;
  readonly #slots: Int32Array;

  constructor(meta: Metadata, vocab: Vocab) {
    const key = "tokenizer.ggml.merges";
    const rules = meta.strings(key);
    if (rules === undefined) throw missingKey(key);
    this.#left = new Int32Array(rules.length);
    this.#right = new Int32Array(rules.length);
    this.#result = new Int32Array(rules.length);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(rules.length + 1) + 1));
    for (let rank = 0; rank < rules.length; rank++) this.#enter(rules, rank, vocab, key);
  }

  join(_text: Uint8Array, _from: number, _middle: number, _to: number, left: number, right: number): number {
    const rank = this.#slots[this.#slot(left, right)]! - 1;
    if (rank < 0) return -1;
    this.priority = -rank;
    return this.#result[rank]!;
  }

  /** A rule is "left right", parted at the first blank that is not its first byte. Of equal rules the first counts. */
  #enter(rules: StringList, rank: number, vocab: Vocab, key: string): void {
    const rule = rules.bytes(rank);
    const blank = rule.indexOf(0x20, 1);
    const joined = rule.slice();
    joined.copyWithin(blank, blank + 1);
    const left = vocab.find(rule, 0, blank);
    const right = vocab.find(rule, blank + 1, rule.length);
    const result = vocab.find(joined, 0, joined.length - 1);
    if (blank < 0 || left < 0 || right < 0 || result < 0) {
      throw new FormatError(
        "bad-value",
        `${key}[${rank}]: "${textOf(rule)}": both parts and the whole must be tokens`,
        { key },
      );
    }
    this.#left[rank] = left;
    this.#right[rank] = right;
    this.#result[rank] = result;
    const slot = this.#slot(left, right);
    if (this.#slots[slot] === 0) this.#slots[slot] = rank + 1;
  }

  /** Slot of a pair, or the free one where it would be. */
  #slot(left: number, right: number): number {
    const mask = this.#slots.length - 1;
    let h = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    h ^= h >>> 15;
    for (let slot = h & mask; ; slot = (slot + 1) & mask) {
      const rank = this.#slots[slot]! - 1;
      if (rank < 0 || (this.#left[rank] === left && this.#right[rank] === right)) return slot;
    }
  }
}
