// Profiles: each node is timed, by phase, and nothing else changes.
import { expect, test } from "vitest";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Profile } from "../ts/runtime/profile.ts";
import { Type } from "../ts/types.ts";

async function run(engine: Engine): Promise<Float32Array> {
  const g = engine.graph();
  const x = g.input("x", Type.F32, [31, 3]);
  const w = g.weight("w", Type.F32, [31, 5]);
  const y = g.softMax(g.relu(g.reshape(g.mulMat(w, x), [3, 5]))).asOutput("y");
  g.plan();
  w.write(Float32Array.from({ length: 31 * 5 }, (_, i) => Math.sin(i)));
  x.write(Float32Array.from({ length: 31 * 3 }, (_, i) => Math.cos(i)));
  await g.compute();
  const result = (await y.read()) as Float32Array;
  g.dispose();
  return result;
}

test.each([1, 2])(
  "with %i threads every node but views is timed and results stay the same",
  async (nThreads) => {
    const engine = await createEngine({ nThreads });
    await engine.arrived;
    try {
      const plain = await run(engine);
      const profile = new Profile(engine);
      profile.phase = "first";
      expect(await run(engine)).toEqual(plain);
      profile.phase = "second";
      await run(engine);
      await run(engine);
      profile.stop();
      await run(engine);
      const counts = (phase: string): object =>
        Object.fromEntries(profile.byOp(phase).map(({ name, count }) => [name, count]));
      expect(counts("first")).toEqual({ "mul_mat F32": 1, unary: 1, soft_max: 1 });
      expect(counts("second")).toEqual({ "mul_mat F32": 2, unary: 2, soft_max: 2 });
      expect(counts("third")).toEqual({});
    } finally {
      engine.dispose();
    }
  },
);

test("shares add up, and the trace holds each node once", async () => {
  const engine = await createEngine({ nThreads: 1 });
  try {
    const profile = new Profile(engine);
    profile.phase = "p";
    await run(engine);
    const rows = profile.byNode("p");
    expect(rows.map((r) => r.name).sort()).toEqual([
      "mul_mat F32 w [5, 3, 1, 1]",
      "soft_max y [3, 5, 1, 1]",
      "unary [3, 5, 1, 1]",
    ]);
    expect(rows.reduce((sum, r) => sum + r.share, 0)).toBeCloseTo(1, 9);
    const products = rows.find((r) => r.name.startsWith("mul_mat"))!;
    expect(profile.outsideProducts("p")).toBeCloseTo(1 - products.share, 9);
    const { traceEvents } = profile.trace() as { traceEvents: { name: string; cat: string; dur: number }[] };
    expect(traceEvents.map((e) => `${e.cat} ${e.name}`)).toEqual(["p mul_mat F32", "p unary", "p soft_max"]);
    expect(traceEvents.reduce((sum, e) => sum + e.dur, 0) / 1000).toBeCloseTo(profile.total("p"), 6);
  } finally {
    engine.dispose();
  }
});
