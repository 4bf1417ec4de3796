// Decoding on a device without waiting for tokens. The device runs the CPU's kernels, so tokens are the CPU's.
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Op } from "../assembly/abi.ts";
import {
  type GenerateOptions,
  type Generation,
  loadModel,
  type LoadOptions,
  type Model,
} from "../ts/llm/index.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { engineWith, RemoteBackend, type RemoteBuffer, type RemoteOptions } from "./backends/remote.ts";
import { dataDir, describeWith } from "./data.ts";

const path = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);
const PROMPT = "Once upon a time, there was a";
const GREEDY: GenerateOptions = { temperature: 0, maxTokens: 16, ignoreEos: true };
/** Bytes read for a token: it, and 256 bytes on the sum of its logits. */
const TOKEN_BYTES = 260;

const open: { dispose(): void }[] = [];

afterEach(() => {
  for (const x of open.splice(0).reverse()) x.dispose();
  vi.restoreAllMocks();
});

async function onDevice(
  options: RemoteOptions = {},
  load: LoadOptions = {},
): Promise<{ engine: Engine; device: RemoteBackend; model: Model }> {
  const device = await RemoteBackend.open("webgpu", options);
  const engine = await engineWith([device]);
  const model = await loadModel(path("q8_0"), { engine, nCtx: 64, ...load });
  open.push(engine, model);
  return { engine, device, model };
}

async function onCpu(options: GenerateOptions, load: LoadOptions = {}): Promise<Generation> {
  const model = await loadModel(path("q8_0"), { nThreads: 1, device: "cpu", nCtx: 64, ...load });
  const story = await model.complete(PROMPT, options);
  model.dispose();
  return story;
}

/** Sizes of readings of the device, and how many were under way at once at most. */
function watchReadings(device: RemoteBackend): { readonly sizes: number[]; most: number } {
  const seen = { sizes: [] as number[], most: 0 };
  let underWay = 0;
  for (const buffer of device.buffers) watch(buffer);
  const alloc = device.bufferType.alloc.bind(device.bufferType);
  vi.spyOn(device.bufferType, "alloc").mockImplementation((n, use) => watch(alloc(n, use) as RemoteBuffer));
  return seen;

  function watch(buffer: RemoteBuffer): RemoteBuffer {
    const read = buffer.readInto.bind(buffer);
    vi.spyOn(buffer, "readInto").mockImplementation(async (offset, target) => {
      seen.sizes.push(target.length);
      seen.most = Math.max(seen.most, ++underWay);
      await read(offset, target).finally(() => underWay--);
    });
    return buffer;
  }
}

describeWith("models", "decoding on a device", () => {
  test.each<[string, GenerateOptions]>([
    ["greedy", GREEDY],
    ["the defaults", { seed: 1, maxTokens: 24, ignoreEos: true }],
    ["top-p 1", { seed: 2, topK: 10, topP: 1, maxTokens: 24, ignoreEos: true }],
    ["a high temperature", { seed: 3, temperature: 1.7, topK: 100, minP: 0, maxTokens: 24, ignoreEos: true }],
  ])("gives the CPU's tokens, %s", async (_title, options) => {
    const want = await onCpu(options);
    const { device, model } = await onDevice({ delayMs: 1 });
    const seen = watchReadings(device);
    const onToken = vi.fn<(id: number) => void>();
    const got = await model.complete(PROMPT, { ...options, onToken });
    expect(got).toMatchObject({ tokens: want.tokens, text: want.text, stopReason: "limit" });
    expect(onToken.mock.calls.map(([id]) => id)).toEqual(want.tokens);
    // the logits of the prompt, then a token and its check for each of the others, a few under way
    const { nVocab } = model.params;
    expect(seen.sizes).toEqual([4 * nVocab, ...Array(want.tokens.length - 1).fill(TOKEN_BYTES)]);
    expect(seen.most).toBe(4);
    expect(model.context.tokens).toEqual([...want.promptTokens, ...want.tokens.slice(0, -1)]);
  });

  test("plans a step once for all generations that choose alike", async () => {
    const { engine, model } = await onDevice();
    const plan = vi.spyOn(engine, "splits");
    for (const seed of [1, 2]) await model.complete(PROMPT, { maxTokens: 3, seed });
    for (const maxTokens of [1, 3]) await model.complete(PROMPT, { ...GREEDY, maxTokens });
    expect(plan).toHaveBeenCalledTimes(2);
  });

  test("throws away what was computed past an end token", async () => {
    const want = await onCpu(GREEDY);
    const { device, model } = await onDevice({ delayMs: 1 });
    const seen = watchReadings(device);
    const end = want.tokens.findIndex((id, i) => i >= 5 && !want.tokens.slice(0, i).includes(id));
    vi.spyOn(model.tokenizer, "isEog").mockImplementation((id) => id === want.tokens[end]);
    const got = await model.complete(PROMPT, { ...GREEDY, ignoreEos: false });
    expect(got).toMatchObject({ tokens: want.tokens.slice(0, end), stopReason: "eos" });
    expect(model.context.tokens).toEqual([...want.promptTokens, ...want.tokens.slice(0, end)]);
    expect(seen.sizes.length - 1).toBe(Math.min(end + 3, GREEDY.maxTokens! - 1));
    // what follows is as if they had never been
    vi.restoreAllMocks();
    const again = await model.complete([...want.promptTokens, ...want.tokens.slice(0, end)], {
      ...GREEDY,
      maxTokens: want.tokens.length - end,
    });
    expect(again.tokens).toEqual(want.tokens.slice(end));
    expect(again.cachedTokens).toBe(want.promptTokens.length + end - 1);
  });

  test("ends at stop texts as the CPU does", async () => {
    const options = { ...GREEDY, maxTokens: 40, stop: [want(await onCpu(GREEDY))] };
    const cpu = await onCpu(options);
    const { model } = await onDevice({ delayMs: 1 });
    const got = await model.complete(PROMPT, options);
    expect(got).toMatchObject({ tokens: cpu.tokens, text: cpu.text, stopReason: "stop" });

    function want({ text }: Generation): string {
      return text.slice(12, 16);
    }
  });

  test("ends when the context is full, and goes on where it is to be shifted", async () => {
    const full = { ...GREEDY, maxTokens: 60 };
    const cpu = await onCpu(full, { nCtx: 24 });
    const { model, device } = await onDevice({ delayMs: 1 }, { nCtx: 24 });
    const seen = watchReadings(device);
    const got = await model.complete(PROMPT, full);
    expect(got).toMatchObject({ tokens: cpu.tokens, stopReason: "context-full" });
    expect(seen.sizes).toHaveLength(cpu.tokens.length);
    const shifted = { ...full, contextShift: { keep: 1 } };
    const want = await onCpu(shifted, { nCtx: 24 });
    expect(await model.complete(PROMPT, shifted)).toMatchObject({ tokens: want.tokens, stopReason: "limit" });
  });

  test("ends with what it has when it is aborted, and the next text is right", async () => {
    const want = await onCpu(GREEDY);
    const { model } = await onDevice({ delayMs: 1 });
    const controller = new AbortController();
    const onToken = (): void => void (++n === 5 && controller.abort());
    let n = 0;
    const got = await model.complete(PROMPT, { ...GREEDY, signal: controller.signal, onToken });
    expect(got).toMatchObject({ tokens: want.tokens.slice(0, 5), stopReason: "abort" });
    expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual(want.tokens);
  });

  test("may be left in the middle, and disposed there", async () => {
    const want = await onCpu(GREEDY);
    const { engine, device, model } = await onDevice({ delayMs: 1 });
    let n = 0;
    for await (const _ of model.generate(PROMPT, GREEDY)) if (++n === 3) break;
    expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual(want.tokens);
    const another = await loadModel(path("q8_0"), { engine, nCtx: 64 });
    const story = another.generate(PROMPT, GREEDY);
    for (let i = 0; i < 3; i++) await story.next();
    another.dispose();
    await expect(story.next()).rejects.toThrow(expect.objectContaining({ code: "disposed" }));
    model.dispose();
    expect(device.buffers.size).toBe(0);
    expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0 });
  });

  test("several contexts at the same time do not disturb each other", async () => {
    const prompts = ["Once upon a time", "One day, Tim", "The dog"];
    const cpu = await loadModel(path("q8_0"), { nThreads: 1, device: "cpu", nCtx: 64 });
    open.push(cpu);
    const want: (readonly number[])[] = [];
    for (const prompt of prompts) want.push((await cpu.complete(prompt, GREEDY)).tokens);
    const { model } = await onDevice({ delayMs: 1 });
    const contexts = [model.context, await model.createContext(), await model.createContext()];
    const got = await Promise.all(prompts.map((prompt, i) => contexts[i]!.complete(prompt, GREEDY)));
    expect(got.map((g) => g.tokens)).toEqual(want);
  });

  test("goes on on the CPU when the device goes in the middle", async () => {
    const { device, model } = await onDevice({ delayMs: 1 });
    let n = 0;
    const onToken = (): void => void (++n === 4 && device.lose());
    const want = (await onCpu(GREEDY)).tokens;
    expect((await model.complete(PROMPT, { ...GREEDY, onToken })).tokens).toEqual(want);
    expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual(want);
  });

  describe("is not done", () => {
    test.each<[string, RemoteOptions, LoadOptions]>([
      ["where some layers are on the CPU", {}, { gpuLayers: 3 }],
      ["where all are", {}, { gpuLayers: 0 }],
      ["where the device cannot choose", { refuse: [Op.ARGMAX] }, {}],
    ])("%s", async (_title, options, load) => {
      const { device, model } = await onDevice(options, load);
      const seen = watchReadings(device);
      expect((await model.complete(PROMPT, GREEDY)).tokens).toEqual((await onCpu(GREEDY)).tokens);
      expect(seen.sizes).not.toContain(TOKEN_BYTES);
    });

    test("when somebody wants the logits", async () => {
      const { device, model } = await onDevice();
      const seen = watchReadings(device);
      const all: GenerateOptions[] = [{ logprobs: 1 }, { onLogits: () => undefined }, { repeatPenalty: 1.1 }];
      for (const options of all) await model.complete(PROMPT, { ...GREEDY, ...options, maxTokens: 3 });
      expect(seen.sizes).toEqual(Array(9).fill(4 * model.params.nVocab));
    });
  });

  test.each([GREEDY, { seed: 1 }])("logits that are no numbers are an error: %o", async (options) => {
    const { device, model } = await onDevice();
    const norm = [...device.buffers].find((b) => b.use === "weights")!;
    const onToken = (): void => norm.write(0, new Uint8Array(norm.size).fill(255));
    await expect(model.complete(PROMPT, { ...options, onToken })).rejects.toThrow(
      expect.objectContaining({ name: "FormatError", code: "non-finite" }),
    );
  });
});
