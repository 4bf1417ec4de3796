// Tiny models of every architecture: against llama.cpp's logits, and against themselves in other batches and threads.
import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { archDir, best, type CausalCase, caseNames, nmse, readCase } from "./arch/golden.ts";
import { causalRows, runCase, start } from "./arch/run.ts";

const built = existsSync(archDir());
const names = built ? caseNames() : [];
const causal = names.filter((name) => readCase(name).kind === "causal");

test.runIf(built || process.env["CI"] === "true")("the golden models are there", () => {
  expect(names.length).toBeGreaterThan(0);
});

describe.skipIf(!built)("golden models", () => {
  test.for(names)("%s agrees with llama.cpp", async (name) => {
    expect(await runCase(name)).toBeUndefined();
  });

  test.for(causal)("%s: same bits token by token, in one batch, on two threads", async (name) => {
    const golden = readCase(name) as CausalCase;
    const run = async (nBatch: number, nThreads: number): Promise<Float32Array[]> => {
      const model = await start(name, { nBatch, nThreads });
      // first a prompt shorter than most things that a batch holds
      const short: Float32Array[] = [];
      const onLogits = (logits: Float32Array): void => void short.push(logits.slice());
      await model.complete(golden.prompt.slice(0, 2), { temperature: 0, maxTokens: 1, onLogits });
      const { prompt, steps } = await causalRows(golden, model);
      model.dispose();
      return [...short, ...prompt, ...steps];
    };
    const single = await run(1, 1);
    expect(await run(64, 1)).toEqual(single);
    expect(await run(7, 2)).toEqual(single);
  });
});

describe("the measure itself", () => {
  test("is relative to the reference and infinite for wrong lengths and numbers", () => {
    expect(nmse([[1, 2]], [[1, 2]])).toBe(0);
    expect(nmse([[1, 0]], [[0, 2]])).toBe(5 / 4);
    expect(nmse([[1]], [[1, 2]])).toBe(Infinity);
    expect(nmse([], [[1, 2]])).toBe(Infinity);
    expect(nmse([[NaN, 2]], [[1, 2]])).toBe(Infinity);
    expect(best([1, 3, 2])).toBe(1);
  });
});
