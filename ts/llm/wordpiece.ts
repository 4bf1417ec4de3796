// WordPiece as in llama.cpp: words of letters, marks of punctuation and ideographs apart; each word by its longest known parts.
//
// The vocabulary has "▁word" for what begins a word and the bare text for what goes on.

import type { Metadata } from "./metadata.ts";
import { unmarked } from "./spm.ts";
import type { Splitter } from "./splitter.ts";
import { bytesOf, textOf } from "./utf8.ts";
import type { Vocab } from "./vocab.ts";

const SPACE = /^\s$/u;
const DROPPED = /^[\0\ufffd\p{Cc}\p{Cf}\p{Co}\p{Cs}]$/u;
const ACCENT = /^\p{Mn}$/u;
/** Punctuation, the symbols of ASCII, and Chinese ideographs stand alone. */
const ALONE =
  /^[\p{P}$+<=>^`|~\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]$/u;

/** Splits by longest match; a word of which some part is unknown becomes one unknown token. */
export class WordPiece implements Splitter {
  readonly #vocab: Vocab;
  readonly #unk: number;
  readonly #lowercase: boolean;
  readonly #stripAccents: boolean;

  constructor(meta: Metadata, vocab: Vocab, unk: number) {
    this.#vocab = vocab;
    this.#unk = unk;
    this.#lowercase = meta.bool("tokenizer.ggml.normalizer.lowercase", true);
    this.#stripAccents = meta.bool("tokenizer.ggml.normalizer.strip_accents", this.#lowercase);
  }

  split(text: Uint8Array, out: number[]): void {
    for (const word of this.#words(textOf(text))) this.#splitWord(word, out);
  }

  print(text: Uint8Array): Uint8Array {
    return unmarked(text);
  }

  #words(text: string): string[] {
    const words: string[] = [];
    let word = "";
    const end = (): void => {
      if (word !== "") words.push(word);
      word = "";
    };
    for (const character of this.#stripAccents ? text.normalize("NFD") : text) {
      if (SPACE.test(character)) end();
      else if (DROPPED.test(character) || (this.#stripAccents && ACCENT.test(character))) continue;
      else if (ALONE.test(character)) {
        end();
        words.push(this.#lower(character));
      } else word += this.#lower(character);
    }
    end();
    return words;
  }

  /** Only mappings of one character to one. */
  #lower(character: string): string {
    if (!this.#lowercase) return character;
    const lower = character.toLowerCase();
    return lower.length === character.length ? lower : character;
  }

  #splitWord(word: string, out: number[]): void {
    const bytes = bytesOf(`▁${word}`);
    const before = out.length;
    for (let at = 0; at < bytes.length;) {
      let to = Math.min(bytes.length, at + this.#vocab.longest);
      let id = this.#vocab.find(bytes, at, to);
      while (id < 0 && to > at + 1) id = this.#vocab.find(bytes, at, --to);
      if (id < 0) {
        out.length = before;
        if (this.#unk >= 0) out.push(this.#unk);
        return;
      }
      out.push(id);
      at = to;
    }
  }
}

/** Takes away the blanks that a list of words has before punctuation and in English contractions. */
export function cleanSpaces(text: string): string {
  return text
    .replace(/ ([?!.,])/g, "$1")
    .replace(/ ' /g, "'")
    .replace(/ '(?=s|m|re|ve)/g, "'");
}
