// Loading into an engine that is shared: with other loads at the same time, or disposed half way.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type ByteSource, openSource } from "../ts/gguf/index.ts";
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

  describe("between the last byte and the model", () => {
    const bytes = readFileSync(modelFile("llama-f16"));
    const empty = { weights: 0, kv: 0, compute: 0, records: 0, scratch: 0 };

    /** A source that does something more where it is closed or asked to load. */
    async function sourceWith(
      more: Partial<Record<"load" | "close", () => void | Promise<void>>>,
    ): Promise<ByteSource> {
      const source = await openSource(bytes);
      return {
        name: source.name,
        size: source.size,
        read: (offset, length) => source.read(offset, length),
        load: async (parts, { onProgress } = {}) => {
          await source.load(parts, { onProgress });
          await more.load?.();
        },
        close: async () => {
          await source.close();
          await more.close?.();
        },
      };
    }

    const places: Record<
      string,
      (engine: Engine, then: () => void) => ByteSource | Promise<ByteSource> | Uint8Array
    > = {
      "a source that ignores the signal": (_, then) => sourceWith({ load: then }),
      "the threads come": (engine, then) => {
        Object.defineProperty(engine, "arrived", { get: async () => then() });
        return bytes;
      },
      "the source is closed": (_, then) => sourceWith({ close: then }),
    };

    test.each(Object.keys(places))("an abort is heard, and all is given back: %s", async (place) => {
      using engine = await start();
      const reason = new Error("stop");
      const controller = new AbortController();
      const input = await places[place]!(engine, () => controller.abort(reason));
      await expect(loadModel(input, { engine, signal: controller.signal })).rejects.toBe(reason);
      expect(engine.memory()).toMatchObject(empty);
      using model = await loadModel(bytes, { engine });
      expect((await model.complete([5, 6, 7], { maxTokens: 3, ignoreEos: true })).tokens).toHaveLength(3);
    });

    test("an abort while the engine starts is heard before memory is taken", async () => {
      const reason = new Error("stop");
      const controller = new AbortController();
      let loads = 0;
      const input = await sourceWith({ load: () => void loads++ });
      const load = loadModel(input, { device: "cpu", nThreads: 1, signal: controller.signal });
      setTimeout(() => controller.abort(reason));
      await expect(load).rejects.toBe(reason);
      expect(loads).toBe(0);
    });

    test("a source that fails to close gives its fault and all memory back", async () => {
      using engine = await start();
      const fault = new Error("not closed");
      const input = await sourceWith({ close: () => Promise.reject(fault) });
      await expect(loadModel(input, { engine })).rejects.toBe(fault);
      expect(engine.memory()).toMatchObject(empty);
    });

    test("another load that begins while the threads come takes no room of this one", async () => {
      using measured = await start();
      const { total } = (await loadModel(bytes, { engine: measured, ...context })).memory();
      using engine = await start(total);
      let second: Promise<Model> | undefined;
      Object.defineProperty(engine, "arrived", {
        get: async () => {
          if (second === undefined) await (second = load(engine, "bert-mean")).catch(() => undefined);
        },
      });
      const model = await loadModel(bytes, { engine, ...context });
      await expect(second).rejects.toMatchObject({ code: "out-of-memory" });
      expect((await model.complete([5, 6, 7], { maxTokens: 3, ignoreEos: true })).tokens).toHaveLength(3);
    });
  });
});
