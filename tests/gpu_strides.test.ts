// What random graphs found on the GPU. A first dimension of one element may have the stride of another: what is contiguous is
// so whatever that stride is, and neighbours of 16 bits share words whatever it is. And values that are no numbers.
import { afterAll, expect, test, vi } from "vitest";
import { Glu } from "../assembly/abi.ts";
import { toF16 } from "../ts/graph/elements.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { Type } from "../ts/types.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";

await describeGpu("strides and values on the GPU", () => {
  vi.setConfig({ testTimeout: 120_000 });
  const engines = new GpuEngines();
  afterAll(() => engines.dispose());
  const engine = engines.open();

  const N = 70;
  const x = Float32Array.from({ length: N }, (_, i) => Math.fround(i / 8 - 3));

  /** What a node over x, seen as [1, N] with strides [4 N, 4], gives. */
  async function over(node: (g: Graph, column: Tensor) => Tensor): Promise<number[]> {
    using g = (await engine).engine.graph();
    const row = g.input("x", Type.F32, [N]);
    const y = node(g, g.transpose(row)).asOutput();
    g.plan();
    row.write(x);
    await g.compute();
    return Array.from((await y.read()) as Float32Array);
  }

  test("functions of one element and sums read all of it", async () => {
    expect(await over((g, a) => g.sqr(a))).toEqual(Array.from(x, (v) => v * v));
    expect(await over((g, a) => g.add(a, a))).toEqual(Array.from(x, (v) => 2 * v));
    expect(await over((g, a) => g.glu(a, a, { fn: Glu.REGLU }))).toEqual(
      Array.from(x, (v) => Math.max(v, 0) * v),
    );
  });

  test("halves written down a column keep their neighbours", async () => {
    using g = (await engine).engine.graph();
    const source = g.input("x", Type.F32, [N]);
    const target = g.input("target", Type.F16, [N]);
    const y = g.cpy(g.transpose(source), g.transpose(target)).asOutput();
    g.plan();
    source.write(x);
    await g.compute();
    expect(new Uint16Array((await y.readBytes()).slice().buffer)).toEqual(Uint16Array.from(x, toF16));
  });

  test("what is infinite has no sine", async () => {
    using g = (await engine).engine.graph();
    const source = g.input("x", Type.F32, [4]);
    const y = g.sin(source).asOutput();
    g.plan();
    source.write(Float32Array.of(Infinity, -Infinity, NaN, 0));
    await g.compute();
    expect(Array.from((await y.read()) as Float32Array)).toEqual([NaN, NaN, NaN, 0]);
  });

  test("floats become the integers of the CPU, those that are none too", async () => {
    using g = (await engine).engine.graph();
    const data = [1.9, -1.9, NaN, Infinity, -Infinity, 3e9, -3e9, -(2 ** 31), 0];
    const source = g.input("x", Type.F32, [data.length]);
    const y = g.cast(source, Type.I32).asOutput();
    g.plan();
    source.write(Float32Array.from(data));
    await g.compute();
    const most = 2 ** 31 - 1;
    expect(Array.from((await y.read()) as Int32Array)).toEqual([
      1,
      -1,
      0,
      most,
      -most - 1,
      most,
      -most - 1,
      -most - 1,
      0,
    ]);
  });
});
