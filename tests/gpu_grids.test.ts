// More workgroups than one dimension of a dispatch takes (65,535), and tensors without elements, on the GPU.
import { afterAll, expect, test, vi } from "vitest";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";

/** Rows; a workgroup each in kernels that work by rows. */
const N = 70_003;

type Build = (g: Graph, x: Tensor) => Tensor;

const BY_ROWS: Readonly<Record<string, Build>> = {
  rms_norm: (g, x) => g.rmsNorm(x, 1e-5),
  argmax: (g, x) => g.argmax(x),
  "mul_mat of many rows": (g, x) => g.mulMat(x, g.scale(g.view(x, [5]), 0.5)),
  "mul_mat of many columns": (g, x) => g.mulMat(g.scale(g.view(x, [5, 3]), 0.5), x),
  get_rows: (g, x) => g.getRows(x, g.argmax(x)),
  "a sum with one row": (g, x) => g.add(x, g.view(x, [5])),
  "a transposed copy": (g, x) => g.cont(g.transpose(x)),
};

async function run(engine: Engine, ne: readonly number[], build: Build): Promise<Float32Array> {
  using g = engine.graph();
  const x = g.input("x", Type.F32, ne);
  const y = build(g, x).asOutput();
  g.plan();
  const size = ne.reduce((a, b) => a * b);
  if (size > 0) x.write(Float32Array.from({ length: size }, (_, i) => Math.sin(i * 0.37) * 3));
  await g.compute();
  return Float32Array.from((await y.read()) as Float32Array);
}

await describeGpu("grids on the GPU", () => {
  vi.setConfig({ testTimeout: 120_000 });
  const engines = new GpuEngines();
  afterAll(() => engines.dispose());
  const gpu = engines.open();
  const cpu = createEngine({ nThreads: 1, device: "cpu" }).then((engine) => engines.keep(engine));

  test.each(Object.keys(BY_ROWS))("%s over 70,003 rows is the CPU's", async (name) => {
    const ne = [5, N];
    const want = await run(await cpu, ne, BY_ROWS[name]!);
    const got = await run((await gpu).engine, ne, BY_ROWS[name]!);
    expect(got.length).toBe(want.length);
    let most = 0;
    want.forEach((v, i) => (most = Math.max(most, Math.abs(v - got[i]!) / (1 + Math.abs(v)))));
    expect(most).toBeLessThan(1e-5);
  });

  test.each([
    [0, 3],
    [4, 0],
  ])("tensors of %i x %i elements run, and give as many", async (...ne) => {
    const { engine } = await gpu;
    for (const build of [
      (g, x) => g.scale(x, 2),
      (g, x) => g.add(x, x),
      (g, x) => g.rmsNorm(x, 1e-5),
      (g, x) => g.cont(g.transpose(x)),
    ] satisfies Build[]) {
      expect((await run(engine, ne, build)).length).toBe(0);
    }
  });
});
