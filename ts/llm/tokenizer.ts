// Text to token ids and back, as the file's vocabulary says.

import { FormatError, GraphError, checkOptions } from "../errors.ts";
import { Bpe } from "./bpe.ts";
import { StreamDecoder } from "./decoder.ts";
import type { Metadata } from "./metadata.ts";
import { joinsCharacters, startRule } from "./pretokenizer.ts";
import { RawBpe } from "./raw_bpe.ts";
import {
  SpecialFinder,
  type SpecialDefaults,
  type SpecialIds,
  byteOf,
  readEog,
  readSpecialIds,
  stripRules,
} from "./special.ts";
import type { Splitter } from "./splitter.ts";
import { Spm, spacePrefix } from "./spm.ts";
import { Unigram } from "./unigram.ts";
import { bytesOf } from "./utf8.ts";
import { WordPiece, cleanSpaces } from "./wordpiece.ts";
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
  /** a separator stands between two texts, as rerankers want it */
  readonly addSep: boolean;
  /** a text ends with the separator, whatever the keys say */
  readonly framed: boolean;
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

/** What differs between the kinds of vocabularies. */
interface Kind {
  readonly defaults: SpecialDefaults;
  /** start token by default */
  readonly addBos: boolean;
  /** whatever the key says */
  readonly alwaysBos?: boolean;
  /** end token by default */
  readonly addEos?: boolean;
  /** separator between two texts by default */
  readonly addSep: boolean;
  /** a text always stands between the start token and `sep`; keys do not change it */
  readonly framed: boolean;
  readonly addSpacePrefix: boolean;
  readonly splitter: new (meta: Metadata, vocab: Vocab, unk: number) => Splitter;
}

const KINDS: Readonly<Record<string, (meta: Metadata) => Kind>> = {
  llama: (meta) => ({
    defaults: { bos: 1, eos: 2, unk: 0 },
    addBos: true,
    addSep: false,
    framed: false,
    addSpacePrefix: spacePrefix(meta),
    splitter: Spm,
  }),
  gpt2: (meta) => ({
    defaults: startRule(meta).hasBos ? { bos: 11, eos: 11 } : { eos: 11 },
    addBos: startRule(meta).addBos,
    addSep: startRule(meta).addSep,
    framed: false,
    addSpacePrefix: false,
    splitter: joinsCharacters(meta) ? RawBpe : Bpe,
  }),
  gemma4: () => ({
    defaults: {},
    addBos: true,
    alwaysBos: true,
    addSep: false,
    framed: false,
    addSpacePrefix: false,
    splitter: RawBpe,
  }),
  bert: () => ({
    defaults: { bos: 101, unk: 100, sep: 102, pad: 0, mask: 103 },
    addBos: true,
    addSep: false,
    framed: true,
    addSpacePrefix: true,
    splitter: WordPiece,
  }),
  t5: (meta) => ({
    defaults: { eos: 1, unk: 2, pad: 0 },
    addBos: false,
    addEos: true,
    addSep: false,
    framed: false,
    addSpacePrefix: meta.bool("tokenizer.ggml.add_space_prefix", false),
    splitter: Unigram,
  }),
};

/** The frame that all vocabularies share: special tokens, start and end tokens, decoding. */
class TokenTable implements Tokenizer {
  readonly model: string;
  readonly nVocab: number;
  readonly ids: SpecialIds;
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly addSep: boolean;
  readonly framed: boolean;
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
    this.framed = kind.framed;
    this.ids = readSpecialIds(meta, vocab, kind.defaults);
    this.#eog = readEog(meta, vocab, this.ids);
    if (kind.framed) needFrame(model, this.ids);
    const always = kind.framed || (kind.alwaysBos === true && this.ids.bos >= 0);
    this.addBos = always || wanted(meta, "bos", kind.addBos, this.ids.bos);
    this.addEos = kind.framed || wanted(meta, "eos", kind.addEos ?? false, this.ids.eos);
    this.addSep = kind.framed || wanted(meta, "sep", kind.addSep, this.ids.sep);
    this.addSpacePrefix = kind.addSpacePrefix;
    this.suppressed = readSuppressed(meta, vocab.size);
    this.#finder = new SpecialFinder(vocab, stripRules(meta, vocab));
    this.#splitter = new kind.splitter(meta, vocab, this.ids.unk);
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    checkOptions("encode", options, ["addSpecial", "parseSpecial"]);
    const { addSpecial = true, parseSpecial = true } = options;
    const bytes = bytesOf(text);
    const out: number[] = [];
    if (addSpecial && this.addBos) out.push(this.ids.bos);
    const onText = (from: number, to: number): void => this.#splitter.split(bytes.subarray(from, to), out);
    this.#finder.cut(bytes, parseSpecial, onText, (id) => out.push(id));
    if (addSpecial && this.addEos) out.push(this.framed ? this.ids.sep : this.ids.eos);
    return out;
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    checkOptions("decode", options, ["special"]);
    const decoder = new StreamDecoder(this, { atStart: true, special: options.special ?? false });
    let text = "";
    for (let i = 0; i < ids.length; i++) text += decoder.push(ids[i]!);
    text += decoder.flush();
    return this.framed ? cleanSpaces(text) : text;
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

function needFrame(model: string, ids: SpecialIds): void {
  if (ids.bos >= 0 && ids.sep >= 0) return;
  throw new FormatError("token-range", `${model}: no token to begin or to end a text with`);
}

/** Ids outside of the vocabulary are left out. */
function readSuppressed(meta: Metadata, size: number): readonly number[] {
  const list = Array.from(meta.i32s("tokenizer.ggml.suppress_tokens") ?? []);
  return Object.freeze(list.filter((id) => id >= 0 && id < size));
}

/**
 * The tokenizer of a file; a vocabulary without a model will do.
 *
 * @throws {FormatError} missing-key, bad-type, bad-value, vocab-mismatch, token-range, unsupported-tokenizer
 */
export function loadTokenizer(meta: Metadata): Tokenizer {
  const key = "tokenizer.ggml.model";
  const model = meta.str(key);
  if (Object.hasOwn(KINDS, model)) return new TokenTable(model, meta, readVocab(meta), KINDS[model]!(meta));
  const known = Object.keys(KINDS).join(", ");
  throw new FormatError("unsupported-tokenizer", `${key}: "${model}" is not supported; known: ${known}`, {
    key,
    expected: known,
    actual: model,
  });
}
