// Decoding on a GPU without waiting for tokens: the ids of waiting for each, nothing made on the way, loss of the device.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type GenerateOptions, loadModel, type Model } from "../ts/llm/index.ts";
import { type Engine, startEngine } from "../ts/runtime/engine.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { Type } from "../ts/types.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import { dataDir, describeWith } from "./data.ts";
import { describeGpu } from "./gpu_describe.ts";
import { testGpu } from "./gpu_host.ts";
import { writeSynthetic } from "./synthetic.ts";

const path = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);
/** A driver that compiles and computes on a busy CPU takes its time. */
const PATIENCE_MS = 300_000;
const PROMPT = "Once upon";
const GREEDY: GenerateOptions = { temperature: 0, maxTokens: 12, ignoreEos: true };

await describeGpu("decoding on the GPU", () => {
  vi.setConfig({ testTimeout: PATIENCE_MS, hookTimeout: PATIENCE_MS });
  const open: Model[] = [];
  const folder = mkdtempSync(join(tmpdir(), "slackwater-"));
  let engine: Engine;
  let backend: GpuBackend;

  // one engine for all: pipelines are an engine's. The last test ends it
  beforeAll(async () => {
    backend = new GpuBackend(await openDevice({ gpu: await testGpu() }));
    const opened = { backend, description: backend.gpu.adapter.name, software: true };
    engine = await startEngine({ nThreads: 1, device: "webgpu" }, () => Promise.resolve(opened));
  });

  afterEach(() => {
    vi.restoreAllMocks();
    for (const model of open.splice(0).reverse()) model.dispose();
  });

  afterAll(() => {
    engine.dispose();
    rmSync(folder, { recursive: true });
  });

  async function load(from: string, nCtx = 64): Promise<Model> {
    const model = await loadModel(from, { nBatch: 1, nCtx, engine });
    open.push(model);
    return model;
  }

  /** One layer of zeros: says the same token for ever. */
  async function smallest(): Promise<Model> {
    const file = join(folder, "zeros.gguf");
    const shape = { nEmbd: 64, nLayer: 1, nHead: 2, nHeadKv: 1, nFf: 96, nCtx: 640, type: Type.F32 };
    writeSynthetic(file, shape);
    return load(file, shape.nCtx);
  }

  /** Ids with the logits read and awaited for each. */
  async function awaited(model: Model, options: GenerateOptions): Promise<readonly number[]> {
    const all = { ...options, onLogits: () => undefined, cachePrompt: false };
    return (await model.complete(PROMPT, all)).tokens;
  }

  describeWith("models", "of stories260K", () => {
    test("the tokens are those of waiting for each: f32, greedy and drawn", async () => {
      const model = await load(path("f32"));
      for (const options of [GREEDY, { seed: 11, maxTokens: 12, ignoreEos: true }]) {
        const want = await awaited(model, options);
        const { tokens } = model.context;
        expect((await model.complete(PROMPT, options)).tokens).toEqual(want);
        expect(model.context.tokens).toEqual(tokens);
      }
    });

    test("the tokens are those of waiting for each: f16", async () => {
      const model = await load(path("f16"));
      const options = { ...GREEDY, maxTokens: 6 };
      expect((await model.complete(PROMPT, options)).tokens).toEqual(await awaited(model, options));
    });
  });

  test("makes nothing in 500 steps, and has few of them under way", async () => {
    const model = await smallest();
    const { counts } = backend.gpu;
    const { readback } = backend.bufferType;
    await model.complete(PROMPT, { ...GREEDY, maxTokens: 6 });
    const { buffers, bindGroups, pipelines, liveBytes, dispatches } = { ...counts };
    let underWay = 0;
    let most = 0;
    const sizes: number[] = [];
    const real = readback.readInto.bind(readback);
    vi.spyOn(readback, "readInto").mockImplementation(async (source, offset, target) => {
      sizes.push(target.length);
      most = Math.max(most, ++underWay);
      await real(source, offset, target).finally(() => underWay--);
    });
    const { tokens } = await model.complete(PROMPT, { ...GREEDY, maxTokens: 501 });
    expect(tokens).toHaveLength(501);
    expect(counts).toMatchObject({ buffers, bindGroups, pipelines, liveBytes });
    expect(sizes).toEqual([4 * model.params.nVocab, ...Array(500).fill(260)]);
    expect([most, underWay]).toEqual([4, 0]);
    // the last of the prompt, which is in the cache but for it; steps also choose: argmax, sum and two copies
    const each = 10 * model.params.nLayer + 4;
    expect(counts.dispatches - dispatches).toBe(each + 500 * (each + 4));
  });

  test("goes on on the CPU when the device goes, which keeps nothing", async () => {
    const model = await smallest();
    const { tokens: want } = await model.complete(PROMPT, GREEDY);
    let n = 0;
    const onToken = (): void => void (++n === 4 && backend.gpu.device.destroy());
    expect((await model.complete(PROMPT, { ...GREEDY, onToken })).tokens).toEqual(want);
    expect(backend.lost?.code).toBe("device-lost");
    expect(engine.memory().weights).toBeGreaterThan(0);
    engine.dispose();
    expect(backend.gpu.counts.liveBytes).toBe(0);
  });
});
