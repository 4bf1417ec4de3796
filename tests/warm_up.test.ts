// The small model that runs while weights are read slowly: it runs, for every architecture, and nothing of it stays.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type ByteSource, openGguf, openSource } from "../ts/gguf/index.ts";
import { loadModel } from "../ts/llm/index.ts";
import { type ModelPlan, planModel, readModelHeader } from "../ts/llm/plan_model.ts";
import { WarmUp } from "../ts/llm/warm_up.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { caseNames, modelFile, readCase } from "./arch/golden.ts";
import { describeWith } from "./data.ts";
import { writeSynthetic } from "./synthetic.ts";

const MIB = 2 ** 20;
const dir = mkdtempSync(join(tmpdir(), "slackwater-"));
const path = join(dir, "synthetic.gguf");
const start = (): Promise<Engine> => createEngine({ device: "cpu", nThreads: 1 });

beforeAll(() => {
  const shape = { nEmbd: 256, nLayer: 28, nHead: 4, nHeadKv: 2, nFf: 1024, nCtx: 512, type: Type.Q8_0 };
  expect(writeSynthetic(path, shape)).toBeGreaterThan(20 * MIB);
});
afterAll(() => rmSync(dir, { recursive: true }));

/** The file from a source that keeps its reader waiting: at a rate that leaves time. */
async function slow(): Promise<ByteSource> {
  const file = await openSource(path);
  return {
    name: "slow",
    size: file.size,
    read: (offset, length, signal) => file.read(offset, length, signal),
    load: async (parts, options) => {
      await sleep(400);
      await file.load(parts, options);
      await sleep(100);
    },
    close: () => file.close(),
  };
}

/** The small models that are started from now on. */
function started(): WarmUp[] {
  const all: WarmUp[] = [];
  const { start } = WarmUp;
  vi.spyOn(WarmUp, "start").mockImplementation((...args) => {
    const warmUp = start.apply(WarmUp, args);
    if (warmUp !== undefined) all.push(warmUp);
    return warmUp;
  });
  return all;
}
afterEach(() => vi.restoreAllMocks());

async function planOf(engine: Engine, bytes: Uint8Array): Promise<ModelPlan> {
  const { file, source } = await openGguf(bytes);
  await source.close();
  return planModel(engine, readModelHeader(file), {});
}

test("a load that waits for its bytes runs the kernels, and takes the memory that any load takes", async () => {
  using first = await start();
  using second = await start();
  const plain = await loadModel(new Blob([readFileSync(path)]), { engine: first });
  const all = started();
  const warmed = await loadModel(await slow(), { engine: second });
  expect(all).toHaveLength(1);
  expect(all[0]!.batches).toBeGreaterThan(0);
  expect(warmed.memory()).toEqual(plain.memory());
  expect(second.memory()).toEqual(first.memory());
});

test("an abort meanwhile ends it, and all memory is given back", async () => {
  using engine = await start();
  const all = started();
  const before = engine.arena.usedBytes;
  const controller = new AbortController();
  const reason = new Error("enough");
  const onProgress = ({ loaded }: { readonly loaded: number }): void => {
    if (loaded > 9 * MIB) controller.abort(reason);
  };
  const loading = loadModel(await slow(), { engine, signal: controller.signal, onProgress });
  await expect(loading).rejects.toBe(reason);
  expect(all).toHaveLength(1);
  const { batches } = all[0]!;
  await sleep(50);
  expect(all[0]!.batches).toBe(batches);
  expect(engine.arena.usedBytes).toBe(before);
});

test("an engine that is disposed meanwhile ends it", async () => {
  const engine = await start();
  const onProgress = ({ loaded }: { readonly loaded: number }): void => {
    if (loaded > 9 * MIB) engine.dispose();
  };
  await expect(loadModel(await slow(), { engine, onProgress })).rejects.toMatchObject({ code: "disposed" });
});

describeWith("golden", "small models of the architectures", () => {
  const causal = caseNames().filter((name) => readCase(name).kind === "causal");

  test.each(causal)("%s runs, and takes nothing of the engine", async (name) => {
    using engine = await start();
    const plan = await planOf(engine, readFileSync(modelFile(name)));
    const before = engine.memory();
    const warmUp = WarmUp.start(engine, plan, true)!;
    await sleep(30);
    await warmUp.end();
    await warmUp.end();
    expect(warmUp.batches).toBeGreaterThan(0);
    expect(engine.memory()).toEqual(before);
  });

  test("a model loaded where one has run computes what it computes elsewhere", async () => {
    using first = await start();
    using second = await start();
    const bytes = readFileSync(modelFile(causal[0]!));
    const warmUp = WarmUp.start(second, await planOf(second, bytes), true);
    await sleep(30);
    await warmUp?.end();
    const tokens = async (engine: Engine): Promise<readonly number[]> => {
      const model = await loadModel(bytes, { engine });
      return (await model.complete([1, 2, 3, 4, 5], { maxTokens: 8, temperature: 0 })).tokens;
    };
    expect(await tokens(second)).toEqual(await tokens(first));
  });

  test("with more weights than it may take it is not begun", async () => {
    using engine = await start();
    const plan = await planOf(engine, readFileSync(modelFile("qwen3moe")));
    const params = { ...plan.header.params, nExpert: 128, nFfExpert: 4096 };
    expect(WarmUp.start(engine, { ...plan, header: { ...plan.header, params } }, true)).toBeUndefined();
  });
});

// Memory that is plain leaves its views behind when it grows.
test("memory may grow while a file comes from an address", async () => {
  using engine = await start();
  const bytes = readFileSync(path);
  await withServer(bytes, async (url) => {
    let grown = false;
    const onProgress = (): void => {
      if (!grown) engine.arena.ensure(64 * MIB);
      grown = true;
    };
    using model = await loadModel(url, { engine, onProgress, nCtx: 64, nBatch: 16 });
    using other = await loadModel(bytes, { engine: await start(), nCtx: 64, nBatch: 16 });
    const of = async (m: typeof model): Promise<readonly number[]> =>
      (await m.complete([1, 2, 3], { maxTokens: 4, temperature: 0 })).tokens;
    expect(await of(model)).toEqual(await of(other));
  });
});

/** Bytes in pieces, with time between them. */
async function withServer(bytes: Uint8Array, use: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(async (_, res) => {
    res.writeHead(200, { "content-length": bytes.length });
    for (let at = 0; at < bytes.length; at += 4e6) {
      res.write(bytes.subarray(at, at + 4e6));
      await sleep(10);
    }
    res.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/m.gguf`);
  } finally {
    server.close();
  }
}
