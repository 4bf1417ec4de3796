// The choice of a token inside a graph, against the definition in double precision, written apart.
import { afterAll, describe, expect, it, test } from "vitest";
import { chooseToken, choiceInput, deviceCandidates, setRandom } from "../ts/llm/device_sampling.ts";
import { samplingSettings, type SamplingOptions } from "../ts/llm/sampling.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { random } from "./op_data.ts";

const N = 300;
const engine = await createEngine({ nThreads: 1, device: "cpu" });

afterAll(() => engine.dispose());

/** Cumulative probabilities of the candidates that the settings leave, best first. */
function definition(logits: Float32Array, options: SamplingOptions): { id: number; upTo: number }[] {
  const { topK, topP, minP, temperature } = samplingSettings(options, N);
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b);
  const best = order.slice(0, topK === 0 ? N : topK);
  const weight = (id: number, t: number): number => Math.exp((logits[id]! - logits[best[0]!]!) / t);
  const all = best.reduce((sum, id) => sum + weight(id, 1), 0);
  const kept: number[] = [];
  let sum = 0;
  for (const id of best) {
    if (kept.length > 0 && ((topP < 1 && sum >= topP * all) || weight(id, 1) < minP)) break;
    kept.push(id);
    sum += weight(id, 1);
  }
  const total = kept.reduce((s, id) => s + weight(id, temperature), 0);
  let upTo = 0;
  return kept.map((id) => ({ id, upTo: (upTo += weight(id, temperature) / total) }));
}

/** A graph that chooses among `n` logits by these options. */
function chooser(
  options: SamplingOptions,
  n = N,
): (logits: Float32Array, uniform: number) => Promise<number> {
  const settings = samplingSettings(options, n);
  const g = engine.graph();
  const logits = g.input("logits", Type.F32, [n]);
  const { id, input } = chooseToken(g, logits, deviceCandidates(settings, n)!);
  id.asOutput();
  g.plan();
  const values = new Float32Array(4);
  choiceInput(settings, values);
  return async (data, uniform) => {
    logits.write(data);
    setRandom(values, uniform);
    input?.write(values);
    await g.compute();
    return (await id.read())[0] as number;
  };
}

describe("a token chosen in a graph", () => {
  test.each<[string, SamplingOptions]>([
    ["the defaults", {}],
    ["top-k of one", { topK: 1 }],
    ["top-k alone", { topK: 33, topP: 1, minP: 0, temperature: 1 }],
    ["top-p alone", { topK: 256, topP: 0.5, minP: 0, temperature: 1 }],
    ["top-p 0", { topP: 0 }],
    ["min-p alone", { topK: 256, topP: 1, minP: 0.3 }],
    ["min-p 1", { topP: 1, minP: 1 }],
    ["a low temperature", { temperature: 0.05 }],
    ["hardly any temperature", { temperature: 1e-12 }],
    ["a high temperature", { temperature: 40, topP: 0.99, minP: 0 }],
  ])("is the one of the definition: %s", async (_title, options) => {
    const choose = chooser(options);
    const next = random(5);
    for (let i = 0; i < 40; i++) {
      const logits = Float32Array.from({ length: N }, () => 12 * (next() - 0.5));
      const want = definition(logits, options);
      const uniform = i === 0 ? 0 : i === 1 ? 1 - 2 ** -53 : next();
      // F32 may differ in sums by a little
      const near = want.filter(
        ({ upTo }, j) => uniform < upTo + 1e-5 && uniform >= (want[j - 1]?.upTo ?? 0) - 1e-5,
      );
      expect(near.map(({ id }) => id)).toContain(await choose(logits, uniform));
    }
  });

  it("is the lowest of equal ones when the best is asked for", async () => {
    const choose = chooser({ temperature: 0 });
    const logits = new Float32Array(N).fill(-1);
    logits[7] = logits[200] = 3;
    expect(await choose(logits, 0)).toBe(7);
  });

  it("may be any of all equal ones", async () => {
    const choose = chooser({ topK: 0, topP: 1 }, 3);
    const same = new Float32Array(3).fill(-2);
    for (const [i, u] of [0.1, 0.5, 0.9].entries()) expect(await choose(same, u)).toBe(i);
  });
});

test("settings that only the sampler can follow are left to it", () => {
  const k = (options: SamplingOptions, n = N): number | undefined =>
    deviceCandidates(samplingSettings(options, n), n);
  expect(k({ temperature: 0 })).toBe(0);
  expect(k({})).toBe(40);
  expect(k({}, 33)).toBe(33);
  expect(k({ topK: 0 }, 256)).toBe(256);
  expect(k({ repeatPenalty: 1.2, repeatLastN: 0 })).toBe(40);
  const left: SamplingOptions[] = [
    { topK: 0 },
    { topK: 257 },
    { typicalP: 0.9 },
    { temperature: 0, typicalP: 0.9 },
    { repeatPenalty: 1.1 },
    { frequencyPenalty: 0.1 },
    { presencePenalty: 0.1, temperature: 0 },
    { dryMultiplier: 0.8 },
    { logitBias: { 3: 1 } },
  ];
  for (const options of left) expect(k(options), JSON.stringify(options)).toBeUndefined();
});
