// A GPU whose largest buffer is a part of what a model's activations need: the bits of one buffer, and nothing made on the way.
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { loadModel, type Model } from "../ts/llm/index.ts";
import { type Engine, startEngine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import { dataDir, describeWith } from "./data.ts";
import { describeGpu } from "./gpu_describe.ts";
import { testGpu } from "./gpu_host.ts";

const PATH = join(dataDir("models"), "stories260K/stories260K-f32.gguf");
/** A driver that compiles and computes on a busy CPU takes its time. */
const PATIENCE_MS = 300_000;
const PROMPT = "Once upon a time there was a little girl who had a big red ball and a small brown dog.";
/** No tensor of 191 tokens is larger (172 x 191 in F32, padded), nor the table of tokens. */
const MAX_BUFFER = 131_584;
const N_BATCH = 191;

await describeGpu("activations in several buffers of a GPU", () => {
  vi.setConfig({ testTimeout: PATIENCE_MS, hookTimeout: PATIENCE_MS });
  let engine: Engine;
  let backend: GpuBackend;
  let most: number;

  // one engine for all: pipelines are an engine's
  beforeAll(async () => {
    backend = new GpuBackend(await openDevice({ gpu: await testGpu() }));
    most = backend.bufferType.maxSize;
    backend.prepare = () => Promise.resolve(); // others test its kernels
    const opened = { backend, description: backend.gpu.adapter.name, software: true };
    engine = await startEngine({ nThreads: 1, device: "webgpu" }, async () => opened);
  });

  afterEach(() => limitTo(most));

  afterAll(() => {
    engine.dispose();
    expect(backend.gpu.counts.liveBytes).toBe(0);
  });

  const limitTo = (bytes: number): void => void Object.assign(backend.bufferType, { maxSize: bytes });
  const load = (nBatch = N_BATCH): Promise<Model> => loadModel(PATH, { engine, nBatch, nCtx: 256 });

  test("two graphs over the same buffers run 500 times by turns, and nothing is made", async () => {
    limitTo(4096);
    const make = (n: number): { g: Graph; x: Tensor; y: Tensor } => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [n]);
      const [a, b] = [g.scale(x, 2), g.scale(x, 3)];
      return { g, x, y: g.add(g.mul(a, b), g.mul(x, g.add(a, b))).asOutput() };
    };
    const graphs = [make(700), make(65)]; // 2816 bytes each: one to a buffer; 512: all in one
    const { plans } = engine.reserve(graphs.map(({ g }) => g));
    expect(plans.map((p) => p.backends[0]!.chunks.length)).toEqual([4, 1]);
    const { counts } = backend.gpu;
    let made: object = {};
    for (let i = 0; i < 500; i++) {
      const { g, x, y } = graphs[i % 2]!;
      if (i < 2 || i > 497) x.write(Float32Array.from({ length: x.ne[0] }, (_, k) => k + i));
      await g.compute();
      if (i < 2 || i > 497) {
        // 6 x x + 5 x x
        const want = Float32Array.from({ length: x.ne[0] }, (_, k) => 11 * (k + i) ** 2);
        expect(await y.read()).toEqual(want);
      }
      const { buffers, bindGroups, pipelines, liveBytes } = counts;
      if (i === 1) made = { buffers, bindGroups, pipelines, liveBytes };
    }
    expect(counts).toMatchObject(made);
    for (const { g } of graphs) g.dispose();
    expect(engine.memory().devices).toMatchObject([{ compute: 0 }]);
  });

  describeWith("models", "stories260K", () => {
    async function logitsOf(model: Model): Promise<Float32Array[]> {
      const seen: Float32Array[] = [];
      const onLogits = (row: Float32Array): void => void seen.push(row.slice());
      await model.complete(PROMPT, { temperature: 0, maxTokens: 1, cachePrompt: false, onLogits });
      return seen;
    }

    test("the logits of a prompt are those of one buffer, bit for bit, and a second run makes nothing", async () => {
      const whole = await load();
      const want = await logitsOf(whole);
      whole.dispose();
      limitTo(MAX_BUFFER);
      const parts = await load();
      expect(engine.memory().devices[0]!.compute).toBeGreaterThan(2 * MAX_BUFFER);
      expect(engine.memory().compute).toBe(0);
      expect(await logitsOf(parts)).toEqual(want);
      const { buffers, bindGroups, pipelines, liveBytes } = { ...backend.gpu.counts };
      expect(await logitsOf(parts)).toEqual(want);
      expect(backend.gpu.counts).toMatchObject({ buffers, bindGroups, pipelines, liveBytes });
      expect(backend.lost).toBeUndefined();
      parts.dispose();
      expect(engine.memory().devices).toMatchObject([{ weights: 0, kv: 0, compute: 0 }]);
    });

    test("a batch with a tensor above the largest buffer is a typed error, and the engine lives", async () => {
      limitTo(MAX_BUFFER);
      await expect(load(N_BATCH + 1)).rejects.toThrow(expect.objectContaining({ code: "too-large" }));
      const model = await load();
      expect(await logitsOf(model)).toHaveLength(1);
      model.dispose();
    });
  });
});
