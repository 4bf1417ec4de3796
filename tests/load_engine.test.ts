// Loading into an engine that is shared: with other loads at the same time, or disposed half way.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { loadModel, type LoadOptions, type Model } from "../ts/llm/index.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { modelFile } from "./arch/golden.ts";
import { describeWith } from "./data.ts";

const MIB = 2 ** 20;
const start = (maxMemory?: number): Promise<Engine> =>
  createEngine({ device: "cpu", nThreads: 1, ...(maxMemory === undefined ? {} : { maxMemory }) });

describeWith("golden", "an engine that several models share", () => {
  const NAMES = ["llama-f16", "gemma3", "bert-mean"];
  const blob = (name: string): Blob => new Blob([readFileSync(modelFile(name))]);
  const context: LoadOptions = { nCtx: 32768 };
  const load = (engine: Engine, name: string): Promise<Model> =>
    loadModel(blob(name), name === "bert-mean" ? { engine } : { engine, ...context });

  async function memoryAfter(engine: Engine, together: boolean): Promise<number> {
    if (together) await Promise.all(NAMES.map((name) => load(engine, name)));
    else for (const name of NAMES) await load(engine, name);
    return engine.memory().total;
  }

  test("loads at the same time take the memory that they take one after the other", async () => {
    using first = await start();
    using second = await start();
    const want = await memoryAfter(first, false);
    expect(want).toBeGreaterThan(4 * MIB);
    expect(await memoryAfter(second, true)).toBe(want);
    using tight = await start(want);
    expect(await memoryAfter(tight, true)).toBe(want);
  });

  test("where there is room for one model, the second is refused before it is read, and the first is whole", async () => {
    using measured = await start();
    // What a second load must not count on: room that the first has yet to take for keys and values.
    const { total, weights, kv } = (await load(measured, "llama-f16")).memory();
    expect(kv).toBeGreaterThan(20 * weights);
    using engine = await start(total + 2 * weights);
    const read: number[] = [];
    const first = load(engine, "llama-f16");
    const second = loadModel(blob("llama-f16"), {
      engine,
      ...context,
      onProgress: ({ loaded }) => void read.push(loaded),
    });
    await expect(second).rejects.toMatchObject({ code: "out-of-memory" });
    expect(read).toEqual([]);
    const model = await first;
    expect((await model.complete([5, 6, 7], { maxTokens: 3, ignoreEos: true })).tokens).toHaveLength(3);
    const used = engine.memory();
    model.dispose();
    expect(used.scratch).toBe(engine.memory().scratch);
  });

  test.each(["quads", "file"] as const)(
    "a load into an engine that is disposed meanwhile is refused, with rows in the order of %s",
    async (layout) => {
      for (const name of NAMES) {
        const engine = await start();
        // with the last byte: only a check after it can notice
        const onProgress: LoadOptions["onProgress"] = ({ loaded, total }) => {
          if (loaded === total) engine.dispose();
        };
        const options: LoadOptions = { engine, layout, onProgress };
        await expect(loadModel(blob(name), options), name).rejects.toMatchObject({
          name: "GraphError",
          code: "disposed",
        });
        await expect(loadModel(blob(name), { engine })).rejects.toMatchObject({ code: "disposed" });
      }
    },
  );
});
