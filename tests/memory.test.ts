// Memory that does not move: what loading takes, what running leaves alone, what dispose gives back.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createEngine } from "../ts/runtime/engine.ts";
import { openGguf } from "../ts/gguf/index.ts";
import { loadModel, planModel, readModelHeader } from "../ts/llm/index.ts";
import { dataDir, describeWith } from "./data.ts";

const path = (type: string): string => join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);

describeWith("models", "memory", () => {
  test("2,000 decode steps leave the size of the memory and the regions as they are", async () => {
    const model = await loadModel(path("q8_0"), { nThreads: 2 });
    const before = model.memory();
    let steps = 0;
    while (steps < 2000) {
      const { tokens } = await model.complete("Once upon a time", {
        temperature: 0,
        maxTokens: 400,
        ignoreEos: true,
      });
      steps += tokens.length;
    }
    expect(model.memory()).toEqual(before);
    model.dispose();
  });

  test("the parts of the report add up to the memory, to the byte", async () => {
    const engine = await createEngine({ nThreads: 1 });
    const model = await loadModel(path("f16"), { engine });
    const { total, devices, ...parts } = engine.memory();
    expect(devices).toEqual([]);
    expect(Object.values(parts).reduce((a, b) => a + b)).toBe(total);
    expect(total).toBe(engine.arena.memory.buffer.byteLength);
    model.dispose();
    engine.dispose();
  });

  test("the plan made from the header alone is what the loaded model takes, to the byte", async () => {
    const { file, source } = await openGguf(path("q4_0"));
    await source.close();
    const engine = await createEngine({ nThreads: 1 });
    const { memory } = planModel(engine, readModelHeader(file), {});
    expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0 });
    const model = await loadModel(path("q4_0"), { engine });
    const { weights, kv, compute, records } = engine.memory();
    const total = weights + kv + compute + records;
    expect({ weights, kv, compute, records, total, devices: [] }).toEqual(memory);
    model.dispose();
    engine.dispose();
  });

  test("loading and disposing 50 times is flat from the second time on", async () => {
    const engine = await createEngine({ nThreads: 1 });
    const empty = engine.memory();
    const totals: number[] = [];
    for (let i = 0; i < 50; i++) {
      const model = await loadModel(path("q4_0"), { engine });
      await model.complete("Once", { temperature: 0, maxTokens: 2 });
      model.dispose();
      totals.push(engine.memory().total);
    }
    expect(new Set(totals.slice(1)).size).toBe(1);
    expect(engine.memory()).toMatchObject({
      weights: 0,
      kv: 0,
      compute: 0,
      records: 0,
      scratch: 0,
      control: empty.control,
    });
    engine.dispose();
  });

  test("a model keeps its logits while another is loaded beside it and memory grows", async () => {
    const engine = await createEngine({ nThreads: 1 });
    const first = await loadModel(path("q8_0"), { engine });
    const want = await first.complete("Once", { temperature: 0, maxTokens: 10 });
    const second = await loadModel(path("f32"), { engine });
    await second.complete("One day", { temperature: 0, maxTokens: 10 });
    expect((await first.complete("Once", { temperature: 0, maxTokens: 10 })).tokens).toEqual(want.tokens);
    second.dispose();
    expect((await first.complete("Once", { temperature: 0, maxTokens: 10 })).tokens).toEqual(want.tokens);
    engine.dispose();
  });

  test("a context that does not fit is refused with both sizes, the default one shrinks", async () => {
    const maxMemory = 4 * 2 ** 20;
    const refused = loadModel(path("f32"), { nThreads: 1, maxMemory, nCtx: 2 ** 20 });
    await expect(refused).rejects.toMatchObject({
      code: "out-of-memory",
      details: { actual: expect.any(Number) },
    });
    const model = await loadModel(path("f32"), { nThreads: 1, maxMemory });
    expect(model.nCtx).toBeGreaterThan(100);
    expect(model.memory().total).toBeLessThanOrEqual(maxMemory);
    model.dispose();
  });

  test("an aborted load gives back what it took", async () => {
    const engine = await createEngine({ nThreads: 1 });
    const reason = new Error("stop");
    const controller = new AbortController();
    const load = loadModel(path("f32"), {
      engine,
      signal: controller.signal,
      onProgress: () => controller.abort(reason),
    });
    await expect(load).rejects.toBe(reason);
    expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0, scratch: 0 });
    engine.dispose();
  });

  test("a process ends by itself, with threads and without dispose", () => {
    const llm = join(process.cwd(), "dist/llm.js");
    const program = `
      import { loadModel } from ${JSON.stringify(llm)};
      const m = await loadModel(${JSON.stringify(path("f32"))}, { nThreads: 2 });
      const r = await m.complete("Once", { maxTokens: 3, temperature: 0 });
      console.log(r.tokens.length, m.engine.nThreads);`;
    const out = execFileSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 30_000 });
    expect(out.toString().trim()).toBe("3 2");
  });

  test("decode steps leave no typed arrays behind and next to nothing on the heap", () => {
    const program = `
      import v8 from "node:v8";
      import { loadModel } from ${JSON.stringify(join(process.cwd(), "dist/llm.js"))};
      const model = await loadModel(${JSON.stringify(path("q8_0"))}, { nThreads: 1 });
      const steps = async (n) => { for (let i = 0; i < n; i += 200) await model.complete("Once", { temperature: 0, maxTokens: 200, ignoreEos: true }); };
      const kinds = [Uint8Array, Int32Array, Uint32Array, Float32Array, Float64Array, Uint16Array];
      const look = () => { gc(); gc(); return { heap: process.memoryUsage().heapUsed, arrays: kinds.map((k) => v8.queryObjects(k, { format: "count" })) }; };
      await steps(4600); // feedback and optimised code settle
      const a = look();
      await steps(2000);
      const b = look();
      console.log(JSON.stringify({ perStep: (b.heap - a.heap) / 2000, before: a.arrays, after: b.arrays }));`;
    const out = execFileSync(process.execPath, ["--expose-gc", "--input-type=module", "-e", program], {
      timeout: 60_000,
    });
    const { perStep, before, after } = JSON.parse(out.toString()) as {
      perStep: number;
      before: number[];
      after: number[];
    };
    expect(after).toEqual(before);
    expect(perStep).toBeLessThan(50); // bytes; feedback and compiled code still grow a little
  });
});
