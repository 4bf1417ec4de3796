// Every architecture in the size that was published: it opens and is planned; it loads and runs, large ones cut down.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseGguf } from "../ts/gguf/index.ts";
import { ARCHS } from "../ts/llm/arch/archs.ts";
import { loadModel, type Model, type ModelContext, planModel, readModelHeader } from "../ts/llm/index.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Core } from "./core.ts";
import { DECODERS } from "./shapes/decoders.ts";
import { ENCODERS } from "./shapes/encoders.ts";
import { elements, headerOf, type Shape, tensorsOf, writeShape } from "./shapes/shape.ts";

const dir = mkdtempSync(join(tmpdir(), "slackwater-"));
const ALL = [...DECODERS, ...ENCODERS];
const named = (shapes: readonly Shape[]): [string, string, Shape][] =>
  shapes.map((shape) => [shape.arch, shape.model, shape]);
/** Sizes that publishers state are rounded. */
const ROUNDED = 0.01;
const N_CTX = 32;

let core: Core;
let engine: Engine;

beforeAll(async () => {
  core = await Core.load("simd", 256);
  engine = await createEngine({ nThreads: 1 });
});
afterAll(() => {
  engine.dispose();
  rmSync(dir, { recursive: true });
});

test("there is a published shape for every architecture", () => {
  expect(ALL.map(({ arch }) => arch).sort()).toEqual([...ARCHS.keys()].sort());
});

describe("in the published size", () => {
  test.each(named(ALL))("%s: %s has the parameters that were published", (_, __, shape) => {
    expect(Math.abs(elements(tensorsOf(shape)) / shape.count - 1)).toBeLessThan(ROUNDED);
  });

  test.each(named(ALL))("%s: %s opens, and is planned or told to be too large", (_, __, shape) => {
    const { bytes, fileSize } = headerOf(shape);
    const header = readModelHeader(parseGguf(bytes, fileSize));
    expect(header.tensors.size).toBe(tensorsOf(shape).length);
    const weights = fileSize - bytes.length;
    const plan = (): number => planModel(engine, header, { nCtx: N_CTX }).memory.weights;
    if (weights > 2 ** 32) return expect(plan).toThrow(expect.objectContaining({ code: "out-of-memory" }));
    expect(plan()).toBeGreaterThanOrEqual(weights);
    return expect(plan()).toBeLessThan(weights + 64 * header.tensors.size + 2 ** 20);
  });
});

async function withShape(shape: Shape, use: (model: Model) => Promise<void>): Promise<void> {
  const path = join(dir, `${shape.arch}.gguf`);
  writeShape(path, shape, core);
  const model = await loadModel(path, { nThreads: 1, nCtx: N_CTX, nBatch: 8 });
  rmSync(path);
  try {
    await use(model);
  } finally {
    model.dispose();
  }
}

// Logits after the prompt and after one more token.
async function logitsOf(context: ModelContext): Promise<Float32Array[]> {
  const rows: Float32Array[] = [];
  const onLogits = (logits: Float32Array): void => void rows.push(logits.slice());
  await context.complete([3, 1, 4, 15, 9], { temperature: 0, ignoreEos: true, maxTokens: 2, onLogits });
  return rows;
}

describe("loaded and run", () => {
  test.each(named(DECODERS))(
    "%s: %s, a prompt at once gives the bits of one token at a time",
    (_, __, shape) =>
      withShape(shape, async (model) => {
        const [prompt, step] = await logitsOf(model.context);
        expect(prompt!.every(Number.isFinite)).toBe(true);
        expect(prompt!.some((z) => z !== 0)).toBe(true);
        await using single = await model.createContext({ nCtx: N_CTX, nBatch: 1 });
        const rows = await logitsOf(single);
        expect(Buffer.compare(Buffer.from(rows[0]!.buffer), Buffer.from(prompt!.buffer))).toBe(0);
        expect(Buffer.compare(Buffer.from(rows[1]!.buffer), Buffer.from(step!.buffer))).toBe(0);
      }),
  );

  test.each(named(ENCODERS))("%s: %s, texts together give the vectors of each alone", (_, __, shape) =>
    withShape(shape, async (model) => {
      const texts = [[3, 1, 4, 15, 9], [2], [6, 5, 3, 5, 8, 9, 7, 9]];
      const together = await model.embed(texts);
      for (const [i, { embedding }] of together.entries()) {
        expect(embedding).toHaveLength(shape.size["E"]!);
        expect(Math.hypot(...embedding)).toBeCloseTo(1, 5);
        const [alone] = await model.embed([texts[i]!]);
        expect(alone!.embedding).toEqual(embedding);
      }
      expect(together[0]!.embedding).not.toEqual(together[2]!.embedding);
    }),
  );
});
