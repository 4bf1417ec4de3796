// Options of sampling: what they mean, their defaults, their checks.

import { checkOptions, GraphError } from "../errors.ts";

/** How the next token is chosen. The filters work in this order: bias, penalties, DRY, top-k, typical-p, top-p, min-p. */
export interface SamplingOptions {
  /** 0 = the most likely token, always; above 1 flattens. Default 0.8 */
  readonly temperature?: number | undefined;
  /** keep the k most likely; 0 or more than there are tokens = all. Default 40 */
  readonly topK?: number | undefined;
  /** keep the tokens whose surprise is nearest to the expected one, up to this probability; 1 = all. Default 1 */
  readonly typicalP?: number | undefined;
  /** keep the most likely ones that together reach this probability; 1 = all. Default 0.95 */
  readonly topP?: number | undefined;
  /** keep those at least this fraction as likely as the best; 0 = all. Default 0.05 */
  readonly minP?: number | undefined;
  /** logits of recent tokens are divided by this when positive, multiplied when negative; 1 = off. Default 1 */
  readonly repeatPenalty?: number | undefined;
  /** subtracted from the logit of a recent token for each time it occurs. Default 0 */
  readonly frequencyPenalty?: number | undefined;
  /** subtracted once from the logit of a recent token. Default 0 */
  readonly presencePenalty?: number | undefined;
  /** how many tokens are recent for these three, prompt included; 0 = none. Default 64 */
  readonly repeatLastN?: number | undefined;
  /**
   * "Don't repeat yourself": a token that would make a repetition of n tokens longer loses
   * `dryMultiplier * dryBase ^ (n - dryAllowedLength)`. 0 = off. Default 0
   */
  readonly dryMultiplier?: number | undefined;
  /** Default 1.75 */
  readonly dryBase?: number | undefined;
  /** longest repetition that costs nothing to reach. Default 2 */
  readonly dryAllowedLength?: number | undefined;
  /** tokens that are looked through for repetitions, prompt included. Default 4096 */
  readonly dryLastN?: number | undefined;
  /** no repetition reaches back over a token that has one of these texts in it. Default newline, colon, quote, asterisk */
  readonly dryBreakers?: readonly string[] | undefined;
  /** added to the logits of these tokens, by id; -Infinity forbids a token */
  readonly logitBias?: Readonly<Record<number, number>> | undefined;
  /** integer 0..2^53-1: equal seeds give equal tokens on every engine. Default: a random one */
  readonly seed?: number | undefined;
}

/** Options with the defaults filled in. */
export type Settings = {
  readonly [K in keyof typeof SAMPLING_DEFAULTS]: (typeof SAMPLING_DEFAULTS)[K];
} & { readonly dryBreakers: readonly string[]; readonly logitBias: ReadonlyMap<number, number> };

/** What holds for numbers not given. */
export const SAMPLING_DEFAULTS: {
  temperature: number;
  topK: number;
  typicalP: number;
  topP: number;
  minP: number;
  repeatPenalty: number;
  frequencyPenalty: number;
  presencePenalty: number;
  repeatLastN: number;
  dryMultiplier: number;
  dryBase: number;
  dryAllowedLength: number;
  dryLastN: number;
} = Object.freeze({
  temperature: 0.8,
  topK: 40,
  typicalP: 1,
  topP: 0.95,
  minP: 0.05,
  repeatPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repeatLastN: 64,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryLastN: 4096,
});

const DRY_BREAKERS: readonly string[] = ["\n", ":", '"', "*"];

type Key = keyof typeof SAMPLING_DEFAULTS;

/** Names of all sampling options. */
export const SAMPLING_OPTIONS: readonly string[] = [
  ...Object.keys(SAMPLING_DEFAULTS),
  "dryBreakers",
  "logitBias",
  "seed",
];

const MAX_LAST_N = 2 ** 20;
const least = (low: number) =>
  [(x: number): boolean => x >= low && x < Infinity, `a number of at least ${low}`] as const;
const within = (low: number, high: number) =>
  [(x: number): boolean => x >= low && x <= high, `${low}..${high}`] as const;
const finite = [Number.isFinite, "a finite number"] as const;
const whole = (low: number, high: number) =>
  [
    (x: number): boolean => Number.isInteger(x) && x >= low && x <= high,
    high < Infinity ? `an integer ${low}..${high}` : `an integer of at least ${low}`,
  ] as const;

const RULES: { readonly [K in Key]: readonly [good: (x: number) => boolean, rule: string] } = {
  temperature: least(0),
  topK: whole(0, Infinity),
  typicalP: within(0, 1),
  topP: within(0, 1),
  minP: within(0, 1),
  repeatPenalty: [(x) => x > 0 && x < Infinity, "above 0"],
  frequencyPenalty: finite,
  presencePenalty: finite,
  repeatLastN: whole(0, MAX_LAST_N),
  dryMultiplier: least(0),
  dryBase: least(1),
  dryAllowedLength: whole(1, MAX_LAST_N),
  dryLastN: whole(0, MAX_LAST_N),
};

/**
 * Checks options and fills in the defaults.
 *
 * @param nVocab ids of biased tokens are below
 * @throws {TypeError} for a misspelt option
 * @throws {GraphError} bad-param for a value out of range; token-range for a bias of no token
 */
export function samplingSettings(options: SamplingOptions, nVocab: number): Settings {
  checkOptions("sampling", options, SAMPLING_OPTIONS);
  const s = { ...SAMPLING_DEFAULTS };
  for (const key of Object.keys(s) as Key[]) {
    const [good, rule] = RULES[key];
    s[key] = options[key] ?? s[key];
    if (typeof s[key] !== "number" || !good(s[key])) throw badParam(key, s[key], rule);
  }
  const { dryBreakers = DRY_BREAKERS } = options;
  if (!Array.isArray(dryBreakers) || !dryBreakers.every((text) => typeof text === "string" && text !== "")) {
    throw badParam("dryBreakers", dryBreakers, "a list of texts");
  }
  return Object.freeze({ ...s, dryBreakers, logitBias: readBias(options.logitBias ?? {}, nVocab) });
}

function readBias(bias: Readonly<Record<number, number>>, nVocab: number): ReadonlyMap<number, number> {
  const map = new Map<number, number>();
  for (const [key, value] of Object.entries(bias)) {
    const id = Number(key);
    if (!(Number.isInteger(id) && id >= 0 && id < nVocab)) {
      throw new GraphError("token-range", `logitBias: token ${key}, expected 0..${nVocab - 1}`, {
        expected: nVocab,
        actual: key,
      });
    }
    if (typeof value !== "number" || !(value < Infinity)) {
      throw badParam(`logitBias[${key}]`, value, "a number, or -Infinity");
    }
    map.set(id, value);
  }
  return map;
}

function badParam(name: string, value: unknown, rule: string): GraphError {
  return new GraphError("bad-param", `${name}: ${String(value)}, expected ${rule}`, {
    expected: rule,
    actual: value,
  });
}
