// Models on a device that is not the CPU: weights by staging, some layers here and some there, memory that runs out.
// The device runs the CPU's kernels, so results are the CPU's bits.
import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openGguf } from "../ts/gguf/index.ts";
import { loadModel, type LoadOptions, type Model, planModel, readModelHeader } from "../ts/llm/index.ts";
import { createEngine, type Engine, startEngine } from "../ts/runtime/engine.ts";
import { engineWith, RemoteBackend, type RemoteOptions } from "./backends/remote.ts";
import { dataDir, describeWith } from "./data.ts";
import { pinEverySecondLayer } from "./pinned.ts";

const path = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);

const open: { dispose(): void }[] = [];

afterEach(() => {
  for (const x of open.splice(0)) x.dispose();
});

async function remoteEngine(options: RemoteOptions = {}): Promise<{ engine: Engine; device: RemoteBackend }> {
  const device = await RemoteBackend.open("webgpu", options);
  const engine = await engineWith([device]);
  open.push(engine);
  return { engine, device };
}

const story = async (model: Model): Promise<readonly number[]> =>
  (await model.complete("Once upon a time, there was a", { temperature: 0, maxTokens: 12, ignoreEos: true }))
    .tokens;

async function cpuStory(type: string): Promise<readonly number[]> {
  const model = await loadModel(path(type), { nThreads: 1, device: "cpu" });
  const tokens = await story(model);
  model.dispose();
  return tokens;
}

async function withModel(
  engine: Engine,
  options: LoadOptions,
  use: (m: Model) => Promise<void>,
  type = "q8_0",
): Promise<void> {
  const model = await loadModel(path(type), { engine, nCtx: 64, ...options });
  await use(model);
  model.dispose();
}

/** Backends of the splits of the single-token graph. */
async function splitsOf(engine: Engine, gpuLayers?: number): Promise<string[]> {
  const { file, source } = await openGguf(path("q8_0"));
  const plan = planModel(engine, readModelHeader(file), { nCtx: 64, gpuLayers });
  await source.close();
  return engine.splits(plan.context!.graphs.single.graph).map((s) => s.backend);
}

describeWith("models", "a model on a device", () => {
  test.each(["f32", "f16", "q8_0", "q4_0"])(
    "%s: weights, cache and results are there, the tokens are the CPU's",
    async (type) => {
      const { engine, device } = await remoteEngine({ delayMs: 1 });
      await withModel(
        engine,
        {},
        async (model) => {
          expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0 });
          expect(new Set([...device.buffers].map((b) => b.use))).toEqual(
            new Set(["weights", "kv", "compute"]),
          );
          expect(await story(model)).toEqual(await cpuStory(type));
          const { meanNll } = await model.evaluate("Once upon a time");
          expect(meanNll).toBeGreaterThan(0);
        },
        type,
      );
      expect(device.buffers.size).toBe(0);
    },
  );

  test("a stream goes to the device piece by piece", async () => {
    const server = createServer(
      (_, response) => void createReadStream(path("q4_0"), { highWaterMark: 7001 }).pipe(response),
    );
    await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
    const { port } = server.address() as AddressInfo;
    const { engine } = await remoteEngine();
    const model = await loadModel(new URL(`http://127.0.0.1:${port}/m.gguf`), { engine, nCtx: 64 });
    expect(await story(model)).toEqual(await cpuStory("q4_0"));
    model.dispose();
    server.close();
  });

  test.each([0, 1, 2, 4])("%i layers on the device, the others on the CPU", async (gpuLayers) => {
    const { engine, device } = await remoteEngine();
    const want = await cpuStory("q8_0");
    await withModel(engine, { gpuLayers }, async (model) => {
      expect(await story(model)).toEqual(want);
      const here = engine.memory();
      expect(here.weights).toBeGreaterThan(0);
      const there = [...device.buffers].reduce((sum, b) => sum + (b.use === "weights" ? b.size : 0), 0);
      expect(there > 0).toBe(gpuLayers > 0);
    });
    expect(device.buffers.size).toBe(0);
    const far = await remoteEngine({ costs: { speed: 8, roundTripMs: 0.003 } });
    // The table of tokens, which is the output's matrix too, is with the output: reading it here takes longer than a wait.
    const withOutput = gpuLayers === 0 ? ["cpu"] : ["webgpu", "cpu", "webgpu"];
    expect(await splitsOf(far.engine, gpuLayers)).toEqual(withOutput);
  });

  test("a small table of tokens that is the output's too stays with the first layers: one wait a token", async () => {
    const { engine, device } = await remoteEngine({ costs: { speed: 8, roundTripMs: 4 } });
    expect(await splitsOf(engine, 1)).toEqual(["webgpu", "cpu", "webgpu"]);
    for (const gpuLayers of [2, 4]) {
      expect(await splitsOf(engine, gpuLayers)).toEqual(["cpu", "webgpu", "cpu"]);
      await withModel(engine, { gpuLayers }, async (model) => {
        const before = device.fetched;
        expect(await story(model)).toEqual(await cpuStory("q8_0"));
        expect(device.fetched - before).toBe(12); // the prompt and all but the last token
      });
    }
    expect(await splitsOf(engine)).toEqual(["webgpu"]);
  });

  test("every second layer on the CPU", async () => {
    const { engine } = await remoteEngine();
    const want = await cpuStory("q8_0");
    pinEverySecondLayer(engine, 5);
    await withModel(engine, {}, async (model) => {
      expect(model.params.nLayer).toBe(5);
      expect(engine.memory().weights).toBeGreaterThan(0);
      expect(await story(model)).toEqual(want);
    });
  });

  test.each([true, false])(
    "a device with too little memory gets as many layers as fit; told late: %s",
    async (late) => {
      const probe = await remoteEngine();
      let all = 0;
      await withModel(probe.engine, {}, async () => {
        all = [...probe.device.buffers].reduce((sum, b) => sum + b.size, 0);
      });
      const { engine, device } = await remoteEngine({ capacity: Math.floor(0.6 * all), late });
      const warn = vi.fn<(message: string) => void>();
      await withModel(engine, { logger: { warn } }, async (model) => {
        expect(warn).toHaveBeenCalledWith(expect.stringMatching(/layers on the device/));
        expect(device.buffers.size).toBeGreaterThan(0);
        expect(engine.memory().weights).toBeGreaterThan(0);
        expect(await story(model)).toEqual(await cpuStory("q8_0"));
      });
      const none = await remoteEngine({ capacity: 0, late });
      await withModel(none.engine, {}, async (model) => {
        expect(none.device.buffers.size).toBe(0);
        expect(await story(model)).toEqual(await cpuStory("q8_0"));
      });
    },
  );

  test("weights and caches lie in as many buffers as the device's largest asks for", async () => {
    const { engine, device } = await remoteEngine({ maxSize: 2 ** 17 });
    await withModel(engine, { nCtx: 512, nBatch: 8 }, async (model) => {
      const count = (use: string): number => [...device.buffers].filter((b) => b.use === use).length;
      expect(count("weights")).toBeGreaterThan(2);
      expect(count("kv")).toBeGreaterThan(2);
      expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0 });
      expect(await story(model)).toEqual(await cpuStory("q8_0"));
    });
  });

  test("an aborted load leaves nothing on the device", async () => {
    const { engine, device } = await remoteEngine();
    const reason = new Error("stop");
    const controller = new AbortController();
    const load = loadModel(path("f32"), {
      engine,
      signal: controller.signal,
      onProgress: () => controller.abort(reason),
    });
    await expect(load).rejects.toBe(reason);
    expect(device.buffers.size).toBe(0);
    expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0, scratch: 0 });
  });

  test("what the header promises is what is taken, here and there", async () => {
    const { engine, device } = await remoteEngine();
    const { file, source } = await openGguf(path("q8_0"));
    const plan = planModel(engine, readModelHeader(file), { nCtx: 64, gpuLayers: 3 });
    await source.close();
    await withModel(engine, { gpuLayers: 3 }, async () => {
      const there = [...device.buffers].reduce((sum, b) => sum + b.size, 0);
      expect(plan.memory.devices).toEqual([{ name: "webgpu", bytes: there }]);
      const { weights, kv, compute, records, devices } = engine.memory();
      expect(devices).toMatchObject([{ name: "webgpu", total: there }]);
      expect(plan.memory).toMatchObject({ weights, kv, compute, records });
    });
  });

  test("a number of layers that is none is refused", async () => {
    const engine = await createEngine({ nThreads: 1, device: "cpu" });
    open.push(engine);
    for (const gpuLayers of [-1, 1.5, NaN]) {
      await expect(loadModel(path("f32"), { engine, gpuLayers })).rejects.toThrow(/gpuLayers/);
    }
  });

  test.each(["again", "no more"])(
    "a text outlives its device, and so do the calls after it; opened %s",
    async (again) => {
      const made: RemoteBackend[] = [];
      const engine = await startEngine({ nThreads: 1, device: "webgpu" }, async () => {
        if (made.length > 0 && again === "no more") throw new Error("gone for good");
        const backend = await RemoteBackend.open("webgpu");
        made.push(backend);
        return { backend, description: "test", software: false };
      });
      open.push(engine);
      const want = await cpuStory("q8_0");
      const model = await loadModel(path("q8_0"), { engine, nCtx: 64 });
      const second = await model.createContext({ nCtx: 32 });
      const onToken = (): void => made[0]!.lose();
      const first = { temperature: 0, maxTokens: 12, ignoreEos: true, onToken };
      expect((await model.complete("Once upon a time, there was a", first)).tokens).toEqual(want);
      expect(await story(model)).toEqual(want);
      expect(engine.memory().weights > 0).toBe(again === "no more");
      expect(made.length).toBe(again === "again" ? 2 : 1);
      expect(
        (await second.complete("Once upon a time, there was a", { temperature: 0, maxTokens: 4 })).tokens,
      ).toEqual(want.slice(0, 4));
      expect((await model.evaluate("Once upon a time")).meanNll).toBeGreaterThan(0);
      model.dispose();
      expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0 });
      expect(made.at(-1)!.buffers.size).toBe(0);
    },
  );
});
