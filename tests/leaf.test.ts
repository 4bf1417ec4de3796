// What a leaf written before a run still holds when it is read late, and who may write over it.
import { describe, expect, test } from "vitest";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { samples, stream } from "./core.ts";

async function withEngine(use: (engine: Engine) => Promise<void>): Promise<void> {
  const engine = await createEngine({ device: "cpu", nThreads: 1 });
  try {
    await use(engine);
  } finally {
    engine.dispose();
  }
}

const N = 256;
const numbers = async (t: Tensor): Promise<number[]> => Array.from((await t.read()) as Float32Array);

describe("a leaf that is read late", () => {
  test("keeps what was written before the run, whatever is computed before its first reader", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [N]);
      const late = g.leaf("late", Type.F32, [N]);
      // A result of its size that is dead by the time that `late` is read: there is room in its place.
      const total = g.sum(g.sqr(x));
      const y = g.add(late, g.scale(total, 0)).asOutput();
      g.plan();
      const values = samples(N, stream(1));
      x.write(samples(N, stream(2)));
      late.write(values);
      await g.compute();
      expect(await numbers(y)).toEqual([...values]);
    }));

  test("keeps it while a product's cast of other activations is made", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const w = g.weight("w", Type.Q8_0, [N, 2]);
      const x = g.leaf("x", Type.F32, [N]);
      const late = g.leaf("late", Type.F32, [N]);
      const product = g.mulMat(w, x); // a cast of x to Q8_0 comes first
      const y = g.mulMat(w, late).asOutput();
      const z = g.add(product, y).asOutput();
      g.plan();
      const a = samples(N, stream(3));
      const b = samples(N, stream(4));
      // row 0 of w takes the first element, row 1 the sum of the first block
      const rows = new Uint8Array(2 * (N / 32) * 34);
      const scale = 0x3c00; // 1 in F16
      for (const row of [0, 1]) new DataView(rows.buffer).setUint16(row * (N / 32) * 34, scale, true);
      rows[2] = 1;
      rows.fill(1, (N / 32) * 34 + 2, (N / 32) * 34 + 34);
      w.write(rows);
      x.write(a);
      late.write(b);
      await g.compute();
      const sum = (v: Float32Array): number => v.subarray(0, 32).reduce((s, e) => s + e, 0);
      const [y0, y1] = await numbers(y);
      expect(y0).toBeCloseTo(b[0]!, 1);
      expect(y1).toBeCloseTo(sum(b), 1);
      const [z0, z1] = await numbers(z);
      expect(z0).toBeCloseTo(a[0]! + b[0]!, 1);
      expect(z1).toBeCloseTo(sum(a) + sum(b), 1);
    }));

  test("may be written over by its last reader, as ggml's inputs may", () =>
    withEngine(async (engine) => {
      const g = engine.graph();
      const x = g.leaf("x", Type.F32, [N]);
      const y = g.sqr(g.scale(x, 2)).asOutput();
      expect(g.plan().nBytes).toBe(4 * N);
      x.write(new Float32Array(N).fill(3));
      await g.compute();
      expect(await numbers(y)).toEqual(Array.from({ length: N }, () => 36));
      await expect(x.read()).rejects.toMatchObject({ code: "not-readable" });
    }));
});
