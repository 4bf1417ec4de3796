// The small model that runs while weights are read slowly: it runs, for every architecture, and nothing of it stays.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ByteSource, openGguf, openSource } from "../ts/gguf/index.ts";
import { loadModel } from "../ts/llm/index.ts";
import { type ModelPlan, planModel, readModelHeader } from "../ts/llm/plan_model.ts";
import { WarmUp } from "../ts/llm/warm_up.ts";
import type { CpuBackend } from "../ts/runtime/cpu.ts";
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
  const shape = { nEmbd: 256, nLayer: 16, nHead: 4, nHeadKv: 2, nFf: 1024, nCtx: 512, type: Type.Q8_0 };
  expect(writeSynthetic(path, shape)).toBeGreaterThan(12 * MIB);
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
    },
    close: () => file.close(),
  };
}

/** Nodes that the engine runs from now on. */
function counter(engine: Engine): { nodes: number } {
  const count = { nodes: 0 };
  (engine.backend as CpuBackend).onNode = () => void count.nodes++;
  return count;
}

async function planOf(engine: Engine, bytes: Uint8Array): Promise<ModelPlan> {
  const { file, source } = await openGguf(bytes);
  await source.close();
  return planModel(engine, readModelHeader(file), {});
}

test("a load that waits for its bytes runs the kernels, and takes the memory that any load takes", async () => {
  using first = await start();
  using second = await start();
  const count = counter(second);
  const plain = await loadModel(new Blob([readFileSync(path)]), { engine: first });
  const warmed = await loadModel(await slow(), { engine: second });
  expect(count.nodes).toBeGreaterThan(10);
  expect(warmed.memory()).toEqual(plain.memory());
});

test("an abort meanwhile ends it, and all memory is given back", async () => {
  using engine = await start();
  const count = counter(engine);
  const before = engine.arena.usedBytes;
  const controller = new AbortController();
  const reason = new Error("enough");
  const onProgress = ({ loaded }: { readonly loaded: number }): void => {
    if (loaded > 9 * MIB) controller.abort(reason);
  };
  const loading = loadModel(await slow(), { engine, signal: controller.signal, onProgress });
  await expect(loading).rejects.toBe(reason);
  const { nodes } = count;
  await sleep(50);
  expect(count.nodes).toBe(nodes);
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

  test.each(causal)("%s runs, unless it is refused, and leaves nothing", async (name) => {
    using engine = await start();
    const plan = await planOf(engine, readFileSync(modelFile(name)));
    const before = engine.memory();
    const count = counter(engine);
    const warmUp = WarmUp.start(engine, plan, true, 64 * MIB);
    expect(plan.context === undefined || warmUp !== undefined).toBe(true);
    await sleep(30);
    await warmUp?.end();
    await warmUp?.end();
    if (warmUp !== undefined) expect(count.nodes).toBeGreaterThan(0);
    const { total, free, ...used } = engine.memory();
    expect({ ...used, free: free - total }).toEqual({
      ...before,
      total: undefined,
      free: before.free - before.total,
    });
  });

  test("a model loaded where one has run computes what it computes elsewhere", async () => {
    using first = await start();
    using second = await start();
    const bytes = readFileSync(modelFile(causal[0]!));
    const warmUp = WarmUp.start(second, await planOf(second, bytes), true, 64 * MIB);
    await sleep(30);
    await warmUp?.end();
    const tokens = async (engine: Engine): Promise<readonly number[]> => {
      const model = await loadModel(bytes, { engine });
      return (await model.complete([1, 2, 3, 4, 5], { maxTokens: 8, temperature: 0 })).tokens;
    };
    expect(await tokens(second)).toEqual(await tokens(first));
  });

  test("it is not begun where there is no room", async () => {
    using engine = await start();
    const plan = await planOf(engine, readFileSync(modelFile(causal[0]!)));
    const before = engine.arena.usedBytes;
    expect(WarmUp.start(engine, plan, true, 1000)).toBeUndefined();
    expect(engine.arena.usedBytes).toBe(before);
  });
});
