// Generations whose device is lost on the way: they go on with the same text, on another device or on the CPU. The devices run
// the CPU's kernels, so tokens are the CPU's.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { type ByteSource, openSource } from "../ts/gguf/index.ts";
import { type GenerateOptions, loadModel, type LoadOptions, type Model } from "../ts/llm/index.ts";
import { type Engine, startEngine } from "../ts/runtime/engine.ts";
import { RemoteBackend } from "./backends/remote.ts";
import { dataDir, describeWith } from "./data.ts";

const PROMPT = "Once upon a time, there was a";
const GREEDY: GenerateOptions = { temperature: 0, maxTokens: 16, ignoreEos: true };
const DRAWN: GenerateOptions = { seed: 7, temperature: 0.9, maxTokens: 16, ignoreEos: true };
const LOST: unknown = expect.objectContaining({ name: "DeviceError", code: "device-lost" });

const open: { dispose(): void }[] = [];

afterEach(() => {
  for (const x of open.splice(0).reverse()) x.dispose();
});

interface Lossy {
  readonly engine: Engine;
  readonly model: Model;
  readonly made: readonly RemoteBackend[];
}

/** A model on a device that is opened again after a loss, or not. */
async function onDevice(again = true, load: LoadOptions = {}, source?: ByteSource): Promise<Lossy> {
  const made: RemoteBackend[] = [];
  const engine = await startEngine({ nThreads: 1, device: "webgpu" }, async () => {
    if (made.length > 0 && !again) throw new Error("gone for good");
    const backend = await RemoteBackend.open("webgpu", { delayMs: 1 });
    made.push(backend);
    return { backend, description: "test", software: false };
  });
  const path = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");
  const model = await loadModel(source ?? path, { engine, nCtx: 64, nBatch: 8, ...load });
  open.push(engine, model);
  return { engine, model, made };
}

async function tokensOnCpu(options: GenerateOptions): Promise<readonly number[]> {
  const path = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");
  await using model = await loadModel(path, { nThreads: 1, device: "cpu", nCtx: 64, nBatch: 8 });
  return (await model.complete(PROMPT, options)).tokens;
}

describeWith("models", "a generation whose device is lost", () => {
  test.each<[string, GenerateOptions, boolean]>([
    ["greedy, another device", GREEDY, true],
    ["drawn, another device", DRAWN, true],
    ["drawn, the CPU after it", DRAWN, false],
    ["logits seen, another device", { ...DRAWN, onLogits: () => undefined }, true],
    ["penalties, the CPU after it", { ...DRAWN, repeatPenalty: 1.3 }, false],
  ])("goes on with the same tokens: %s", async (_title, options, again) => {
    const want = await tokensOnCpu(options);
    for (const at of [1, 4, 15]) {
      const { model, engine, made } = await onDevice(again);
      const heard: number[] = [];
      const onToken = (id: number): void => void (heard.push(id) === at && made[0]!.lose());
      const { tokens, stopReason } = await model.complete(PROMPT, { ...options, onToken });
      expect({ tokens, stopReason }).toEqual({ tokens: want, stopReason: "limit" });
      expect(heard).toEqual(want);
      expect(made.length).toBe(again ? 2 : 1);
      expect(model.context.tokens.slice(-3)).toEqual(want.slice(-4, -1));
      model.dispose();
      expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0 });
      expect(made.map((device) => device.buffers.size).at(-1)).toBe(0);
    }
  });

  test("goes on when the prompt was being read", async () => {
    const { model, made } = await onDevice();
    const onProgress = (): void => made[0]!.lose();
    const { tokens } = await model.complete(PROMPT, { ...GREEDY, onProgress });
    expect(tokens).toEqual(await tokensOnCpu(GREEDY));
    expect(made.length).toBe(2);
  });

  test("goes on when another generation noticed it while this one was waiting for its reader", async () => {
    const want = await tokensOnCpu(GREEDY);
    const { model, made } = await onDevice();
    const other = await model.createContext({ nCtx: 48, nBatch: 4 });
    const stream = other.generate(PROMPT, GREEDY);
    for (let i = 0; i < 3; i++) await stream.next();
    made[0]!.lose();
    expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual(want);
    for (;;) {
      const step = await stream.next();
      if (!step.done) continue;
      expect(step.value.tokens).toEqual(want);
      break;
    }
  });

  test("goes on in two contexts at once", async () => {
    const want = await tokensOnCpu(GREEDY);
    const { model, made } = await onDevice();
    const contexts = [model.context, await model.createContext({ nCtx: 48, nBatch: 4 })];
    let n = 0;
    const onToken = (): void => void (++n === 9 && made[0]!.lose());
    const all = await Promise.all(contexts.map((c) => c.complete(PROMPT, { ...GREEDY, onToken })));
    expect(all.map(({ tokens }) => tokens)).toEqual([want, want]);
  });

  test("ends with an error after too many losses, and after a shift of its context", async () => {
    const path = "stories260K/stories260K-q8_0.gguf";
    const made: RemoteBackend[] = [];
    const engine = await startEngine({ nThreads: 1, device: "webgpu" }, async () => {
      const backend = await RemoteBackend.open("webgpu");
      made.push(backend);
      return { backend, description: path, software: false };
    });
    open.push(engine);
    const model = await loadModel(join(dataDir("models"), path), { engine, nCtx: 24, nBatch: 8 });
    open.push(model);
    let n = 0;
    const onToken = (): void => void (++n === 30 && made[0]!.lose());
    const shifting = { ...GREEDY, maxTokens: 40, contextShift: { keep: 1 }, onToken };
    await expect(model.complete(PROMPT, shifting)).rejects.toThrow(LOST);
    expect((await model.complete(PROMPT, { ...GREEDY, maxTokens: 4 })).tokens).toEqual(
      (await tokensOnCpu(GREEDY)).slice(0, 4),
    );
  });
});

describeWith("models", "an engine whose device is lost", () => {
  test.each(["settle", "allocate"] as const)(
    "closes the file when reading it again ends at %s",
    async (at) => {
      const path = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");
      const bytes = await openSource(readFileSync(path));
      let closed = 0;
      const source: ByteSource = {
        name: "counted",
        size: bytes.size,
        read: (...range) => bytes.read(...range),
        load: (...parts) => bytes.load(...parts),
        close: async () => void closed++,
      };
      const { engine, made, model } = await onDevice(true, {}, source);
      expect(closed).toBe(1);
      const failing = vi.spyOn(engine, at).mockImplementationOnce(() => {
        throw new Error("no room");
      });
      made[0]!.lose();
      await expect(model.complete(PROMPT, GREEDY)).rejects.toThrow("no room");
      expect({ closed, called: failing.mock.calls.length }).toEqual({ closed: 2, called: 1 });
      expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual(await tokensOnCpu(GREEDY));
    },
  );

  test("loads models again after a load that failed", async () => {
    const { engine, made, model } = await onDevice();
    model.dispose();
    const path = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");
    const onProgress = (): void => made[0]!.lose();
    await expect(loadModel(path, { engine, onProgress })).rejects.toThrow(LOST);
    await using next = await loadModel(path, { engine, nCtx: 64, nBatch: 8 });
    expect((await next.complete(PROMPT, GREEDY)).tokens).toEqual(await tokensOnCpu(GREEDY));
    expect(made.length).toBe(2);
    expect(engine.memory().weights).toBe(0);
  });
});
