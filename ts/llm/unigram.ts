// Unigram as in SentencePiece (T5, XLM-RoBERTa, bge-m3, multilingual-e5): of all ways to cut a text into tokens, the one
// with the greatest sum of scores.

import { FormatError } from "../errors.ts";
import { Charsmap } from "./charsmap.ts";
import type { Metadata } from "./metadata.ts";
import { unmarked } from "./spm.ts";
import type { Splitter } from "./splitter.ts";
import { characterBytes, validCharacter } from "./utf8.ts";
import { checkLength, NORMAL, UNUSED, USER_DEFINED, type Vocab } from "./vocab.ts";

/** U+2581 and U+FFFD in UTF-8. */
const MARK: readonly number[] = [0xe2, 0x96, 0x81];
const REPLACED = Uint8Array.of(0xef, 0xbf, 0xbd);
const BLANK = 0x20;
/** An unknown character costs so much more than the worst token. */
const UNKNOWN_COST = 10;
/** Bytes of a token's text at most: the longest published ones have some dozens. */
const MAX_TOKEN = 1024;

/** Splits by the greatest sum of scores. */
export class Unigram implements Splitter {
  readonly #vocab: Vocab;
  readonly #unk: number;
  readonly #scores: ArrayLike<number> | undefined;
  readonly #unknownScore: number;
  readonly #charsmap: Charsmap | undefined;
  readonly #prefix: boolean;
  readonly #mergeBlanks: boolean;
  /** tokens that text is made of, sorted by their bytes; made when a text comes */
  #sorted: Int32Array | undefined;

  /** @throws {FormatError} bad-type, bad-value, vocab-mismatch; unsupported-tokenizer without an unknown token */
  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    const key = "tokenizer.ggml.scores";
    this.#vocab = vocab;
    this.#unk = unk;
    this.#scores = meta.f32s(key);
    if (this.#scores !== undefined) checkLength(key, this.#scores.length, vocab.size);
    this.#charsmap = Charsmap.read(meta);
    this.#prefix = meta.bool("tokenizer.ggml.add_space_prefix", false);
    this.#mergeBlanks = meta.bool("tokenizer.ggml.remove_extra_whitespaces", false);
    if (unk < 0) throw new FormatError("unsupported-tokenizer", "t5: no token for what is unknown");
    if (vocab.longest > MAX_TOKEN) {
      const text = `tokenizer.ggml.tokens: a text of ${vocab.longest} bytes, at most ${MAX_TOKEN} are taken`;
      throw new FormatError("bad-value", text, { key: "tokenizer.ggml.tokens", actual: vocab.longest });
    }
    let least = Infinity;
    for (let id = 0; id < vocab.size; id++)
      if (vocab.types[id] === NORMAL) least = Math.min(least, this.#score(id));
    this.#unknownScore = (least === Infinity ? 0 : least) - UNKNOWN_COST;
  }

  split(plain: Uint8Array, out: number[]): void {
    const text = this.#normal(plain);
    const n = text.length;
    const best = new Float64Array(n + 1).fill(-Infinity); // greatest sum up to here
    const from = new Int32Array(n + 1); // where its last token begins
    const ids = new Int32Array(n + 1).fill(this.#unk);
    best[0] = 0;
    for (let at = 0; at < n;) {
      const size = characterBytes(text, at);
      const offer = (to: number, id: number, score: number): void => {
        if (!(best[at]! + score > best[to]!)) return;
        best[to] = best[at]! + score;
        from[to] = at;
        ids[to] = id;
      };
      if (!this.#tokensAt(text, at, size, offer)) offer(at + size, this.#unk, this.#unknownScore);
      at += size;
    }
    this.#trace(n, from, ids, out);
  }

  print(text: Uint8Array): Uint8Array {
    return unmarked(text);
  }

  // The tokens from the end to the start; neighbours that are unknown are one.
  #trace(n: number, from: Int32Array, ids: Int32Array, out: number[]): void {
    const start = out.length;
    for (let at = n, unknown = false; at > 0; at = from[at]!) {
      const id = ids[at]!;
      if (!(unknown && id === this.#unk)) out.push(id);
      unknown = id === this.#unk;
    }
    for (let i = start, j = out.length - 1; i < j; i++, j--) [out[i], out[j]] = [out[j]!, out[i]!];
  }

  // Offers every token at a place. Was one of them the character there?
  #tokensAt(
    text: Uint8Array,
    at: number,
    size: number,
    offer: (to: number, id: number, score: number) => void,
  ): boolean {
    const ids = (this.#sorted ??= this.#sort());
    let [lo, hi] = [0, ids.length];
    let single = false;
    for (let d = 0; at + d < text.length; d++) {
      lo = this.#lower(ids, lo, hi, d, text[at + d]!);
      hi = this.#lower(ids, lo, hi, d, text[at + d]! + 1);
      if (lo === hi) break;
      const id = ids[lo]!;
      if (this.#vocab.length(id) !== d + 1) continue;
      if (d + 1 === size) single = true;
      offer(at + d + 1, id, this.#vocab.types[id] === USER_DEFINED ? 0 : this.#score(id));
    }
    return single;
  }

  // First of ids[lo .. hi), which agree up to byte d, whose byte d is at least `byte`.
  #lower(ids: Int32Array, lo: number, hi: number, d: number, byte: number): number {
    while (lo < hi) {
      const middle = (lo + hi) >>> 1;
      if (this.#vocab.byteAt(ids[middle]!, d) < byte) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  }

  #sort(): Int32Array {
    const vocab = this.#vocab;
    const ids = Int32Array.from({ length: vocab.size }, (_, id) => id).filter((id) =>
      [NORMAL, USER_DEFINED, UNUSED].includes(vocab.types[id]!),
    );
    return ids.sort((a, b) => vocab.compare(a, b) || a - b);
  }

  #score(id: number): number {
    return this.#scores?.[id] ?? 0;
  }

  // Blanks become U+2581, with one before the text or not, runs of them one or none at the end.
  #normal(plain: Uint8Array): Uint8Array {
    const out: number[] = [];
    let inWord = false;
    let prefixed = false;
    const add = (byte: number): void => {
      if (byte === BLANK) {
        inWord = false;
        if (!this.#mergeBlanks) out.push(...MARK);
        return;
      }
      if (!inWord && ((this.#prefix && !prefixed) || this.#mergeBlanks)) {
        out.push(...MARK);
        prefixed = true;
      }
      inWord = true;
      out.push(byte);
    };
    for (let at = 0; at < plain.length;) {
      const found = this.#charsmap?.longest(plain, at);
      const size = found?.length ?? (validCharacter(plain, at) ? characterBytes(plain, at) : 1);
      const text = found?.text ?? (validCharacter(plain, at) ? plain.subarray(at, at + size) : REPLACED);
      for (const byte of text) add(byte);
      at += size;
    }
    return Uint8Array.from(out);
  }
}
