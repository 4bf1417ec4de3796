// Text to token ids and back, as the file's vocabulary says.

import { FormatError, GraphError, checkOptions } from "../errors.ts";
import { StreamDecoder } from "./decoder.ts";
import type { Metadata } from "./metadata.ts";
import {
  SpecialFinder,
  type SpecialDefaults,
  type SpecialIds,
  byteOf,
  readEog,
  readSpecialIds,
  stripRules,
} from "./special.ts";
import { Spm } from "./spm.ts";
import type { Splitter } from "./splitter.ts";
import { CONTROL, UNKNOWN, UNUSED, USER_DEFINED, type Vocab, readVocab } from "./vocab.ts";

/** How a text is encoded. */
export interface EncodeOptions {
  /** add the start (and end) token where the model wants one; default true */
  readonly addSpecial?: boolean;
  /** texts of control tokens become those tokens; default true. False is safe for what users write */
  readonly parseSpecial?: boolean;
}

/** How ids are decoded. */
export interface DecodeOptions {
  /** also print control tokens; default false */
  readonly special?: boolean;
}

/** Text to token ids and back. */
export interface Tokenizer {
  /** tokenizer.ggml.model: "llama", "gpt2", ... */
  readonly model: string;
  readonly nVocab: number;
  /** ids with a role, -1 = none */
  readonly ids: SpecialIds;
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** a blank is put before a text, and taken off again when decoding */
  readonly addSpacePrefix: boolean;
  /** ids that must never be sampled */
  readonly suppressed: readonly number[];
  /** Ids of a text. Lone surrogates count as U+FFFD. @throws {TypeError} for a misspelt option */
  encode(text: string, options?: EncodeOptions): number[];
  /**
   * Text of ids: control tokens left out, the blank put before the text taken off, broken UTF-8 as U+FFFD.
   *
   * @throws {GraphError} token-range; TypeError for a misspelt option
   */
  decode(ids: ArrayLike<number>, options?: DecodeOptions): string;
  /** Bytes that a token prints; none for control tokens unless `special`. @throws {GraphError} token-range */
  piece(id: number, special?: boolean): Uint8Array;
  /** The token's text in the vocabulary, control tokens included. @throws {GraphError} token-range */
  text(id: number): string;
  /** Does this token end a generation? */
  isEog(id: number): boolean;
  /** Is it a token without text of its own (start, end, role markers)? */
  isControl(id: number): boolean;
}

const EMPTY = new Uint8Array(0);
const BLANK = 0x20;

/** The frame that all vocabularies share: special tokens, start and end tokens, decoding. */
class TokenTable implements Tokenizer {
  readonly model: string;
  readonly nVocab: number;
  readonly ids: SpecialIds;
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly addSpacePrefix: boolean;
  readonly suppressed: readonly number[];
  readonly #vocab: Vocab;
  readonly #splitter: Splitter;
  readonly #eog: ReadonlySet<number>;
  readonly #finder: SpecialFinder;

  constructor(model: string, meta: Metadata, vocab: Vocab, kind: Kind) {
    this.model = model;
    this.nVocab = vocab.size;
    this.#vocab = vocab;
    this.ids = readSpecialIds(meta, vocab, kind.defaults);
    this.#eog = readEog(meta, vocab, this.ids);
    this.addBos = wanted(meta, "bos", kind.addBos, this.ids.bos);
    this.addEos = wanted(meta, "eos", kind.addEos, this.ids.eos);
    this.addSpacePrefix = meta.bool("tokenizer.ggml.add_space_prefix", kind.spacePrefix);
    this.suppressed = Object.freeze(
      Array.from(meta.i32s("tokenizer.ggml.suppress_tokens") ?? []).filter(
        (id) => id >= 0 && id < vocab.size,
      ),
    );
    this.#finder = new SpecialFinder(vocab, stripRules(meta, vocab));
    this.#splitter = kind.splitter(meta, vocab, this.ids);
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    checkOptions("encode", options, ["addSpecial", "parseSpecial"]);
    const { addSpecial = true, parseSpecial = true } = options;
    const bytes = new TextEncoder().encode(text);
    const out: number[] = [];
    if (addSpecial && this.addBos) out.push(this.ids.bos);
    const onText = (from: number, to: number): void =>
      this.#splitter.split(this.#prefixed(bytes.subarray(from, to)), out);
    this.#finder.cut(bytes, parseSpecial, onText, (id) => out.push(id));
    if (addSpecial && this.addEos) out.push(this.ids.eos);
    return out;
  }

  /** Every piece of text is the first one or follows a special token, so each gets its blank. */
  #prefixed(piece: Uint8Array): Uint8Array {
    if (!this.addSpacePrefix) return piece;
    const out = new Uint8Array(piece.length + 1);
    out[0] = BLANK;
    out.set(piece, 1);
    return out;
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    checkOptions("decode", options, ["special"]);
    const decoder = new StreamDecoder(this, { atStart: true, special: options.special ?? false });
    let text = "";
    for (let i = 0; i < ids.length; i++) text += decoder.push(ids[i]!);
    return text + decoder.flush();
  }

  piece(id: number, special: boolean = false): Uint8Array {
    this.#check(id);
    const type = this.#vocab.types[id];
    if (type === CONTROL || type === UNKNOWN) return special ? this.#vocab.bytes(id) : EMPTY;
    if (type === UNUSED) return EMPTY;
    if (type === USER_DEFINED) return this.#vocab.bytes(id);
    const byte = byteOf(this.#vocab, id);
    return byte >= 0 ? Uint8Array.of(byte) : this.#splitter.print(this.#vocab.bytes(id));
  }

  text(id: number): string {
    this.#check(id);
    return this.#vocab.text(id);
  }

  isEog(id: number): boolean {
    return this.#eog.has(id);
  }

  isControl(id: number): boolean {
    this.#check(id);
    return this.#vocab.types[id] === CONTROL;
  }

  #check(id: number): void {
    if (Number.isInteger(id) && id >= 0 && id < this.nVocab) return;
    throw new GraphError("token-range", `token ${id}: not in 0..${this.nVocab - 1}`, {
      expected: this.nVocab,
      actual: id,
    });
  }
}

/** A start or end token asked for in so many words must exist; one wanted by default only is left out. */
function wanted(meta: Metadata, role: string, byDefault: boolean, id: number): boolean {
  const key = `tokenizer.ggml.add_${role}_token`;
  const add = meta.bool(key, byDefault);
  if (!add || id >= 0) return add;
  if (!meta.has(key)) return false;
  throw new FormatError("token-range", `${key}: true, but there is no ${role} token`, { key });
}

/** What differs between the kinds of vocabularies. */
interface Kind {
  readonly defaults: SpecialDefaults;
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly spacePrefix: boolean;
  readonly splitter: (meta: Metadata, vocab: Vocab, ids: SpecialIds) => Splitter;
}

const KINDS: ReadonlyMap<string, Kind> = new Map([
  [
    "llama",
    {
      defaults: { bos: 1, eos: 2, unk: 0 },
      addBos: true,
      addEos: false,
      spacePrefix: true,
      splitter: (meta: Metadata, vocab: Vocab, ids: SpecialIds): Splitter => new Spm(meta, vocab, ids.unk),
    },
  ],
]);

/**
 * The tokenizer of a file; a vocabulary without a model will do.
 *
 * @throws {FormatError} missing-key, bad-type, bad-value, vocab-mismatch, token-range, unsupported-tokenizer
 */
export function loadTokenizer(meta: Metadata): Tokenizer {
  const key = "tokenizer.ggml.model";
  const model = meta.str(key);
  const kind = KINDS.get(model);
  if (kind === undefined) {
    const known = [...KINDS.keys()].join(", ");
    throw new FormatError("unsupported-tokenizer", `${key}: "${model}" is not supported; known: ${known}`, {
      key,
      expected: known,
      actual: model,
    });
  }
  return new TokenTable(model, meta, readVocab(meta), kind);
}
