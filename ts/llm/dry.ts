// The penalty on repetitions ("don't repeat yourself"), as llama.cpp computes it.
//
// Looked at from the newest token backwards, a repetition is a place k where the text reads as from 0 on:
//
//     newest first   c b a y c b c c b a        z[6] = 3: "c b a" stands at 0 and at 7 - so the token before it, at
//                    0 1 2 3 4 5 6 7 8 9        index 6, would make the repetition one token longer
//
// z is found for all k in linear time (the Z-algorithm). No repetition reaches over a breaker.

import { bytesOf } from "./utf8.ts";

/** Bytes that a token prints. */
export type Piece = (id: number) => Uint8Array;

/** What of the sampling settings it needs. */
export interface DrySettings {
  readonly dryMultiplier: number;
  readonly dryBase: number;
  readonly dryAllowedLength: number;
  readonly dryLastN: number;
  readonly dryBreakers: readonly string[];
}

/** ln of the largest float: powers beyond it are cut. */
const MAX_LOG = 88.7228391;
const UNKNOWN = 0;
const PLAIN = 1;
const BREAKER = 2;

/** Notes tokens and penalises those that would go on with a repetition. {@link prepare} allocates nothing. */
export class Dry {
  readonly #s: DrySettings;
  readonly #piece: Piece | undefined;
  readonly #breakers: readonly Uint8Array[];
  /** per token: does its text hold a breaker? Found out when the token is met */
  readonly #kinds: Uint8Array;
  readonly #ring: Int32Array;
  #n = 0;
  /** the tokens, newest first */
  readonly #text: Int32Array;
  readonly #z: Int32Array;
  /** per token: length of the longest repetition it would continue */
  readonly #longest: Int32Array;
  /** tokens whose entry there is not 0 */
  readonly #touched: Int32Array;
  #nTouched = 0;
  readonly #maxExponent: number;

  constructor(nVocab: number, settings: DrySettings, piece?: Piece) {
    const size = settings.dryLastN;
    this.#s = settings;
    this.#piece = piece;
    this.#breakers = settings.dryBreakers.map(bytesOf);
    this.#kinds = new Uint8Array(nVocab);
    this.#ring = new Int32Array(size);
    this.#text = new Int32Array(size);
    this.#z = new Int32Array(size);
    this.#longest = new Int32Array(nVocab);
    this.#touched = new Int32Array(size);
    this.#maxExponent = settings.dryBase > 1.000001 ? Math.floor(MAX_LOG / Math.log(settings.dryBase)) : size;
  }

  accept(id: number): void {
    const size = this.#ring.length;
    if (size > 0) this.#ring[this.#n++ % size] = id;
  }

  reset(): void {
    this.#n = 0;
    this.#forget();
  }

  /** What the logit of a token loses. Valid after {@link prepare}. */
  penalty(id: number): number {
    const length = this.#longest[id]!;
    if (length === 0) return 0;
    const exponent = Math.min(length - this.#s.dryAllowedLength, this.#maxExponent);
    return this.#s.dryMultiplier * power(this.#s.dryBase, exponent);
  }

  /** Finds the repetitions that the tokens end in. */
  prepare(): void {
    this.#forget();
    const { dryAllowedLength } = this.#s;
    const n = Math.min(this.#n, this.#ring.length);
    for (let i = 0; i < n; i++) this.#text[i] = this.#ring[(this.#n - 1 - i) % this.#ring.length]!;
    const limit = this.#reach(n);
    if (n <= dryAllowedLength || limit < dryAllowedLength) return;
    zValues(this.#text, n, this.#z);
    for (let k = 1; k < n; k++) {
      const length = Math.min(this.#z[k]!, limit);
      if (length >= dryAllowedLength) this.#note(this.#text[k - 1]!, length);
    }
  }

  /** Tokens up to the newest breaker. */
  #reach(n: number): number {
    for (let i = 0; i < n; i++) if (this.#isBreaker(this.#text[i]!)) return i;
    return n;
  }

  #note(id: number, length: number): void {
    if (this.#isBreaker(id) || this.#longest[id]! >= length) return;
    if (this.#longest[id] === 0) this.#touched[this.#nTouched++] = id;
    this.#longest[id] = length;
  }

  #forget(): void {
    for (let i = 0; i < this.#nTouched; i++) this.#longest[this.#touched[i]!] = 0;
    this.#nTouched = 0;
  }

  #isBreaker(id: number): boolean {
    if (this.#kinds[id] === UNKNOWN) {
      const text = this.#piece?.(id);
      const breaks = text !== undefined && this.#breakers.some((b) => holds(text, b));
      this.#kinds[id] = breaks ? BREAKER : PLAIN;
    }
    return this.#kinds[id] === BREAKER;
  }
}

/** z[k] = how far the text from k on reads as from 0 on. */
function zValues(text: Int32Array, n: number, z: Int32Array): void {
  let left = 0; // [left, right): the match found so far that reaches farthest
  let right = 0;
  for (let k = 1; k < n; k++) {
    let length = k < right ? Math.min(z[k - left]!, right - k) : 0;
    while (k + length < n && text[length] === text[k + length]) length++;
    z[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
  }
}

function holds(text: Uint8Array, part: Uint8Array): boolean {
  for (let at = 0; at + part.length <= text.length; at++) {
    let i = 0;
    while (i < part.length && text[at + i] === part[i]) i++;
    if (i === part.length) return true;
  }
  return false;
}

/** x^n for n >= 0 by squaring: the same on every engine, which Math.pow need not be. */
function power(x: number, n: number): number {
  let result = 1;
  for (let square = x; n > 0; n = Math.floor(n / 2), square *= square) if (n % 2 === 1) result *= square;
  return result;
}
