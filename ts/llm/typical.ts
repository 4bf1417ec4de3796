// Typical-p: keeps the candidates whose surprise is nearest to the expected surprise, the entropy.

import { expNegative, logProbability } from "./random.ts";

/**
 * Works on the sampler's candidates in place. A heap by distance, so only those that are kept get sorted:
 *
 *     [ rest of the heap, nearest at the root | 3rd 2nd nearest ]
 */
export class TypicalHeap {
  readonly #logit: Float64Array;
  readonly #id: Int32Array;
  readonly #distance: Float64Array;

  /** @param logit candidates, with their ids beside them in `id` */
  constructor(logit: Float64Array, id: Int32Array) {
    this.#logit = logit;
    this.#id = id;
    this.#distance = new Float64Array(logit.length);
  }

  /**
   * Moves the candidates that are kept to the front.
   *
   * @param n candidates
   * @param max their largest logit
   * @param sum of their weights e^(logit - max)
   * @returns how many are kept, at least one
   */
  keep(n: number, max: number, sum: number, typicalP: number): number {
    this.#measure(n, max, sum);
    for (let i = (n >> 1) - 1; i >= 0; i--)
      this.#sink(i, n, this.#logit[i]!, this.#id[i]!, this.#distance[i]!);
    let mass = 0;
    let from = n;
    while (from > 0 && mass <= typicalP * sum) {
      const x = this.#logit[0]!;
      const id = this.#id[0]!;
      const d = this.#distance[0]!;
      from--;
      this.#sink(0, from, this.#logit[from]!, this.#id[from]!, this.#distance[from]!);
      this.#put(from, x, id, d);
      mass += expNegative(x - max);
    }
    this.#logit.copyWithin(0, from, n);
    this.#id.copyWithin(0, from, n);
    return n - from;
  }

  // Distance of each candidate's surprise -ln p from the entropy.
  #measure(n: number, max: number, sum: number): void {
    const logSum = -logProbability(1 / sum);
    let entropy = 0;
    for (let i = 0; i < n; i++) {
      const surprise = max - this.#logit[i]! + logSum;
      this.#distance[i] = surprise;
      entropy += (expNegative(this.#logit[i]! - max) / sum) * surprise;
    }
    for (let i = 0; i < n; i++) this.#distance[i] = Math.abs(this.#distance[i]! - entropy);
  }

  #put(i: number, x: number, id: number, d: number): void {
    this.#logit[i] = x;
    this.#id[i] = id;
    this.#distance[i] = d;
  }

  #sink(i: number, n: number, x: number, id: number, d: number): void {
    for (let child = 2 * i + 1; child < n; child = 2 * i + 1) {
      const next = child + 1;
      if (next < n && this.#nearer(next, this.#distance[child]!, this.#id[child]!)) child = next;
      if (!this.#nearer(child, d, id)) break;
      this.#put(i, this.#logit[child]!, this.#id[child]!, this.#distance[child]!);
      i = child;
    }
    this.#put(i, x, id, d);
  }

  /** Is candidate `a` nearer than one at distance `d`? Of equals the lower id. */
  #nearer(a: number, d: number, id: number): boolean {
    return this.#distance[a]! < d || (this.#distance[a]! === d && this.#id[a]! < id);
  }
}
