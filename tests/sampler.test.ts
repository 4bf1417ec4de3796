// Sampling: against a plain float64 reference of the same chain, and by the statistics of many draws.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FormatError, GraphError } from "../ts/errors.ts";
import { Random, expNegative, logProbability } from "../ts/llm/random.ts";
import { Sampler } from "../ts/llm/sampler.ts";
import type { SamplingOptions } from "../ts/llm/sampling.ts";

const OFF: SamplingOptions = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 7 };

/** Probabilities by the definition: full sort, one filter after the other. */
function reference(
  logits: ArrayLike<number>,
  o: { temperature: number; topK: number; topP: number; minP: number; typicalP?: number },
): Map<number, number> {
  let list = Array.from(logits, (x, id) => ({ x, id })).sort((a, b) => b.x - a.x || a.id - b.id);
  if (o.topK > 0) list = list.slice(0, o.topK);
  if (o.typicalP !== undefined && o.typicalP < 1) list = typical(list, o.typicalP);
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

interface Candidate {
  readonly x: number;
  readonly id: number;
}

/** Locally typical candidates, best first. */
function typical(list: readonly Candidate[], p: number): Candidate[] {
  const total = list.reduce((sum, c) => sum + Math.exp(c.x - list[0]!.x), 0);
  const all = list.map((c) => ({ ...c, p: Math.exp(c.x - list[0]!.x) / total }));
  const entropy = all.reduce((sum, c) => sum - c.p * Math.log(c.p), 0);
  const distance = (c: { p: number }): number => Math.abs(-Math.log(c.p) - entropy);
  all.sort((a, b) => distance(a) - distance(b) || a.id - b.id);
  let mass = 0;
  const end = all.findIndex((c) => (mass += c.p) > p);
  return all.slice(0, end < 0 ? all.length : end + 1).sort((a, b) => b.x - a.x || a.id - b.id);
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
  const cases: [string, Parameters<typeof reference>[1]][] = [
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
    ["typical-p", { temperature: 1, topK: 0, typicalP: 0.5, topP: 1, minP: 0 }],
    ["typical-p 0 (the most typical alone)", { temperature: 1, topK: 0, typicalP: 0, topP: 1, minP: 0 }],
    ["typical-p after top-k", { temperature: 1, topK: 7, typicalP: 0.6, topP: 1, minP: 0 }],
    ["typical-p and the rest", { temperature: 0.7, topK: 9, typicalP: 0.8, topP: 0.9, minP: 0.15 }],
    ["typical-p and min-p", { temperature: 1, topK: 0, typicalP: 0.8, topP: 1, minP: 0.5 }],
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
      typicalP: fc.constantFrom(0, 0.2, 0.83, 1, 1),
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
    expect(new Sampler(11, { temperature: 0 }, { suppressed: [1, 7] }).sample(LOGITS)).toBe(3);
    const sampler = new Sampler(11, OFF, { suppressed: [1, 7] });
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

describe("penalties by count", () => {
  const greedy = (options: SamplingOptions, seen: readonly number[], logits: readonly number[]): number => {
    const sampler = new Sampler(logits.length, { temperature: 0, ...options });
    for (const id of seen) sampler.accept(id);
    return sampler.sample(Float32Array.from(logits));
  };

  test("frequency counts each time, presence once", () => {
    expect(greedy({ frequencyPenalty: 0.5 }, [0, 0], [3, 2.1])).toBe(1);
    expect(greedy({ frequencyPenalty: 0.5 }, [0], [3, 2.1])).toBe(0);
    expect(greedy({ presencePenalty: 0.5 }, [0, 0, 0], [3, 2.4])).toBe(0);
    expect(greedy({ presencePenalty: 0.7 }, [0], [3, 2.4])).toBe(1);
    expect(greedy({ frequencyPenalty: -1 }, [1], [3, 2.4])).toBe(1);
  });

  test("they come after the repeat penalty and after the bias", () => {
    // (4 + 2) / 2 - 2 * 0.5 - 1 = 1
    const options = { repeatPenalty: 2, frequencyPenalty: 0.5, presencePenalty: 1, logitBias: { 0: 2 } };
    expect(greedy(options, [0, 0], [4, 0.99])).toBe(0);
    expect(greedy(options, [0, 0], [4, 1.01])).toBe(1);
  });

  test("only the last n count", () => {
    expect(greedy({ presencePenalty: 9, repeatLastN: 1 }, [0, 1], [3, 2])).toBe(0);
    expect(greedy({ presencePenalty: 9, repeatLastN: 0 }, [0, 1], [3, 2])).toBe(0);
  });
});

describe("logit bias", () => {
  test("adds to logits; -Infinity forbids", () => {
    const sampler = (logitBias: Record<number, number>): number =>
      new Sampler(3, { temperature: 0, logitBias }).sample(Float32Array.of(1, 2, 3));
    expect(sampler({ 0: 2.5 })).toBe(0);
    expect(sampler({ 2: -Infinity })).toBe(1);
    expect(sampler({ 1: 1 })).toBe(1);
    const drawn = new Sampler(3, { ...OFF, logitBias: { 2: -Infinity, 1: -100 } });
    for (let i = 0; i < 200; i++) expect(drawn.sample(Float32Array.of(1, 2, 3))).toBe(0);
  });

  test("ids of no token and values of no number are refused", () => {
    const bad: [Record<string, unknown>, string][] = [
      [{ 3: 1 }, "token-range"],
      [{ "-1": 1 }, "token-range"],
      [{ x: 1 }, "token-range"],
      [{ 1: NaN }, "bad-param"],
      [{ 1: Infinity }, "bad-param"],
      [{ 1: "2" }, "bad-param"],
    ];
    for (const [logitBias, code] of bad)
      expect(() => new Sampler(3, { logitBias } as SamplingOptions)).toThrow(
        expect.objectContaining({ code }),
      );
  });
});

describe("dry", () => {
  const N = 12;
  const piece = (id: number): Uint8Array => new TextEncoder().encode(["\n", "a:b"][id] ?? "x");

  /** What each token loses, found by weighing it against token 11, which no text has. */
  function penalties(options: SamplingOptions, seen: readonly number[]): number[] {
    const sampler = new Sampler(N, { dryMultiplier: 1, ...options, temperature: 0 }, { piece });
    for (const id of seen) sampler.accept(id);
    return Array.from({ length: N - 1 }, (_, id) => {
      let [low, high] = [0, 100];
      while (high - low > 1e-5) {
        const middle = (low + high) / 2;
        const logits = new Float32Array(N).fill(-1e6);
        logits[id] = 8;
        logits[N - 1] = 8 - middle;
        if (sampler.sample(logits) === id) high = middle;
        else low = middle;
      }
      return high < 1e-4 ? 0 : high;
    });
  }

  /** By the definition: for each place where the end of the text stands earlier, the token after it. */
  function definition(options: SamplingOptions, seen: readonly number[]): Map<number, number> {
    const { dryMultiplier = 1, dryBase = 1.75, dryAllowedLength = 2, dryLastN = 4096 } = options;
    const breakers = options.dryBreakers ?? ["\n", ":", '"', "*"];
    const breaks = (id: number): boolean =>
      breakers.some((b) => new TextDecoder().decode(piece(id)).includes(b));
    const text = seen.slice(Math.max(0, seen.length - dryLastN));
    const longest = new Map<number, number>();
    for (let end = 1; end < text.length; end++) {
      let n = 0;
      while (
        n < end &&
        text[end - 1 - n] === text[text.length - 1 - n] &&
        !breaks(text[text.length - 1 - n]!)
      )
        n++;
      const next = text[end]!;
      if (n >= dryAllowedLength && !breaks(next)) longest.set(next, Math.max(n, longest.get(next) ?? 0));
    }
    return new Map([...longest].map(([id, n]) => [id, dryMultiplier * dryBase ** (n - dryAllowedLength)]));
  }

  test("a token that continues a repetition loses by its length", () => {
    // ... 2 3 4 5 ... 2 3 4: 5 would make three four; 3 follows a repetition too short to count.
    const got = penalties({}, [2, 3, 4, 5, 9, 4, 3, 8, 2, 3, 4]);
    expect(got[5]).toBeCloseTo(1.75, 4);
    expect(got[3]).toBe(0);
    expect(got.filter((x) => x > 0).length).toBe(1);
    expect(
      penalties({ dryMultiplier: 0.5, dryBase: 3, dryAllowedLength: 1 }, [7, 8, 7, 8, 7])[8],
    ).toBeCloseTo(4.5, 3);
  });

  test("breakers end a repetition and are never penalised", () => {
    expect(penalties({}, [2, 3, 0, 5, 2, 3, 0]).every((x) => x === 0)).toBe(true);
    expect(penalties({}, [2, 3, 1, 4, 6, 2, 3])[1]).toBe(0);
    expect(penalties({ dryBreakers: ["zz"] }, [2, 3, 0, 5, 2, 3, 0])[5]).toBeCloseTo(1.75, 4);
  });

  test("for any text the penalties are those of the definition", () => {
    const options = fc.record({
      dryAllowedLength: fc.integer({ min: 1, max: 4 }),
      dryLastN: fc.constantFrom(0, 1, 5, 16, 4096),
      dryBase: fc.constantFrom(1, 1.1, 2),
    });
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 60 }), options, (seen, o) => {
        const want = definition(o, seen);
        const sampler = new Sampler(N, { temperature: 0, dryMultiplier: 1, ...o }, { piece });
        for (const id of seen) sampler.accept(id);
        // Token 11 is never seen: a logit just above or below shows each penalty from both sides.
        for (let id = 0; id < 5; id++) {
          const logits = new Float32Array(N).fill(-1e6);
          logits[id] = 8;
          const lost = 8 - (want.get(id) ?? 0);
          logits[11] = lost + 0.01;
          expect(sampler.sample(logits)).toBe(11);
          logits[11] = lost - 0.01;
          expect(sampler.sample(logits)).toBe(id);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("very long repetitions do not overflow", () => {
    const logitBias = { 1: -Infinity, 2: -Infinity };
    const sampler = new Sampler(3, { temperature: 0, dryMultiplier: 5, dryBase: 100, logitBias });
    for (let i = 0; i < 5000; i++) sampler.accept(i % 2);
    // Token 0 would go on with a repetition of thousands. It loses much, but it is not forbidden.
    expect(sampler.sample(Float32Array.of(9, 9, 9))).toBe(0);
  });

  test("a reset forgets the text", () => {
    const sampler = new Sampler(3, { temperature: 0, dryMultiplier: 5 });
    for (let i = 0; i < 10; i++) sampler.accept(i % 2);
    expect(sampler.sample(Float32Array.of(9, 8, 0))).toBe(1);
    sampler.reset();
    expect(sampler.sample(Float32Array.of(9, 8, 0))).toBe(0);
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
      { typicalP: 1.5 },
      { frequencyPenalty: NaN },
      { presencePenalty: Infinity },
      { dryMultiplier: -1 },
      { dryBase: 0.5 },
      { dryAllowedLength: 0 },
      { dryLastN: -1 },
      { dryBreakers: [""] },
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
