// SentencePiece as in llama.cpp: two neighbours are joined when together they are a token, best score first.
//
// Not by @huggingface/tokenizers: its BPE ranks pairs of texts, so two pairs that make the same token, or tokens of equal score, are
// not taken from the left as the rule demands; and it holds texts as strings, but tokens may be pieces of characters.
// Figures: docs/decisions/0010-tokenizers.md.

import { FormatError } from "../errors.ts";
import { type Joiner, Merger } from "./merge.ts";
import type { Metadata } from "./metadata.ts";
import type { Splitter } from "./splitter.ts";
import { type Vocab, checkLength } from "./vocab.ts";

/** U+2581 in UTF-8: how vocabularies write a blank. */
const MARK = [0xe2, 0x96, 0x81] as const;
const BLANK = 0x20;

/** Splits by scores. */
export class Spm implements Splitter {
  readonly #vocab: Vocab;
  readonly #byteIds: Int32Array;
  readonly #unk: number;
  readonly #merger: Merger;
  readonly #prefix: boolean;

  /** @throws {FormatError} bad-type, vocab-mismatch; unsupported-tokenizer when some text could not be encoded at all */
  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    this.#prefix = spacePrefix(meta);
    this.#vocab = vocab;
    this.#byteIds = byteTokens(vocab);
    this.#unk = unk;
    this.#merger = new Merger(new ScoreJoiner(meta, vocab));
    if (unk < 0 && this.#byteIds.includes(-1)) {
      throw new FormatError(
        "unsupported-tokenizer",
        "llama: neither tokens for all bytes nor an unknown token",
      );
    }
  }

  split(plain: Uint8Array, out: number[]): void {
    const text = marked(plain, this.#prefix);
    const merger = this.#merger;
    merger.runCharacters(text, this.#vocab);
    for (let at = 0; at < text.length; at += merger.size(at)) {
      const id = merger.id(at);
      if (id >= 0) out.push(id);
      else this.#spell(text, at, at + merger.size(at), out);
    }
  }

  print(text: Uint8Array): Uint8Array {
    return unmarked(text);
  }

  /** A character that is no token: its bytes, or one unknown token where a byte has no token. */
  #spell(text: Uint8Array, from: number, to: number, out: number[]): void {
    for (let i = from; i < to; i++) if (this.#byteIds[text[i]!]! < 0) return void out.push(this.#unk);
    for (let i = from; i < to; i++) out.push(this.#byteIds[text[i]!]!);
  }
}

/** Two symbols join when their bytes together are a token, of any kind. */
class ScoreJoiner implements Joiner {
  priority = 0;
  readonly #vocab: Vocab;
  readonly #scores: ArrayLike<number> | undefined;

  constructor(meta: Metadata, vocab: Vocab) {
    const key = "tokenizer.ggml.scores";
    this.#vocab = vocab;
    this.#scores = meta.f32s(key);
    if (this.#scores !== undefined) checkLength(key, this.#scores.length, vocab.size);
  }

  join(text: Uint8Array, from: number, _middle: number, to: number): number {
    const id = this.#vocab.find(text, from, to);
    if (id >= 0) this.priority = this.#scores?.[id] ?? 0;
    return id;
  }
}

/** Is a blank put before a text? */
export function spacePrefix(meta: Metadata): boolean {
  return meta.bool("tokenizer.ggml.add_space_prefix", true);
}

/** Blanks to U+2581; `prefix` puts one more before the text. */
export function marked(text: Uint8Array, prefix: boolean): Uint8Array {
  let blanks = prefix ? 1 : 0;
  for (const byte of text) if (byte === BLANK) blanks++;
  const out = new Uint8Array(text.length + 2 * blanks + (prefix ? 1 : 0));
  if (prefix) out.set(MARK);
  let n = prefix ? MARK.length : 0;
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

/** Ids of the 256 bytes: "<0xHH>", else the token of that single byte, else -1. */
export function byteTokens(vocab: Vocab): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    const id = vocab.idOf(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    return id >= 0 ? id : vocab.find(Uint8Array.of(byte), 0, 1);
  });
}
