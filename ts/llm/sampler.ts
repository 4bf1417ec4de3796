// Choosing the next token from the logits. Order as in llama.cpp: penalties, top-k, top-p, min-p, temperature, draw.

import { FormatError, GraphError, checkOptions } from "../errors.ts";
import { Random, expNegative, logProbability } from "./random.ts";

/** How the next token is chosen. */
export interface SamplingOptions {
  /** 0 = the most likely token, always; above 1 flattens. Default 0.8 */
  readonly temperature?: number;
  /** keep the k most likely; 0 or more than there are tokens = all. Default 40 */
  readonly topK?: number;
  /** keep the most likely ones that together reach this probability; 1 = all. Default 0.95 */
  readonly topP?: number;
  /** keep those at least this fraction as likely as the best; 0 = all. Default 0.05 */
  readonly minP?: number;
  /** logits of recent tokens are divided by this when positive, multiplied when negative; 1 = off. Default 1 */
  readonly repeatPenalty?: number;
  /** how many tokens are recent, prompt included; 0 = none. Default 64 */
  readonly repeatLastN?: number;
  /** integer 0..2^53-1: equal seeds give equal tokens on every engine. Default: a random one */
  readonly seed?: number;
}

type Settings = Required<Omit<SamplingOptions, "seed">>;

/** What holds for options not given. */
export const SAMPLING_DEFAULTS: Settings = Object.freeze({
  temperature: 0.8,
  topK: 40,
  topP: 0.95,
  minP: 0.05,
  repeatPenalty: 1,
  repeatLastN: 64,
});

const MAX_LAST_N = 2 ** 20;

/**
 * Checks options and fills in the defaults.
 *
 * @throws {TypeError} for a misspelt option
 * @throws {GraphError} bad-param for a value out of range
 */
export function samplingSettings(options: SamplingOptions): Settings {
  const s = { ...SAMPLING_DEFAULTS };
  checkOptions("sampling", options, [...Object.keys(s), "seed"]);
  for (const key of Object.keys(s) as (keyof Settings)[]) s[key] = options[key] ?? s[key];
  check(
    "temperature",
    s.temperature,
    s.temperature >= 0 && s.temperature < Infinity,
    "a number of at least 0",
  );
  check("topK", s.topK, Number.isInteger(s.topK) && s.topK >= 0, "an integer of at least 0");
  check("topP", s.topP, s.topP >= 0 && s.topP <= 1, "0..1");
  check("minP", s.minP, s.minP >= 0 && s.minP <= 1, "0..1");
  check("repeatPenalty", s.repeatPenalty, s.repeatPenalty > 0 && s.repeatPenalty < Infinity, "above 0");
  const lastN = Number.isInteger(s.repeatLastN) && s.repeatLastN >= 0 && s.repeatLastN <= MAX_LAST_N;
  check("repeatLastN", s.repeatLastN, lastN, `an integer 0..${MAX_LAST_N}`);
  return s;
}

function check(name: string, value: unknown, good: boolean, rule: string): void {
  if (good && typeof value === "number") return;
  throw new GraphError("bad-param", `${name}: ${String(value)}, expected ${rule}`, {
    expected: rule,
    actual: value,
  });
}

/**
 * Chooses tokens. All memory is taken at construction; {@link sample} allocates nothing and leaves the logits as they are.
 *
 * Candidates are a heap in two flat arrays, so only the part that is looked at gets sorted:
 *
 *     top-k on:   the k best so far, worst at the root            then turned round, best at the root
 *     top-p:      best ones popped to the end until they reach p  [ rest of the heap | 3rd 2nd best ]
 */
export class Sampler {
  readonly nVocab: number;
  readonly settings: Settings;
  readonly random: Random;
  readonly #recent: Int32Array;
  #nRecent = 0;
  /** how often a token is in `recent` */
  readonly #count: Uint32Array;
  readonly #suppressed: Uint8Array;
  readonly #logit: Float64Array;
  readonly #id: Int32Array;
  #n = 0;
  /** min-p as a distance from the best logit */
  readonly #reach: number;
  #max = 0;
  #argmax = -1;

  /**
   * @param nVocab ids are 0..nVocab-1; logits beyond are never chosen
   * @param suppressed ids that are never chosen
   * @throws {GraphError} bad-param; TypeError for a misspelt option
   */
  constructor(nVocab: number, options: SamplingOptions = {}, suppressed: readonly number[] = []) {
    this.nVocab = nVocab;
    this.settings = Object.freeze(samplingSettings(options));
    this.random = new Random(options.seed);
    const { topK, temperature, minP, repeatLastN, repeatPenalty } = this.settings;
    this.#recent = new Int32Array(repeatPenalty === 1 ? 0 : repeatLastN);
    this.#count = new Uint32Array(this.#recent.length > 0 ? nVocab : 0);
    this.#suppressed = new Uint8Array(suppressed.length > 0 ? nVocab : 0);
    for (const id of suppressed) this.#suppressed[id] = 1;
    const capacity = temperature === 0 ? 0 : topK === 0 ? nVocab : Math.min(topK, nVocab);
    this.#logit = new Float64Array(capacity);
    this.#id = new Int32Array(capacity);
    this.#reach = minP > 0 ? logProbability(minP) : -Infinity;
  }

  /** Notes a token, of the prompt or chosen, for the repeat penalty. */
  accept(id: number): void {
    const size = this.#recent.length;
    if (size === 0 || !(id >= 0 && id < this.nVocab)) return;
    const slot = this.#nRecent % size;
    if (this.#nRecent >= size) this.#count[this.#recent[slot]!]!--;
    this.#recent[slot] = id;
    this.#count[id]!++;
    this.#nRecent++;
  }

  /** Forgets the recent tokens and starts the random numbers again. */
  reset(): void {
    this.#nRecent = 0;
    this.#count.fill(0);
    this.random.restart();
  }

  /**
   * The next token; it is not noted, see {@link accept}.
   *
   * @param logits at least nVocab values
   * @throws {FormatError} non-finite
   */
  sample(logits: Float32Array): number {
    this.#findBest(logits);
    const { temperature, topK, topP } = this.settings;
    if (temperature === 0) return this.#argmax;
    let sum = 0;
    if (topK > 0 && topK < this.nVocab) this.#collectTop(logits);
    else sum = this.#collectAll(logits);
    if (topP >= 1) return this.#draw(0, this.#n);
    if (sum === 0) for (let i = 0; i < this.#n; i++) sum += expNegative(this.#logit[i]! - this.#max);
    return this.#draw(this.#reachTopP(sum * topP), this.#n);
  }

  /** Largest logit after penalties and its lowest id. */
  #findBest(logits: Float32Array): void {
    this.#max = -Infinity;
    this.#argmax = -1;
    for (let i = 0; i < this.nVocab; i++) {
      const raw = logits[i]!;
      if (raw - raw !== 0) throw nonFinite(raw, i); // NaN or infinite (or missing)
      const x = this.#adjusted(raw, i);
      if (x <= this.#max) continue;
      this.#max = x;
      this.#argmax = i;
    }
    if (this.#argmax < 0) throw new GraphError("bad-param", "sampling: all tokens are suppressed");
  }

  /** A logit after penalties; -Infinity for suppressed tokens. */
  #adjusted(raw: number, id: number): number {
    if (this.#suppressed.length > 0 && this.#suppressed[id] === 1) return -Infinity;
    if (this.#count.length === 0 || this.#count[id] === 0) return raw;
    return raw > 0 ? raw / this.settings.repeatPenalty : raw * this.settings.repeatPenalty;
  }

  /** All that min-p leaves, in the order of ids. Returns the sum of all weights, which top-p refers to. */
  #collectAll(logits: Float32Array): number {
    const lowest = this.#max + this.#reach;
    const needSum = this.settings.topP < 1;
    const negligible = this.#max - 50; // a million of them are 2e-16
    let sum = 0;
    this.#n = 0;
    for (let i = 0; i < this.nVocab; i++) {
      const x = this.#adjusted(logits[i]!, i);
      if (needSum && x > negligible) sum += expNegative(x - this.#max);
      if (x >= lowest && x > -Infinity) this.#put(this.#n++, x, i);
    }
    return sum;
  }

  /** The k best (of equals the lowest ids). With min-p alone to follow, those it leaves. */
  #collectTop(logits: Float32Array): void {
    const k = this.#logit.length;
    this.#n = 0;
    for (let i = 0; i < this.nVocab; i++) {
      const x = this.#adjusted(logits[i]!, i);
      if (x === -Infinity) continue;
      if (this.#n < k) this.#rise(this.#n++, x, i);
      else if (x > this.#logit[0]!) this.#sink(0, this.#n, x, i, -1);
    }
    if (this.settings.topP >= 1) this.#keepReach();
  }

  #keepReach(): void {
    const lowest = this.#max + this.#reach;
    let kept = 0;
    for (let i = 0; i < this.#n; i++) {
      if (this.#logit[i]! >= lowest) this.#put(kept++, this.#logit[i]!, this.#id[i]!);
    }
    this.#n = kept;
  }

  /**
   * Moves the best to the end of the arrays, one by one, until their weights reach `goal` or min-p forbids the next.
   * Returns where they begin.
   */
  #reachTopP(goal: number): number {
    for (let i = (this.#n >> 1) - 1; i >= 0; i--) this.#sink(i, this.#n, this.#logit[i]!, this.#id[i]!, 1);
    let sum = 0;
    let from = this.#n;
    while (from > 0 && (from === this.#n || (sum < goal && this.#logit[0]! >= this.#max + this.#reach))) {
      const x = this.#logit[0]!;
      const id = this.#id[0]!;
      from--;
      this.#sink(0, from, this.#logit[from]!, this.#id[from]!, 1);
      this.#put(from, x, id);
      sum += expNegative(x - this.#max);
    }
    return from;
  }

  /** Draws one of the candidates first..last-1 by their weights at the temperature. */
  #draw(first: number, last: number): number {
    const { temperature } = this.settings;
    let sum = 0;
    for (let i = first; i < last; i++) sum += expNegative((this.#logit[i]! - this.#max) / temperature);
    let left = this.random.next() * sum;
    for (let i = last - 1; i > first; i--) {
      left -= expNegative((this.#logit[i]! - this.#max) / temperature);
      if (left < 0) return this.#id[i]!;
    }
    return this.#id[first]!;
  }

  #put(i: number, x: number, id: number): void {
    this.#logit[i] = x;
    this.#id[i] = id;
  }

  /** Puts a candidate at the end of the heap with the worst at its root. */
  #rise(i: number, x: number, id: number): void {
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (order(x, id, this.#logit[up]!, this.#id[up]!) > 0) break;
      this.#put(i, this.#logit[up]!, this.#id[up]!);
      i = up;
    }
    this.#put(i, x, id);
  }

  /** Sets a candidate into the heap of `n` from `i` downwards. `side` 1: best at the root, -1: worst at the root. */
  #sink(i: number, n: number, x: number, id: number, side: 1 | -1): void {
    for (let child = 2 * i + 1; child < n; child = 2 * i + 1) {
      const next = child + 1;
      if (
        next < n &&
        side * order(this.#logit[next]!, this.#id[next]!, this.#logit[child]!, this.#id[child]!) > 0
      )
        child = next;
      if (side * order(x, id, this.#logit[child]!, this.#id[child]!) > 0) break;
      this.#put(i, this.#logit[child]!, this.#id[child]!);
      i = child;
    }
    this.#put(i, x, id);
  }
}

/** Above 0 when a is better than b: the larger logit, of equals the lower id. */
function order(a: number, idA: number, b: number, idB: number): number {
  return a === b ? idB - idA : a - b;
}

function nonFinite(logit: number, id: number): FormatError {
  return new FormatError("non-finite", `logits: ${logit} for token ${id}`, { actual: logit });
}
