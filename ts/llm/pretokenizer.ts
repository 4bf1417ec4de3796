// How text is cut into words before byte-pair encoding: the regular expressions behind each name of tokenizer.ggml.pre.

import { FormatError } from "../errors.ts";
import type { Metadata } from "./metadata.ts";

// Patterns as published with the models. (?i:...) is written out, for JavaScript has it only since 2025.
const CONTRACTION = String.raw`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`;
// prettier-ignore
const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`;
// prettier-ignore
const LLAMA3 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
// prettier-ignore
const QWEN2 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
// prettier-ignore
const QWEN35 = String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`; // also what has no case
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
// prettier-ignore
const GPT4O = String.raw`[^\r\n\p{L}\p{N}]?${UPPER}*${LOWER}+${CONTRACTION}?|[^\r\n\p{L}\p{N}]?${UPPER}+${LOWER}*${CONTRACTION}?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
// prettier-ignore
const TEKKEN = String.raw`[^\r\n\p{L}\p{N}]?${UPPER}*${LOWER}+|[^\r\n\p{L}\p{N}]?${UPPER}+${LOWER}*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
// prettier-ignore
const DSV3 = String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_\x60{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
// prettier-ignore
const LETTERS = String.raw`[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]`;

/** Digits in groups of three, counted from the right; not a regular expression because that would look ahead over all digits again and again. */
const THREES = "threes";

// prettier-ignore
const RULES: readonly (readonly [names: string, ...patterns: string[]])[] = [
  ["default", String.raw`[\p{P}\$\+<=>\^~|]+`, GPT2, String.raw`\p{N}+`, "[0-9][0-9][0-9]"],
  ["gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling", GPT2],
  ["roberta-bpe jina-v1-en jina-v2-code", GPT2],
  ["llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe", LLAMA3],
  ["qwen2 deepseek-r1-qwen megrez kormo f2llmv2 stablelm2 hunyuan solar-open grok-2", QWEN2],
  ["qwen35", QWEN35],
  ["gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m", GPT4O],
  ["tekken", TEKKEN],
  ["starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", String.raw`\p{N}`, GPT2],
  ["falcon", String.raw`[\p{P}\$\+<=>\^~|\x60]+`, GPT2, "[0-9][0-9][0-9]"],
  ["deepseek-llm", String.raw`[\r\n]`, String.raw`\s?${LETTERS}+`, String.raw`\s?[!-/:-~！-／：-～‘-‟　-。]+`, String.raw`(?<!\s)\s+$`, String.raw`[一-龥ࠀ-一가-퟿]+`, String.raw`\p{N}+`],
  ["deepseek-coder", String.raw`[\r\n]`, String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, String.raw`[一-龥ࠀ-一가-퟿]+`, String.raw`\p{N}`],
  ["deepseek-v3 hunyuan-dense joyai-llm", String.raw`\p{N}{1,3}`, String.raw`[一-龥぀-ゟ゠-ヿ]+`, DSV3],
  ["poro-chat bloom gpt3-finnish", String.raw` ?[^(\s|.,!?…。，、।۔،)]+`],
  ["viking", String.raw` ?[^(\s|.,!?…。，、।۔،)]+`, String.raw`\p{N}`],
  ["superbpe", String.raw`\p{N}+`, THREES],
  ["bailingmoe bailingmoe2 llada-moe", String.raw`'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`],
  ["seed-coder", String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`],
  ["minicpm5", String.raw`\p{N}{1,3}`, String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`],
  ["tiny_aya cohere2moe", THREES, GPT4O],
  ["laguna", String.raw`[^\n]+|[\n]+`, QWEN2],
  ["exaone-moe", String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`],
  ["jais-2", String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`],
];

/** Names whose tokens may be whole words that no merge rule makes. */
const WHOLE_WORDS =
  "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken minicpm5 granite-embed-multi-97m";
/** Names that add the start token by default. */
const ADD_BOS = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken";
/** Names that put a separator between two texts by default. */
const ADD_SEP = "roberta-bpe jina-v1-en jina-v2-code";
/** Names without a start token by default. */
const NO_BOS = "glm4 chatglm-bpe";

/** Names of vocabularies whose merge rules are over characters, not bytes; they have no pre-tokenizer but lines. */
const CHARACTERS = "gemma4 sarvam-moe granite-embed-multi-311m";

/** Are merge rules over characters? */
export function joinsCharacters(meta: Metadata): boolean {
  return listed(CHARACTERS, nameOf(meta));
}

/** Cuts text into words that are encoded apart. */
export interface PreTokenizer {
  /** a word that is a token is taken as it is, without merge rules */
  readonly wholeWords: boolean;
  /** Words in order; joined they are the text. */
  words(text: string): string[];
}

/** What a name says of the start token and of the separator. */
export function startRule(meta: Metadata): {
  readonly addBos: boolean;
  readonly hasBos: boolean;
  readonly addSep: boolean;
} {
  const name = nameOf(meta);
  return { addBos: listed(ADD_BOS, name), hasBos: !listed(NO_BOS, name), addSep: listed(ADD_SEP, name) };
}

/**
 * The pre-tokenizer that the file names; without a name "default".
 *
 * @throws {FormatError} unsupported-tokenizer for an unknown name: a guess would give wrong tokens
 */
export function preTokenizer(meta: Metadata): PreTokenizer {
  const name = nameOf(meta);
  const rule = RULES.find(([names]) => listed(names, name));
  if (rule === undefined) {
    throw new FormatError("unsupported-tokenizer", `${KEY}: "${name}" is not supported`, {
      key: KEY,
      actual: name,
    });
  }
  const [, ...patterns] = rule;
  const steps = patterns.map((pattern) =>
    pattern === THREES ? splitThrees : splitBy(new RegExp(exactSpace(pattern), "gu")),
  );
  const words = (text: string): string[] => steps.reduce((parts, step) => parts.flatMap(step), blocks(text));
  return { wholeWords: listed(WHOLE_WORDS, name), words };
}

/** UTF-16 units that a pattern is given at once: a single word of some ten millions overflows the engine's stack. */
const BLOCK = 1 << 20;

/** Parts of a long text, cut where white space follows a word: there words end anyway. Without such a place a word is cut. */
function blocks(text: string): string[] {
  const parts: string[] = [];
  let at = 0;
  while (text.length - at > BLOCK) {
    const end = wordEnd(text, at, at + BLOCK);
    parts.push(text.slice(at, end));
    at = end;
  }
  parts.push(text.slice(at));
  return parts;
}

/** The last place up to `to` where white space follows a word; without one, `to`, or the unit before it inside of a pair. */
function wordEnd(text: string, from: number, to: number): number {
  for (let i = to; i > from; i--) if (/^[\p{L}\p{N}]\s/u.test(text.slice(i - 1, i + 1))) return i;
  return /[\udc00-\udfff]/.test(text.charAt(to)) ? to - 1 : to;
}

const KEY = "tokenizer.ggml.pre";

function nameOf(meta: Metadata): string {
  return meta.str(KEY, "default");
}

function listed(names: string, name: string): boolean {
  return names.split(" ").includes(name);
}

/** Matches and what lies between them; nothing is dropped. */
function splitBy(pattern: RegExp): (text: string) => string[] {
  return (text) => {
    const parts: string[] = [];
    let at = 0;
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      if (match.index > at) parts.push(text.slice(at, match.index));
      parts.push(match[0]);
      at = match.index + match[0].length;
    }
    if (at < text.length) parts.push(text.slice(at));
    return parts;
  };
}

const RUNS = splitBy(/\d+/gu);

function splitThrees(text: string): string[] {
  let at = 0;
  return RUNS(text).flatMap((run) => {
    at += run.length;
    if (!/^\d/.test(run) || /\w/.test(text.charAt(at))) return [run];
    const first = run.length % 3;
    return [run.slice(0, first), ...(run.slice(first).match(/.../g) ?? [])].filter((part) => part !== "");
  });
}

/** White space as the engines mean that the patterns were written for: with U+0085, without U+FEFF. */
const SPACE = String.raw`\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;

/** Replaces \s and \S, inside and outside of [...]. */
function exactSpace(pattern: string): string {
  let inClass = false;
  return pattern.replace(/\\.|\[|\]/gsu, (part) => {
    if (part === "[") inClass = true;
    else if (part === "]") inClass = false;
    else if (part === "\\s") return inClass ? SPACE : `[${SPACE}]`;
    else if (part === "\\S") return `[^${SPACE}]`;
    return part;
  });
}
