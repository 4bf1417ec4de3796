// Special tokens: which ids have a role (start, end, ...), which end a generation, and where their texts stand in a prompt.

import { FormatError } from "../errors.ts";
import type { Metadata } from "./metadata.ts";
import { BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, type Vocab } from "./vocab.ts";

/** Ids with a role; -1 = the vocabulary has none. */
export interface SpecialIds {
  readonly bos: number;
  readonly eos: number;
  readonly eot: number;
  readonly eom: number;
  readonly unk: number;
  readonly sep: number;
  readonly pad: number;
  readonly mask: number;
}

/** Ids that hold when the file states none. */
export type SpecialDefaults = Partial<SpecialIds>;

const KEYS: readonly (readonly [keyof SpecialIds, string])[] = [
  ["bos", "bos"],
  ["eos", "eos"],
  ["eot", "eot"],
  ["eom", "eom"],
  ["unk", "unknown"],
  ["sep", "seperator"], // GGUF's spelling
  ["pad", "padding"],
  ["mask", "mask"],
];

/** Roles that a text needs: their default must exist. Other defaults just do not hold in a small vocabulary. */
const NEEDED: readonly string[] = ["bos", "eos", "unk"];

/**
 * Reads the ids with a role. A stored -1 (2^32-1) means none.
 *
 * @throws {FormatError} token-range for an id past the vocabulary, stated or by default
 */
export function readSpecialIds(meta: Metadata, vocab: Vocab, defaults: SpecialDefaults): SpecialIds {
  const ids = { bos: -1, eos: -1, eot: -1, eom: -1, unk: -1, sep: -1, pad: -1, mask: -1 };
  for (const [role, name] of KEYS) {
    const byDefault = defaults[role] ?? -1;
    const holds = byDefault < vocab.size || NEEDED.includes(role);
    ids[role] = readId(meta, `tokenizer.ggml.${name}_token_id`, vocab.size, holds ? byDefault : -1);
  }
  if (ids.eot < 0) ids.eot = firstOf(vocab, EOT_TEXTS);
  if (ids.eom < 0) ids.eom = firstOf(vocab, ["<|eom_id|>"]);
  return ids;
}

function readId(meta: Metadata, key: string, size: number, byDefault: number): number {
  const id = meta.id(key) ?? byDefault;
  if (id >= -1 && id < size) return id;
  const origin = meta.has(key) ? "" : " (by default)";
  throw new FormatError("token-range", `${key}: ${id}${origin}, but the vocabulary has ${size} tokens`, {
    key,
    expected: size,
    actual: id,
  });
}

function firstOf(vocab: Vocab, texts: readonly string[]): number {
  for (const text of texts) {
    const id = vocab.idOf(text);
    if (id >= 0) return id;
  }
  return -1;
}

// prettier-ignore
const EOT_TEXTS = [
  "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]",
  "<｜end▁of▁sentence｜>", "<end_of_utterance>",
];
// prettier-ignore
const EOG_TEXTS = [
  ...EOT_TEXTS, "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>", "<|eom_id|>", "[EOS]", "<eos>", "<turn|>",
  "<|tool_response>", "[e~[",
];
// prettier-ignore
const FIM_TEXTS = [
  "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>",
  "<|file_sep|>",
];
const FIM_ROLES = ["pad", "rep", "sep"];

/**
 * Ids that end a generation: by role, by the fill-in-the-middle keys, by well-known text. Tokens found by text become
 * control tokens, so that they are never printed. Kinds in `vocab.types` are changed accordingly.
 */
export function readEog(meta: Metadata, vocab: Vocab, ids: SpecialIds): Set<number> {
  markUnused(vocab);
  const eog = new Set([ids.eos, ids.eot, ids.eom]);
  for (const role of FIM_ROLES) {
    eog.add(readId(meta, `tokenizer.ggml.fim_${role}_token_id`, vocab.size, -1));
  }
  for (const text of [...EOG_TEXTS, ...FIM_TEXTS]) {
    const id = vocab.idOf(text);
    if (id < 0) continue;
    vocab.types[id] = CONTROL;
    eog.add(id);
  }
  applyChannels(vocab, eog);
  eog.delete(-1);
  return eog;
}

/** Control tokens that are only place holders. */
function markUnused(vocab: Vocab): void {
  for (let id = 0; id < vocab.size; id++) {
    if (vocab.types[id] === CONTROL && vocab.text(id).includes("unused")) vocab.types[id] = UNUSED;
  }
}

/** Formats in which one of the texts is no end: gpt-oss ends a channel with <|end|>, gemma 4 prints </s>. */
function applyChannels(vocab: Vocab, eog: Set<number>): void {
  const has = (text: string): boolean => vocab.idOf(text) >= 0;
  const made = (text: string, type: number): void => {
    const id = vocab.idOf(text);
    if (id >= 0) vocab.types[id] = type;
  };
  if (
    has("<|end|>") &&
    ((has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && (has("<|call|>") || has("<|calls|>"))))
  ) {
    eog.delete(vocab.idOf("<|end|>"));
    for (const text of ["<|end|>", "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"])
      made(text, USER_DEFINED);
  }
  if (has("<|tool_response>") && has("</s>")) {
    eog.delete(vocab.idOf("</s>"));
    made("</s>", NORMAL);
  }
}

/** What a special token does to the white space around it; GGUF does not store it, so it goes by the model's name. */
export interface StripRules {
  readonly left: ReadonlySet<number>;
  readonly right: ReadonlySet<number>;
}

/**
 * Finds special tokens in text.
 *
 * The rule is llama.cpp's: longest token first, each scanned left to right over what is still text. Here all matches are found in one
 * pass and then accepted in that order; an accepted one is never shorter than the next, so looking at both ends shows an overlap.
 */
export class SpecialFinder {
  readonly #vocab: Vocab;
  readonly #strip: StripRules;
  /** by first byte: the lengths (longest first) that special tokens have */
  readonly #lengths: number[][] = Array.from({ length: 256 }, () => []);

  constructor(vocab: Vocab, strip: StripRules) {
    this.#vocab = vocab;
    this.#strip = strip;
    for (let id = 0; id < vocab.size; id++) {
      if (!isSpecial(vocab.types[id]!) || vocab.length(id) === 0) continue;
      const lengths = this.#lengths[vocab.bytes(id)[0]!]!;
      if (!lengths.includes(vocab.length(id))) lengths.push(vocab.length(id));
    }
  }

  /**
   * Cuts a text: `onText(from, to)` and `onToken(id)` are called in order.
   *
   * @param all also control and unknown tokens; otherwise only user-defined ones
   */
  cut(
    text: Uint8Array,
    all: boolean,
    onText: (from: number, to: number) => void,
    onToken: (id: number) => void,
  ): void {
    let at = 0;
    for (const match of this.#accept(text, this.#matches(text, all))) {
      if (match.from > at) onText(at, match.from);
      onToken(match.id);
      at = match.to;
    }
    if (at < text.length) onText(at, text.length);
  }

  #matches(text: Uint8Array, all: boolean): Match[] {
    const found: Match[] = [];
    for (let at = 0; at < text.length; at++) {
      for (const length of this.#lengths[text[at]!]!) {
        if (at + length > text.length) continue;
        const id = this.#vocab.find(text, at, at + length);
        if (id < 0 || !isSpecial(this.#vocab.types[id]!)) continue;
        if (all || this.#vocab.types[id] === USER_DEFINED)
          found.push({ id, length, from: at, to: at + length });
      }
    }
    return found;
  }

  #accept(text: Uint8Array, found: Match[]): Match[] {
    if (found.length === 0) return found;
    found.sort((a, b) => b.length - a.length || a.id - b.id || a.from - b.from);
    const taken = new Uint8Array(text.length);
    const accepted = found.filter((match) => {
      if (taken[match.from] || taken[match.to - 1]) return false;
      if (this.#strip.left.has(match.id))
        while (match.from > 0 && !taken[match.from - 1] && isBlank(text[match.from - 1]!)) match.from--;
      if (this.#strip.right.has(match.id))
        while (match.to < text.length && !taken[match.to] && isBlank(text[match.to]!)) match.to++;
      taken.fill(1, match.from, match.to);
      return true;
    });
    return accepted.sort((a, b) => a.from - b.from);
  }
}

interface Match {
  readonly id: number;
  readonly length: number;
  from: number;
  to: number;
}

function isSpecial(type: number): boolean {
  return type === CONTROL || type === USER_DEFINED || type === UNKNOWN;
}

/** ASCII white space. */
function isBlank(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}

/** Stripping by the model's name: phi-3 swallows white space after its special tokens, masked models before the mask. */
export function stripRules(meta: Metadata, vocab: Vocab): StripRules {
  const left = new Set<number>();
  const right = new Set<number>();
  const name = meta.has("general.name") ? meta.str("general.name").toLowerCase() : "";
  const arch = meta.str("general.architecture", "");
  const pre = meta.str("tokenizer.ggml.pre", "");
  if (name.includes("phi-3") || name.includes("phi3")) {
    for (let id = 0; id < vocab.size; id++) if (isSpecial(vocab.types[id]!)) right.add(id);
    for (const text of ["<unk>", "<s>", "<|endoftext|>"]) right.delete(vocab.idOf(text));
    right.add(vocab.idOf("</s>"));
  }
  if (/^(jina-v2-(de|es|code))$/.test(pre) || /^(nomic-bert-moe|jina-bert-v3)$/.test(arch))
    left.add(vocab.idOf("<mask>"));
  if (name.includes("modern-bert")) left.add(vocab.idOf("[MASK]"));
  return { left, right };
}

/** Byte that a byte token stands for ("<0xHH>"); -1 for other texts. */
export function byteOf(vocab: Vocab, id: number): number {
  const hex = vocab.types[id] === BYTE ? /^<0x([0-9A-Fa-f]{2})>$/.exec(vocab.text(id)) : null;
  return hex === null ? -1 : parseInt(hex[1]!, 16);
}
