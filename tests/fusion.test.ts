// Fusions by name: what the option takes, who hears of it, and that the CPU's change no bit and make no plan larger.
import { afterAll, describe, expect, test } from "vitest";
import { FUSIONS, type FuseOption, readFusions } from "../ts/graph/fusion.ts";
import type { DeviceOptions } from "../ts/runtime/backend.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine, startEngine } from "../ts/runtime/engine.ts";
import { Profile } from "../ts/runtime/profile.ts";
import { Type } from "../ts/types.ts";

test("all fusions are on unless the option says otherwise; names left out stay on", () => {
  const on = (option?: FuseOption): string[] => [...readFusions(option)];
  expect(on()).toEqual([...FUSIONS]);
  expect(on(true)).toEqual([...FUSIONS]);
  expect(on({})).toEqual([...FUSIONS]);
  expect(on(false)).toEqual([]);
  expect(on({ norm_mul: false, glu_pair: true })).toEqual(FUSIONS.filter((name) => name !== "norm_mul"));
});

test("names that are none are a TypeError, values that are none bad-param", async () => {
  const wrong = { norm_mull: true } as FuseOption;
  await expect(createEngine({ fuse: wrong })).rejects.toThrow(TypeError);
  await expect(createEngine({ fuse: wrong })).rejects.toThrow(/"norm_mull"; known: norm_mul, /);
  for (const bad of ["all", null, 1, { norm_mul: "yes" }, { norm_mul: null }]) {
    await expect(createEngine({ fuse: bad as FuseOption })).rejects.toThrow(
      expect.objectContaining({ name: "GraphError", code: "bad-param" }),
    );
  }
});

test("a device is opened with the fusions that are on", async () => {
  const asked: DeviceOptions[] = [];
  const engine = await startEngine({ nThreads: 1, fuse: { glu_pair: false } }, async (options) => {
    asked.push(options);
    throw new Error("not here");
  });
  expect(asked).toEqual([{ fusions: new Set(FUSIONS.filter((name) => name !== "glu_pair")) }]);
  engine.dispose();
});

describe("norm_mul on the CPU", () => {
  type Norm = "norm" | "rmsNorm" | "l2Norm";
  interface Case {
    readonly norm: Norm;
    readonly ne: readonly number[];
    readonly weights: readonly number[];
    readonly live?: number;
    /** what else reads the norm's result: nobody, the user, or another node */
    readonly reader?: "output" | "node";
  }
  interface Outcome {
    readonly y: Float32Array;
    readonly more: Float32Array | undefined;
    readonly nBytes: number;
    readonly ops: readonly string[];
  }

  const engines = new Map<string, Promise<Engine>>();
  afterAll(async () => {
    for (const engine of engines.values()) (await engine).dispose();
  });
  const start = async (nThreads: number, fuse: boolean): Promise<Engine> => {
    const key = `${nThreads} ${fuse}`;
    if (!engines.has(key)) engines.set(key, createEngine({ nThreads, device: "cpu", fuse }));
    const engine = await engines.get(key)!;
    await engine.arrived;
    return engine;
  };
  const wave = (t: Tensor, step: number): Float32Array =>
    Float32Array.from({ length: t.ne.reduce((a, b) => a * b, 1) }, (_, i) => Math.cos(i * step) * 3);

  async function run(engine: Engine, { norm, ne, weights, live, reader }: Case): Promise<Outcome> {
    using g = engine.graph();
    const count = live === undefined ? undefined : g.input("live", Type.I32, [1]);
    if (count !== undefined) g.live = count;
    const x = g.input("x", Type.F32, ne);
    const w = g.input("w", Type.F32, weights);
    const n = g[norm](g.sqr(x), 1e-5);
    if (reader === "output") n.asOutput("n");
    const y = g.mul(n, w).asOutput("y");
    const more = reader === "node" ? g.sqr(n).asOutput("more") : undefined;
    const { nBytes } = g.plan();
    x.write(wave(x, 0.7));
    w.write(wave(w, 0.3));
    count?.write([live!]);
    const profile = new Profile(engine);
    await g.compute();
    profile.stop();
    const other = reader === "output" ? n : more;
    return {
      y: (await y.read()) as Float32Array,
      more: other === undefined ? undefined : ((await other.read()) as Float32Array),
      nBytes,
      ops: profile
        .byOp("")
        .map((row) => row.name)
        .sort(),
    };
  }

  const cases: Case[] = (["norm", "rmsNorm", "l2Norm"] as const).flatMap((norm) => [
    { norm, ne: [1], weights: [1] },
    { norm, ne: [31, 3], weights: [31] },
    { norm, ne: [32, 1], weights: [32] },
    { norm, ne: [33, 2, 3], weights: [33, 2] },
    { norm, ne: [7, 2, 3, 2], weights: [7, 2, 3, 2] },
    { norm, ne: [64, 5], weights: [64], live: 3 },
  ]);
  for (const nThreads of [1, 2]) {
    test.each(cases)(`$norm of $ne times $weights has the same bits, ${nThreads} threads`, async (c) => {
      const [apart, fused] = [await start(nThreads, false), await start(nThreads, true)];
      const [a, f] = [await run(apart, c), await run(fused, c)];
      const rows = c.live === undefined ? a.y.length : c.live * c.ne[0]!;
      expect(f.y.slice(0, rows)).toEqual(a.y.slice(0, rows));
      expect(f.y.slice(0, rows).some((v) => v !== 0)).toBe(c.norm !== "norm" || c.ne[0]! > 1);
      expect(f.nBytes).toBeLessThanOrEqual(a.nBytes);
      expect(a.ops).toHaveLength(3);
      expect(f.ops).toEqual(["mul", "sqr"]);
    });
  }

  test.each(["output", "node"] as const)(
    "a norm that another %s needs too is computed by itself",
    async (reader) => {
      const c: Case = { norm: "rmsNorm", ne: [33, 3], weights: [33], reader };
      const [a, f] = [await run(await start(1, false), c), await run(await start(1, true), c)];
      expect(f).toEqual(a);
      expect(f.more!.some((v) => v !== 0)).toBe(true);
      expect(f.ops).toContain("rms_norm");
    },
  );

  test("whoever watches sees the products, and without fusion the norms too", async () => {
    for (const fuse of [false, true]) {
      const engine = await start(1, fuse);
      using g = engine.graph();
      const x = g.input("x", Type.F32, [8, 2]);
      const y = g.mul(g.rmsNorm(x, 1e-5).named("n"), g.input("w", Type.F32, [8])).asOutput("y");
      g.plan();
      const seen: string[] = [];
      await g.compute({ onTensor: (t) => void seen.push(t.name) });
      expect(seen).toEqual(fuse ? ["y"] : ["n", "y"]);
      expect(y.name).toBe("y");
    }
  });
});
