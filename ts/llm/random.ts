// Numbers that are the same on every engine: a seeded generator, and exp made of exact operations only.

import { GraphError } from "../errors.ts";

/**
 * Seeded random numbers: xoshiro128** (Blackman and Vigna), seeded through splitmix32. Integer operations only.
 */
export class Random {
  /** what it was seeded with, so that a run can be repeated */
  readonly seed: number;
  readonly #s: Uint32Array = new Uint32Array(4);

  /**
   * @param seed integer 0..2^53-1; without one a random 32-bit seed is drawn
   * @throws {GraphError} bad-param
   */
  constructor(seed?: number) {
    if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
      throw new GraphError("bad-param", `seed: ${seed}, expected an integer 0..2^53-1`, { actual: seed });
    }
    this.seed = seed ?? crypto.getRandomValues(new Uint32Array(1))[0]!;
    this.restart();
  }

  /** Back to the first number. */
  restart(): void {
    let state = (this.seed >>> 0) ^ Math.imul(Math.floor(this.seed / 2 ** 32), 0x85ebca6b);
    for (let i = 0; i < 4; i++) {
      state = (state + 0x9e3779b9) | 0;
      let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      this.#s[i] = z ^ (z >>> 15);
    }
  }

  /** Uniform in [0, 1), 53 bits. */
  next(): number {
    const high = this.#bits() >>> 5;
    const low = this.#bits() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  #bits(): number {
    const s = this.#s;
    const out = Math.imul(rotl(Math.imul(s[1]!, 5), 7), 9) >>> 0;
    const t = s[1]! << 9;
    s[2]! ^= s[0]!;
    s[3]! ^= s[1]!;
    s[1]! ^= s[2]!;
    s[0]! ^= s[3]!;
    s[2]! ^= t;
    s[3] = rotl(s[3]!, 11);
    return out;
  }
}

function rotl(x: number, k: number): number {
  return (x << k) | (x >>> (32 - k));
}

/** 2^-0 .. 2^-1023, by exact halving. */
const HALVES = ((): Float64Array => {
  const table = new Float64Array(1024);
  for (let i = 0, x = 1; i < 1024; i++, x /= 2) table[i] = x;
  return table;
})();
/** 1/n */
const INVERSE = Float64Array.from({ length: 15 }, (_, n) => 1 / n);
const LN2_HIGH = 0.69314718036912381649;
const LN2_LOW = 1.90821492927058770002e-10;

/**
 * e^x for x <= 0, within 2 units in the last place; 0 below -708. Math.exp may differ between engines in the last bit, this does not:
 * x = -k ln 2 + r with |r| <= ln 2 / 2, and a series for e^r.
 */
export function expNegative(x: number): number {
  if (!(x > -708)) return 0;
  const k = Math.floor(-x * Math.LOG2E + 0.5);
  const r = x + k * LN2_HIGH + k * LN2_LOW;
  let sum = 1;
  for (let n = 14; n > 0; n--) sum = 1 + r * INVERSE[n]! * sum;
  return sum * HALVES[k]!;
}

/** The least x <= 0 with e^x >= p (0 < p <= 1), by bisection: a logarithm that fits {@link expNegative}. */
export function logProbability(p: number): number {
  let low = -708;
  let high = 0;
  for (let i = 0; i < 64; i++) {
    const middle = (low + high) / 2;
    if (expNegative(middle) < p) low = middle;
    else high = middle;
  }
  return high;
}
