// The examples, on models and answers that nobody here made.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LegacyTensor } from "../examples/legacy/tensors.ts";
import { Rwkv, type RwkvFile, readRwkv } from "../examples/rwkv/rwkv.ts";
import { segmentsOf } from "../examples/silero-vad/segments.ts";
import { readSilero, Silero } from "../examples/silero-vad/silero.ts";
import { readWav } from "../examples/silero-vad/wav.ts";
import { createEngine, type Engine, Type } from "../ts/index.ts";
import { describeWith, readData } from "./data.ts";

let engine: Engine;

beforeAll(async () => {
  engine = await createEngine({ nThreads: 2 });
  await engine.arrived;
});

afterAll(() => engine.dispose());

const floats = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);

/** Norm of the difference over the norm of what is expected. */
function distance(got: Float32Array, expected: Float32Array): number {
  const error = expected.reduce((s, y, i) => s + (got[i]! - y) ** 2, 0);
  return Math.sqrt(error / expected.reduce((s, y) => s + y * y, 0));
}

function rwkvFile(type: string): RwkvFile {
  return readRwkv(readData("models", `rwkv/tiny-rwkv-4v0-660K-${type}.bin`));
}

async function logitsAfter(model: Rwkv, prompt: Uint8Array): Promise<Float32Array> {
  let logits = new Float32Array() as Float32Array;
  for (const token of prompt) logits = await model.next(token);
  return logits;
}

/** The same file with what its blocks hold as F32. */
async function dequantized(file: RwkvFile): Promise<RwkvFile> {
  const tensors = new Map<string, LegacyTensor>();
  for (const [name, { type, ne, bytes }] of file.tensors) {
    using g = engine.graph();
    const x = g.input(name, type, ne);
    const y = g.cast(x, Type.F32).asOutput();
    g.plan();
    x.write(bytes);
    await g.compute();
    tensors.set(name, { type: Type.F32, ne, bytes: await y.readBytes() });
  }
  return { ...file, tensors };
}

describeWith("models", "rwkv", () => {
  const expected = (): Float32Array => floats(readData("models", "rwkv/expected-logits-4v0-660K.bin"));
  const prompt = new TextEncoder().encode('"in');

  // rwkv.cpp judges a type by the sum of all differences from the expected logits; its own sums.
  test.each([
    ["FP32", 1e-6, 0.001],
    ["FP16", 1e-3, -0.00532],
    ["Q5_0", undefined, -0.170404],
    ["Q5_1", undefined, 0.278034],
  ])(
    "the %s file gives the expected logits after a prompt, and again after a reset",
    async (type, limit, sum) => {
      const model = new Rwkv(engine, rwkvFile(type));
      const logits = await logitsAfter(model, prompt);
      model.reset();
      expect(await logitsAfter(model, prompt)).toEqual(logits);
      model.dispose();
      const y = expected();
      expect(Math.abs(logits.reduce((s, x, i) => s + x - y[i]!, 0))).toBeLessThanOrEqual(
        1.05 * Math.abs(sum),
      );
      if (limit !== undefined) expect(distance(logits, y)).toBeLessThan(limit);
    },
  );

  // What the blocks lost is in both; what is left is the rounding of activations to 8 bits.
  test.each(["Q5_0", "Q5_1"])(
    "blocks of %s are as near to the expected logits as their values are",
    async (type) => {
      const blocks = new Rwkv(engine, rwkvFile(type));
      const values = new Rwkv(engine, await dequantized(rwkvFile(type)));
      const [a, b] = [await logitsAfter(blocks, prompt), await logitsAfter(values, prompt)];
      blocks.dispose();
      values.dispose();
      expect(distance(a, b)).toBeLessThan(distance(b, expected()));
    },
  );

  test("a file that is cut off or of another kind is refused", () => {
    const file = readData("models", "rwkv/tiny-rwkv-4v0-660K-Q5_0.bin");
    expect(() => readRwkv(file.subarray(0, 5000))).toThrow(RangeError);
    expect(() => readRwkv(file.subarray(4))).toThrow("not an RWKV file");
  });
});

describeWith("models", "silero-vad", () => {
  test("the speech file has 344 windows and four segments of speech", async () => {
    const { rate, samples } = readWav(readData("models", "silero/jfk.wav"));
    expect(rate).toBe(16000);
    const model = new Silero(
      engine,
      readSilero(readData("models", "silero/for-tests-silero-v6.2.0-ggml.bin")),
    );
    const probabilities = await model.probabilities(samples);
    model.dispose();
    expect(probabilities.length).toBe(344);
    const segments = segmentsOf(probabilities, model.window, samples.length);
    expect(segments.map(({ start, end }) => [start / rate, end / rate])).toEqual([
      [0.352, 2.24],
      [3.296, 4.384],
      [5.408, 7.648],
      [8.192, 10.592],
    ]);
  });
});
