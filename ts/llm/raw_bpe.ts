// Byte-pair encoding on characters, as Gemma 4 and its relatives have it: blanks are U+2581, lines are cut apart, characters
// joined by rank; one that is no token is spelt in its bytes.

import { RankJoiner } from "./bpe.ts";
import { Merger } from "./merge.ts";
import type { Metadata } from "./metadata.ts";
import { byteTokens, marked, unmarked } from "./spm.ts";
import type { Splitter } from "./splitter.ts";
import type { Vocab } from "./vocab.ts";

const NEWLINE = 0x0a;

/** Splits by merge rules over characters. */
export class RawBpe implements Splitter {
  readonly #vocab: Vocab;
  readonly #byteIds: Int32Array;
  readonly #unk: number;
  readonly #merger: Merger;
  /** a run of newlines that is a token is that token */
  readonly #wholeNewlines: boolean;

  /** @throws {FormatError} missing-key, bad-type, bad-value */
  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    this.#vocab = vocab;
    this.#unk = unk;
    this.#byteIds = byteTokens(vocab);
    this.#merger = new Merger(new RankJoiner(meta, vocab));
    this.#wholeNewlines = [meta.str("tokenizer.ggml.model"), meta.str("tokenizer.ggml.pre", "")].includes(
      "gemma4",
    );
  }

  split(plain: Uint8Array, out: number[]): void {
    const text = marked(plain, false);
    for (let from = 0, to = 0; from < text.length; from = to) {
      const isBreak = text[from] === NEWLINE;
      while (to < text.length && (text[to] === NEWLINE) === isBreak) to++;
      const whole = isBreak && this.#wholeNewlines ? this.#vocab.find(text, from, to) : -1;
      if (whole >= 0) out.push(whole);
      else this.#splitRun(text.subarray(from, to), out);
    }
  }

  print(text: Uint8Array): Uint8Array {
    return unmarked(text);
  }

  #splitRun(text: Uint8Array, out: number[]): void {
    const merger = this.#merger;
    merger.runCharacters(text, this.#vocab);
    for (let at = 0; at < text.length; at += merger.size(at)) {
      const id = merger.id(at);
      if (id >= 0) out.push(id);
      else this.#spell(text.subarray(at, at + merger.size(at)), out);
    }
  }

  // The bytes of a character; a byte without a token is the unknown token, or dropped when there is none.
  #spell(character: Uint8Array, out: number[]): void {
    for (const byte of character) {
      const id = this.#byteIds[byte]! >= 0 ? this.#byteIds[byte]! : this.#unk;
      if (id >= 0) out.push(id);
    }
  }
}
