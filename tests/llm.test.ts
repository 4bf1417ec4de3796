// Generation and evaluation on the tiny trained model, against llama.cpp's own tokens and logits.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type GenerateOptions, type LoadOptions, loadModel, type Model } from "../ts/llm/index.ts";
import { Type } from "../ts/types.ts";
import { dataDir, describeWith, readData, readJson } from "./data.ts";

interface Step {
  readonly id: number;
  readonly top: readonly (readonly [id: number, logit: number])[];
}
interface Reference {
  readonly gen: readonly { model: string; prompt: string; tokens: number[]; steps: Step[]; text: string }[];
  readonly nll: readonly { model: string; text: string; mean_nll: number; n: number }[];
}

const path = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);

async function withModel<T>(type: string, options: LoadOptions, use: (m: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(path(type), { nThreads: 1, ...options });
  try {
    return await use(model);
  } finally {
    model.dispose();
  }
}

/** Steps before the first at which the two best reference logits are closer than `gap`. */
function clearSteps(steps: readonly Step[], gap: number): number {
  const close = steps.findIndex(({ top }) => top[0]![1] - top[1]![1] < gap);
  return close < 0 ? steps.length : close;
}

describeWith("models", "stories260K", () => {
  const reference = readJson<Reference>("models", "stories260K/reference.json");

  test.each(reference.gen)(
    "$model tells llama.cpp's story after '$prompt'",
    ({ model: type, prompt, tokens, steps, text }) =>
      withModel(type, { kvType: Type.F32 }, async (model) => {
        const seen: Float32Array[] = [];
        const options = {
          temperature: 0,
          maxTokens: steps.length,
          onLogits: (l: Float32Array) => void seen.push(l.slice()),
        };
        const got = await model.complete(prompt, options);
        expect(got.promptTokens).toEqual(tokens);
        const exact = type === "f32" || type === "f16";
        const n = exact ? steps.length : clearSteps(steps, 0.02);
        expect(got.tokens.slice(0, n)).toEqual(steps.slice(0, n).map((s) => s.id));
        if (!exact) return;
        expect(got.text).toBe(text);
        expect(got.stopReason).toBe("limit");
        steps.forEach(({ top }, i) => {
          for (const [id, logit] of top) expect(Math.abs(seen[i]![id]! - logit)).toBeLessThan(0.015);
        });
      }),
  );

  // The margins of facts on quantised activations: f32 0.0005, f16 0.002, q8_0 0.003, q4_0 0.02.
  const bars: Record<string, number> = { f32: 0.0005, f16: 0.002, q8_0: 0.003, q4_0: 0.02 };
  test.each(reference.nll)(
    "$model finds the shared text as likely as llama.cpp does",
    ({ model: type, text, mean_nll, n }) =>
      withModel(type, {}, async (model) => {
        const got = await model.evaluate(text);
        expect(got.nTokens).toBe(n);
        expect(Math.abs(got.meanNll - mean_nll)).toBeLessThan(bars[type]!);
      }),
  );

  test("gives the same bits for any number of threads and any batch size", async () => {
    const prompt = "Lily and Tom went to the park. They saw a big dog and a small cat";
    const run = async (type: string, options: LoadOptions): Promise<Float32Array[]> =>
      withModel(type, options, async (model) => {
        const seen: Float32Array[] = [];
        await model.complete(prompt, {
          temperature: 0,
          maxTokens: 6,
          onLogits: (l) => void seen.push(l.slice()),
        });
        return seen;
      });
    for (const type of ["f32", "f16", "q8_0", "q4_0"]) {
      const want = await run(type, { nThreads: 1, nBatch: 1 });
      for (const options of [{ nBatch: 64 }, { nBatch: 3 }, { nThreads: 2, nBatch: 7 }, { nThreads: 3 }]) {
        expect(await run(type, options)).toEqual(want);
      }
    }
  });

  test("loads from a path, bytes, an ArrayBuffer and a Blob alike", async () => {
    const bytes = readData("models", "stories260K/stories260K-q8_0.gguf") as Uint8Array<ArrayBuffer>;
    const options: GenerateOptions = { temperature: 0, maxTokens: 5 };
    const want = await withModel("q8_0", {}, (m) => m.complete("One day", options));
    for (const input of [bytes, bytes.slice().buffer, new Blob([bytes])]) {
      const model = await loadModel(input, { nThreads: 1 });
      expect((await model.complete("One day", options)).tokens).toEqual(want.tokens);
      model.dispose();
    }
  });

  test("the same seed gives the same story, another seed another", () =>
    withModel("f32", {}, async (model) => {
      const story = async (seed: number): Promise<readonly number[]> =>
        (await model.complete("Once", { seed, temperature: 1, maxTokens: 30 })).tokens;
      const first = await story(7);
      expect(await story(7)).toEqual(first);
      expect(await story(8)).not.toEqual(first);
    }));

  test("stops at the end token, the limit, a stop string and a full context", () =>
    withModel("f32", { nCtx: 48 }, async (model) => {
      const greedy = { temperature: 0 };
      expect((await model.complete("Once upon a time", { ...greedy, maxTokens: 3 })).stopReason).toBe(
        "limit",
      );
      const stopped = await model.complete("Once upon a time", { ...greedy, stop: ["little girl"] });
      expect(stopped.stopReason).toBe("stop");
      expect(stopped.text).toBe(", there was a ");
      const full = await model.complete("Once upon a time", greedy);
      expect(full.stopReason).toBe("context-full");
      expect(full.promptTokens.length + full.tokens.length).toBe(49);
      const eos = model.tokenizer.ids.eos;
      const ended = await model.complete("Once", {
        ...greedy,
        maxTokens: 9,
        onLogits: (l) => void (l[eos] = 1e9),
      });
      expect(ended).toMatchObject({ stopReason: "eos", tokens: [], text: "" });
    }));

  test("an abort keeps what was generated", () =>
    withModel("f32", {}, async (model) => {
      const controller = new AbortController();
      let n = 0;
      const onLogits = (): void => void (++n === 6 && controller.abort(new Error("enough")));
      const got = await model.complete("Once upon a time", {
        temperature: 0,
        signal: controller.signal,
        onLogits,
      });
      expect(got.stopReason).toBe("abort");
      expect(got.tokens.length).toBe(6);
      expect((await model.complete("Once", { temperature: 0, maxTokens: 2 })).tokens.length).toBe(2);
    }));

  test("refuses wrong calls with typed errors and goes on", () =>
    withModel("f32", { nCtx: 32 }, async (model) => {
      await expect(model.complete("Once", { temprature: 0 } as GenerateOptions)).rejects.toThrow(TypeError);
      await expect(model.complete("Once", { temperature: -1 })).rejects.toMatchObject({ code: "bad-param" });
      await expect(model.complete("Once", { maxTokens: 1.5 })).rejects.toMatchObject({ code: "bad-param" });
      await expect(model.complete([1, 512])).rejects.toMatchObject({ code: "token-range" });
      await expect(model.complete("word ".repeat(40))).rejects.toMatchObject({ code: "context-full" });
      const nan = (l: Float32Array): void => void (l[3] = NaN);
      await expect(model.complete("Once", { temperature: 0, onLogits: nan })).rejects.toMatchObject({
        code: "non-finite",
      });
      expect((await model.complete("Once", { temperature: 0, maxTokens: 2 })).tokens.length).toBe(2);
    }));

  test("a second generation meanwhile is refused as busy, the first goes on", () =>
    withModel("f32", {}, async (model) => {
      const first = model.generate("Once upon a time", { temperature: 0, maxTokens: 8 });
      await first.next();
      await expect(model.complete("Once")).rejects.toMatchObject({ code: "busy" });
      let step = await first.next();
      while (!step.done) step = await first.next();
      expect(step.value.tokens.length).toBe(8);
    }));

  test("leaving the loop ends a generation; disposing the model ends it with an error", async () => {
    const model = await loadModel(path("f32"), { nThreads: 1 });
    for await (const text of model.generate("Once", { temperature: 0 })) if (text !== "") break;
    const run = model.generate("Once", { temperature: 0 });
    await run.next();
    model.dispose();
    await expect(run.next()).rejects.toMatchObject({ code: "disposed" });
    await expect(model.complete("Once")).rejects.toMatchObject({ code: "disposed" });
    model.dispose();
  });
});
