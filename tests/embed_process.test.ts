// Embeddings by the thousand in a process of their own: it keeps nothing, and it ends by itself. Needs dist/.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { modelFile } from "./arch/golden.ts";
import { describeWith } from "./data.ts";
import { runCommand } from "./hosts/process.ts";

/** What the process found after a warm-up and at its end. */
interface Found {
  readonly count: number;
  readonly totals: readonly [number, number];
  readonly heaps: readonly [number, number];
}

// Nothing is disposed, and nothing calls exit.
const PROGRAM = `
  const [llm, file] = process.argv.slice(1);
  const { loadModel } = await import(llm);
  const model = await loadModel(file, { nThreads: 2 });
  const texts = (n) => Array.from({ length: n }, (_, i) => [1, 5 + (i % 90), 7 + (i % 31)].slice(0, 1 + (i % 3)));
  const heap = () => {
    for (let i = 0; i < 3; i++) gc();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const run = async (n) => {
    let count = 0;
    for (let i = 0; i < n; i += 100) count += (await model.embed(texts(100))).length;
    return count;
  };
  await run(1000);
  const before = [model.memory().total, heap()];
  const count = await run(10000);
  const after = [model.memory().total, heap()];
  console.log(JSON.stringify({ count, totals: [before[0], after[0]], heaps: [before[1], after[1]] }));
`;

describeWith("golden", "a process that embeds", () => {
  test("ten thousand texts leave linear memory and the heap as they were, and the process ends by itself", async () => {
    const llm = pathToFileURL(resolve("dist/llm.js")).href;
    const args = ["--expose-gc", "--input-type=module", "--eval", PROGRAM, llm, modelFile("bert-cls")];
    const ended = await runCommand(process.execPath, args, { limitMs: 50_000 });
    expect(ended).toMatchObject({ code: 0, timedOut: false, stderr: "" });
    const { count, totals, heaps } = JSON.parse(ended.stdout) as Found;
    expect(count).toBe(10_000);
    expect(totals[1]).toBe(totals[0]);
    // 50 bytes kept for each text would be more
    expect(heaps[1] - heaps[0]).toBeLessThan(500_000);
  });
});
