// Peak memory while loading: the file, the plan, and next to nothing else.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createEngine } from "../ts/runtime/engine.ts";
import { loadModel } from "../ts/llm/index.ts";
import { Type } from "../ts/types.ts";
import { writeSynthetic } from "./synthetic.ts";

const MIB = 2 ** 20;
const dir = mkdtempSync(join(tmpdir(), "slackwater-"));
const path = join(dir, "synthetic.gguf");
let size = 0;

beforeAll(() => {
  const shape = { nEmbd: 2048, nLayer: 10, nHead: 32, nHeadKv: 8, nFf: 6144, nCtx: 2048, type: Type.Q8_0 };
  size = writeSynthetic(path, shape);
});
afterAll(() => rmSync(dir, { recursive: true }));

/** Runs a program over the built package; its peak resident memory in bytes, and what it printed as JSON. */
function peak<T>(body: string): { peak: number; result: T } {
  const program = `
    import { createEngine } from ${JSON.stringify(join(process.cwd(), "dist/index.js"))};
    import { loadModel } from ${JSON.stringify(join(process.cwd(), "dist/llm.js"))};
    const engine = await createEngine({ nThreads: 1 });
    const result = await (async () => { ${body} })();
    console.log(JSON.stringify({ peak: process.resourceUsage().maxRSS * 1024, result }));`;
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", program], { timeout: 60_000 });
  return JSON.parse(out.toString()) as { peak: number; result: T };
}

test("a file of 500 MB loads in its own size, the plan and at most 16 MiB", () => {
  expect(size).toBeGreaterThan(500e6);
  const empty = peak("return null;");
  const load = `const m = await loadModel(${JSON.stringify(path)}, { engine }); return m.memory();`;
  const loaded = peak<{ kv: number; compute: number; records: number; weights: number }>(load);
  const { kv, compute, records, weights } = loaded.result;
  expect(weights).toBeLessThan(size);
  expect(loaded.peak - empty.peak).toBeLessThan(size + kv + compute + records + 16 * MIB);
});

test("memory grows once, to the total that was known before the first weight", async () => {
  const engine = await createEngine({ nThreads: 1 });
  const { memory } = engine.arena;
  const sizes = new Set<number>();
  const model = await loadModel(path, { engine, onProgress: () => sizes.add(memory.buffer.byteLength) });
  expect(sizes.size).toBe(1);
  expect([...sizes][0]).toBe(engine.memory().total);
  const { free, total, devices, ...used } = engine.memory();
  expect(devices).toEqual([]);
  expect(free).toBeLessThan(2 * MIB + 65536);
  expect(Object.values(used).reduce((a, b) => a + b) + free).toBe(total);
  model.dispose();
  engine.dispose();
});
