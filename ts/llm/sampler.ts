// Choosing the next token from the logits, in llama.cpp's order: bias, penalties, DRY, top-k, typical-p, top-p, min-p,
// temperature, draw.

import { FormatError, GraphError } from "../errors.ts";
import type { Piece } from "./dry.ts";
import { Penalties } from "./penalties.ts";
import { Random, expNegative, logProbability } from "./random.ts";
import { type SamplingOptions, type Settings, samplingSettings } from "./sampling.ts";
import { TypicalHeap } from "./typical.ts";

/** What a sampler may know of the vocabulary. */
export interface SamplerVocab {
  /** ids that are never chosen */
  readonly suppressed?: readonly number[];
  /** bytes that a token prints: to find the breakers of repetitions */
  readonly piece?: Piece;
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
  readonly #penalties: Penalties;
  readonly #logit: Float64Array;
  readonly #id: Int32Array;
  #n = 0;
  readonly #typical: TypicalHeap | undefined;
  /** min-p as a distance from the best logit */
  readonly #reach: number;
  #max = 0;
  #argmax = -1;

  /**
   * @param nVocab ids are 0..nVocab-1; logits beyond are never chosen
   * @throws {GraphError} bad-param, token-range; TypeError for a misspelt option
   */
  constructor(nVocab: number, options: SamplingOptions = {}, vocab: SamplerVocab = {}) {
    this.nVocab = nVocab;
    this.settings = samplingSettings(options, nVocab);
    this.random = new Random(options.seed);
    const { topK, temperature, typicalP, minP } = this.settings;
    this.#penalties = new Penalties(nVocab, this.settings, vocab.suppressed ?? [], vocab.piece);
    const greedy = temperature === 0 && typicalP === 1;
    const capacity = greedy ? 0 : topK === 0 ? nVocab : Math.min(topK, nVocab);
    this.#logit = new Float64Array(capacity);
    this.#id = new Int32Array(capacity);
    this.#typical = typicalP < 1 ? new TypicalHeap(this.#logit, this.#id) : undefined;
    this.#reach = minP > 0 ? logProbability(minP) : -Infinity;
  }

  /** Notes a token, of the prompt or chosen, for the penalties. */
  accept(id: number): void {
    if (id >= 0 && id < this.nVocab) this.#penalties.accept(id);
  }

  /** Forgets the recent tokens and starts the random numbers again. */
  reset(): void {
    this.#penalties.reset();
    this.random.restart();
  }

  /**
   * The next token; it is not noted, see {@link accept}.
   *
   * @param logits at least nVocab values
   * @throws {FormatError} non-finite
   */
  sample(logits: Float32Array): number {
    this.#penalties.prepare();
    this.#findBest(logits);
    const { temperature, topK, topP } = this.settings;
    if (this.#logit.length === 0) return this.#argmax;
    let sum = 0;
    if (topK > 0 && topK < this.nVocab) this.#collectTop(logits);
    else sum = this.#collectAll(logits);
    if (this.#typical !== undefined) {
      this.#keepTypical(this.#typical);
      sum = 0;
    }
    if (temperature === 0) return this.#argmax;
    if (topP >= 1 && topK === 0) return this.#draw(0, this.#n);
    if (sum === 0) sum = topP < 1 ? this.#weights() : Infinity; // the k best are put in order in any case
    return this.#draw(this.#reachTopP(sum * topP), this.#n);
  }

  /** Largest logit after penalties and its lowest id. */
  #findBest(logits: Float32Array): void {
    this.#max = -Infinity;
    this.#argmax = -1;
    if (this.#penalties.idle) return this.#findLargest(logits);
    for (let i = 0; i < this.nVocab; i++) {
      const raw = logits[i]!;
      if (raw - raw !== 0) throw nonFinite(raw, i); // NaN or infinite (or missing)
      const x = this.#penalties.adjusted(raw, i);
      if (x <= this.#max) continue;
      this.#max = x;
      this.#argmax = i;
    }
    if (this.#argmax < 0) throw new GraphError("bad-param", "sampling: all tokens are suppressed");
  }

  // The same where logits are taken as they are. Nothing but locals: the loop is a large part of what a token costs beside
  // the graph.
  #findLargest(logits: Float32Array): void {
    const { nVocab } = this;
    let max = -Infinity;
    let argmax = -1;
    for (let i = 0; i < nVocab; i++) {
      const x = logits[i]!;
      if (x <= max && x > -Infinity) continue;
      if (x - x !== 0) throw nonFinite(x, i);
      max = x;
      argmax = i;
    }
    this.#max = max;
    this.#argmax = argmax;
  }

  /** All that min-p leaves, in the order of ids. Returns the sum of all weights, which top-p refers to. */
  #collectAll(logits: Float32Array): number {
    const lowest = this.#typical === undefined ? this.#max + this.#reach : -Infinity;
    const needSum = this.settings.topP < 1;
    const negligible = this.#max - 50; // a million of them are 2e-16
    let sum = 0;
    this.#n = 0;
    for (let i = 0; i < this.nVocab; i++) {
      const x = this.#penalties.adjusted(logits[i]!, i);
      if (needSum && x > negligible) sum += expNegative(x - this.#max);
      if (x >= lowest && x > -Infinity) this.#put(this.#n++, x, i);
    }
    return sum;
  }

  /** The k best (of equals the lowest ids). With min-p alone to follow, those it leaves. */
  #collectTop(logits: Float32Array): void {
    const k = this.#logit.length;
    const { nVocab } = this;
    const { idle } = this.#penalties;
    let worst = -Infinity; // of k
    this.#n = 0;
    for (let i = 0; i < nVocab; i++) {
      const x = idle ? logits[i]! : this.#penalties.adjusted(logits[i]!, i);
      if (x <= worst) continue; // -Infinity in any case
      if (this.#n < k) this.#rise(this.#n++, x, i);
      else this.#sink(0, k, x, i, -1);
      if (this.#n === k) worst = this.#logit[0]!;
    }
    if (this.settings.topP >= 1 && this.#typical === undefined) this.#keepReach();
  }

  #keepReach(): void {
    const lowest = this.#max + this.#reach;
    let kept = 0;
    for (let i = 0; i < this.#n; i++) {
      if (this.#logit[i]! >= lowest) this.#put(kept++, this.#logit[i]!, this.#id[i]!);
    }
    this.#n = kept;
  }

  /** Typical candidates; the best of them need not be the best of all. */
  #keepTypical(heap: TypicalHeap): void {
    this.#n = heap.keep(this.#n, this.#max, this.#weights(), this.settings.typicalP);
    let best = 0;
    for (let i = 1; i < this.#n; i++) {
      if (order(this.#logit[i]!, this.#id[i]!, this.#logit[best]!, this.#id[best]!) > 0) best = i;
    }
    this.#max = this.#logit[best]!;
    this.#argmax = this.#id[best]!;
    if (this.settings.topP >= 1) this.#keepReach();
  }

  /** Sum of the candidates' weights. */
  #weights(): number {
    let sum = 0;
    for (let i = 0; i < this.#n; i++) sum += expNegative(this.#logit[i]! - this.#max);
    return sum;
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
