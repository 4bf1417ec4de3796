// Sampling: against a plain float64 reference of the same chain, and by the statistics of many draws.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FormatError, GraphError } from "../ts/errors.ts";
import { Random, expNegative, logProbability } from "../ts/llm/random.ts";
import { Sampler, type SamplingOptions } from "../ts/llm/sampler.ts";

const OFF: SamplingOptions = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 7 };

/** Probabilities by the definition: full sort, one filter after the other. */
function reference(
  logits: ArrayLike<number>,
  o: Required<Omit<SamplingOptions, "seed" | "repeatPenalty" | "repeatLastN">>,
): Map<number, number> {
  let list = Array.from(logits, (x, id) => ({ x, id })).sort((a, b) => b.x - a.x || a.id - b.id);
  if (o.topK > 0) list = list.slice(0, o.topK);
  const max = list[0]!.x;
  const total = list.reduce((sum, c) => sum + Math.exp(c.x - max), 0);
  let mass = 0;
  list = list.filter((c, i) => {
    const keep = i === 0 || o.topP >= 1 || mass < o.topP;
    mass += Math.exp(c.x - max) / total;
    return keep;
  });
  list = list.filter((c) => Math.exp(c.x - max) >= o.minP);
  const weights = list.map((c) => Math.exp((c.x - max) / o.temperature));
  const sum = weights.reduce((a, b) => a + b, 0);
  return new Map(list.map((c, i) => [c.id, weights[i]! / sum]));
}

/** Draws n tokens and compares the counts with the probabilities: Pearson's statistic below mean + 5 deviations. */
function expectDistribution(
  sampler: Sampler,
  logits: Float32Array,
  expected: Map<number, number>,
  n = 20_000,
): void {
  const counts = new Map<number, number>();
  for (let i = 0; i < n; i++) {
    const id = sampler.sample(logits);
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  for (const id of counts.keys()) expect(expected.has(id), `token ${id} must not be drawn`).toBe(true);
  let chi = 0;
  for (const [id, p] of expected) chi += ((counts.get(id) ?? 0) - n * p) ** 2 / (n * p);
  const freedom = expected.size - 1;
  expect(chi).toBeLessThan(freedom + 5 * Math.sqrt(2 * freedom) + 1e-9);
}

const LOGITS = Float32Array.from([1, 3, 0.5, 2.5, -1, 2, 0, 3, -4, 1.5, 2.25]);

describe("greedy", () => {
  test("temperature 0 takes the largest logit, of equal ones the lowest id", () => {
    expect(new Sampler(11, { temperature: 0 }).sample(LOGITS)).toBe(1);
  });

  test("one token is enough", () => {
    expect(new Sampler(1, { seed: 1 }).sample(Float32Array.of(-3))).toBe(0);
  });

  test("logits beyond the vocabulary are never chosen", () => {
    expect(new Sampler(3, { temperature: 0 }).sample(Float32Array.of(1, 2, 3, 99))).toBe(2);
  });
});

describe("filters", () => {
  const cases: [string, Required<Pick<SamplingOptions, "temperature" | "topK" | "topP" | "minP">>][] = [
    ["nothing", { temperature: 1, topK: 0, topP: 1, minP: 0 }],
    ["temperature below 1", { temperature: 0.5, topK: 0, topP: 1, minP: 0 }],
    ["temperature above 1", { temperature: 2.5, topK: 0, topP: 1, minP: 0 }],
    ["top-k", { temperature: 1, topK: 3, topP: 1, minP: 0 }],
    ["top-k of one", { temperature: 1, topK: 1, topP: 1, minP: 0 }],
    ["top-k above the vocabulary", { temperature: 1, topK: 1000, topP: 1, minP: 0 }],
    ["top-p", { temperature: 1, topK: 0, topP: 0.7, minP: 0 }],
    ["top-p 0 (the best alone)", { temperature: 1, topK: 0, topP: 0, minP: 0 }],
    ["min-p", { temperature: 1, topK: 0, topP: 1, minP: 0.3 }],
    ["min-p 1 (only the best)", { temperature: 1, topK: 0, topP: 1, minP: 1 }],
    ["top-k and min-p", { temperature: 1, topK: 5, topP: 1, minP: 0.5 }],
    ["all of them", { temperature: 0.8, topK: 6, topP: 0.9, minP: 0.2 }],
    ["top-p and min-p", { temperature: 0.8, topK: 0, topP: 0.9, minP: 0.4 }],
  ];
  test.each(cases)("%s: the draws have the probabilities of the definition", (_, options) => {
    expectDistribution(new Sampler(11, { ...options, seed: 42 }), LOGITS, reference(LOGITS, options));
  });

  test("for any logits and options every drawn token is one that the definition leaves", () => {
    const logits = fc.array(fc.integer({ min: -40, max: 40 }), { minLength: 1, maxLength: 70 });
    const options = fc.record({
      temperature: fc.constantFrom(0.1, 0.7, 1, 3),
      topK: fc.integer({ min: 0, max: 80 }),
      topP: fc.constantFrom(0, 0.3, 0.9, 0.99, 1),
      minP: fc.constantFrom(0, 0.01, 0.3, 1),
    });
    fc.assert(
      fc.property(logits, options, fc.nat(), (list, o, seed) => {
        const x = Float32Array.from(list, (v) => v / 4);
        const before = x.slice();
        const sampler = new Sampler(x.length, { ...o, seed });
        const allowed = reference(x, o);
        for (let i = 0; i < 10; i++) expect(allowed.has(sampler.sample(x))).toBe(true);
        expect(x).toEqual(before);
      }),
    );
  });

  test("suppressed tokens are never chosen, not even when they are the best", () => {
    expect(new Sampler(11, { temperature: 0 }, [1, 7]).sample(LOGITS)).toBe(3);
    const sampler = new Sampler(11, OFF, [1, 7]);
    for (let i = 0; i < 500; i++) expect([1, 7]).not.toContain(sampler.sample(LOGITS));
  });
});

describe("repeat penalty", () => {
  test("positive logits are divided, negative ones multiplied", () => {
    const sampler = new Sampler(2, { temperature: 0, repeatPenalty: 2 });
    sampler.accept(0);
    expect(sampler.sample(Float32Array.of(3, 2))).toBe(1);
    expect(sampler.sample(Float32Array.of(5, 2))).toBe(0);
    expect(sampler.sample(Float32Array.of(-1, -1.5))).toBe(1);
  });

  test("a token counts only as long as it is among the last n", () => {
    const sampler = new Sampler(4, { temperature: 0, repeatPenalty: 10, repeatLastN: 2 });
    const logits = Float32Array.of(5, 4, 0, 0);
    for (const id of [0, 0, 2, 3]) sampler.accept(id);
    expect(sampler.sample(logits)).toBe(0);
    sampler.accept(0);
    expect(sampler.sample(logits)).toBe(1);
    sampler.reset();
    expect(sampler.sample(logits)).toBe(0);
  });

  test("a penalty of 1 and a window of 0 change nothing", () => {
    for (const options of [{ repeatPenalty: 1 }, { repeatPenalty: 5, repeatLastN: 0 }]) {
      const sampler = new Sampler(2, { temperature: 0, ...options });
      sampler.accept(0);
      expect(sampler.sample(Float32Array.of(3, 2))).toBe(0);
    }
  });
});

describe("seed", () => {
  const draws = (sampler: Sampler): number[] => Array.from({ length: 50 }, () => sampler.sample(LOGITS));

  test("equal seeds give equal tokens, other seeds others", () => {
    expect(draws(new Sampler(11, OFF))).toEqual(draws(new Sampler(11, OFF)));
    expect(draws(new Sampler(11, { ...OFF, seed: 8 }))).not.toEqual(draws(new Sampler(11, OFF)));
    expect(draws(new Sampler(11, { ...OFF, seed: 7 + 2 ** 32 }))).not.toEqual(draws(new Sampler(11, OFF)));
  });

  test("without a seed one is drawn and can be read", () => {
    const sampler = new Sampler(11, { temperature: 1 });
    const first = draws(sampler);
    expect(draws(new Sampler(11, { temperature: 1, seed: sampler.random.seed }))).toEqual(first);
    expect(new Random().seed).not.toBe(new Random().seed);
  });

  test("the generator gives the numbers of its definition", () => {
    const a = new Random(0);
    expect([a.next(), a.next(), a.next()]).toEqual(GOLDEN);
    a.restart();
    expect(a.next()).toBe(GOLDEN[0]);
  });
});

// xoshiro128** after splitmix32, worked out apart with arbitrary-precision integers (which give 11520, 0, 5927040 from 1, 2, 3, 4)
const GOLDEN: number[] = [0.41675133265905573, 0.5870561741002205, 0.2650367332581032];

describe("exact exp", () => {
  test("agrees with Math.exp within 4e-16, and reaches 0 and 1", () => {
    for (let x = 0; x > -700; x -= 0.37) {
      expect(Math.abs(expNegative(x) / Math.exp(x) - 1)).toBeLessThan(4.5e-16);
    }
    expect([expNegative(0), expNegative(-800), expNegative(-Infinity), expNegative(NaN)]).toEqual([
      1, 0, 0, 0,
    ]);
  });

  test("its logarithm is the least x that reaches p", () => {
    for (const p of [1, 0.5, 0.05, 1e-6, 1e-300]) {
      const x = logProbability(p);
      expect(expNegative(x)).toBeGreaterThanOrEqual(p);
      expect(expNegative(x - 1e-12 * (1 - x))).toBeLessThan(p);
    }
  });
});

describe("bad input", () => {
  test("NaN, infinite and missing logits are refused", () => {
    for (const bad of [NaN, Infinity, -Infinity]) {
      for (const temperature of [0, 1]) {
        const sampler = new Sampler(3, { temperature });
        expect(() => sampler.sample(Float32Array.of(1, bad, 2))).toThrow(
          expect.objectContaining({ code: "non-finite" }),
        );
        expect(sampler.sample(Float32Array.of(1, 90, 2))).toBe(1);
      }
    }
    expect(() => new Sampler(3).sample(Float32Array.of(1))).toThrow(FormatError);
  });

  test("misspelt options are a TypeError, values out of range a GraphError", () => {
    expect(() => new Sampler(3, { temprature: 1 } as SamplingOptions)).toThrow(TypeError);
    const bad: SamplingOptions[] = [
      { temperature: -1 },
      { temperature: NaN },
      { temperature: Infinity },
      { topK: -1 },
      { topK: 1.5 },
      { topP: 1.1 },
      { topP: -0.1 },
      { minP: 2 },
      { repeatPenalty: 0 },
      { repeatLastN: -1 },
      { repeatLastN: 2 ** 31 },
      { seed: -1 },
      { seed: 0.5 },
      { temperature: "1" as unknown as number },
    ];
    for (const options of bad)
      expect(() => new Sampler(3, options), JSON.stringify(options)).toThrow(GraphError);
  });

  test("undefined options mean the defaults", () => {
    const { temperature, topK } = new Sampler(3, { topK: undefined } as unknown as SamplingOptions).settings;
    expect([temperature, topK]).toEqual([0.8, 40]);
  });
});
