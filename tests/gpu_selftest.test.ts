// The self-test of kernels: every kernel of the operators' cases passes it, and a wrong one is refused with the reason.
import { afterEach, expect, it } from "vitest";
import { Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Program } from "../ts/graph/program.ts";
import { Type } from "../ts/types.ts";
import type { GpuKernel, Kernels } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { difference } from "../ts/webgpu/selftest/selftest.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";

/** A kernel with its source changed. */
function changed(op: Op, change: (source: string) => string): Kernels {
  const { dispatches, ...rest } = KERNELS[op] as GpuKernel;
  const wrong: GpuKernel = {
    ...rest,
    dispatches: (node, caps) =>
      dispatches(node, caps).map((d) => ({ ...d, source: () => change(d.source()) })),
  };
  return { ...KERNELS, [op]: wrong };
}

await describeGpu("the self-test", () => {
  const engines = new GpuEngines();

  afterEach(() => {
    engines.dispose();
  });

  function sums(g: Graph): Program {
    const x = g.input("x", Type.F32, [33, 5]);
    const y = g.mul(g.add(x, g.input("b", Type.F32, [33])), x);
    g.add(y, g.view(x, [33, 5], { nb: [132, 660, 660] })).asOutput();
    return g.program();
  }

  function products(g: Graph): Program {
    const x = g.input("x", Type.F32, [256, 3]);
    const table = g.weight("table", Type.Q4_K, [256, 4000]);
    const rows = g.getRows(table, g.input("ids", Type.I32, [3]));
    const sum = g.add(x, rows);
    for (const type of [Type.F16, Type.Q4_K]) {
      g.mulMat(g.weight("w", type, [256, 1000]), sum).asOutput();
    }
    return g.program();
  }

  it("passes kernels that are right, once each", async () => {
    const { engine, backend } = await engines.open({}, KERNELS);
    for (const build of [sums, products]) {
      using g = engine.graph();
      await backend.prepare(build(g));
      const { submits, pipelines } = backend.gpu.counts;
      await backend.prepare(build(g));
      expect(backend.gpu.counts).toMatchObject({ submits, pipelines });
      expect(pipelines).toBeGreaterThan(1);
    }
    expect([...backend.refused()]).toEqual([]);
  });

  it("refuses a kernel with a wrong result, and the operator with it", async () => {
    const { engine, backend } = await engines.open(
      {},
      changed(Op.MUL, (s) => s.replaceAll(" * b", " + b").replaceAll("a * ", "a + ")),
    );
    using g = engine.graph();
    const program = sums(g);
    const mul = program.nodes.find((n) => n.tensor.op === Op.MUL)!;
    expect(backend.supportsOp(mul.tensor, mul.src)).toBe(true);
    await backend.prepare(program);
    expect([...backend.refused().values()]).toEqual([expect.stringMatching(/differs from the CPU by/)]);
    expect(backend.supportsOp(mul.tensor, mul.src)).toBe(false);
    const add = program.nodes.find((n) => n.tensor.op === Op.ADD)!;
    expect(backend.supportsOp(add.tensor, add.src)).toBe(true);
    expect(backend.lost).toBeUndefined();
  });

  it("refuses a kernel that does not compile", async () => {
    const { engine, backend } = await engines.open(
      {},
      changed(Op.MUL, () => "fn main(group: u32, local: u32) { oops(); }"),
    );
    using g = engine.graph();
    await backend.prepare(sums(g));
    expect([...backend.refused().values()]).toEqual([expect.stringMatching(/oops/)]);
    expect(backend.lost).toBeUndefined();
  });

  it("stops with the signal's reason", async () => {
    const { engine, backend } = await engines.open({}, KERNELS);
    using g = engine.graph();
    const signal = AbortSignal.abort(new Error("enough"));
    await expect(backend.prepare(sums(g), signal)).rejects.toThrow("enough");
  });

  it("sees values that are not finite, and codes of blocks apart", () => {
    const f32 = (...x: number[]): Uint8Array => new Uint8Array(Float32Array.from(x).buffer);
    expect(difference(Type.F32, false, f32(1, Infinity, NaN), f32(1, Infinity, NaN))).toBeUndefined();
    expect(difference(Type.F32, false, f32(1, NaN), f32(1, 2))).toMatch(/Infinity/);
    expect(difference(Type.F32, false, f32(1, Infinity), f32(1, -Infinity))).toMatch(/Infinity/);
    expect(difference(Type.I32, false, Uint8Array.of(1, 0, 0, 0), Uint8Array.of(2, 0, 0, 0))).toMatch(
      /1 of 4/,
    );
    const block = Uint8Array.from({ length: 340 }, (_, i) => i % 7);
    expect(difference(Type.Q8_0, false, block.with(5, 99), block)).toBeUndefined();
    expect(
      difference(
        Type.Q8_0,
        false,
        block.map((b) => b + 1),
        block,
      ),
    ).toMatch(/340 of 340/);
  });
});
