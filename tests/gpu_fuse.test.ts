// Operators that one kernel computes: the same bits as one by one, and no fusing where somebody else looks on.
import { afterEach, describe, expect, it } from "vitest";
import { Glu, Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import { Fusions } from "../ts/webgpu/fuse.ts";
import type { Caps } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { describeGpu } from "./gpu_describe.ts";
import { engineOver } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { makeData, random } from "./op_data.ts";

/** A feed-forward block over n columns: norm, gate and up, product, sum. */
function block(g: Graph, type: Type, n: number, glu: Glu = Glu.SWIGLU): { y: Tensor; normed: Tensor } {
  const x = g.input("x", Type.F32, [96, n]);
  const normed = g.mul(g.rmsNorm(x, 1e-5), g.weight("norm", Type.F32, [96]));
  const [gate, up] = ["gate", "up"].map((name) => g.mulMat(g.weight(name, type, [96, 64]), normed));
  const h = g.glu(gate!, up!, { fn: glu });
  const y = g.add(g.mulMat(g.weight("down", type, [64, 96]), h), x);
  return { y, normed };
}

const CAPS: Caps = {
  f16: false,
  subgroups: false,
  subgroupMin: 1,
  subgroupMax: 1,
  dot4: true,
  maxBinding: 2 ** 27,
  maxInvocations: 256,
  maxWorkgroupBytes: 16384,
};

describe("fusing", () => {
  const open: Engine[] = [];
  afterEach(() => {
    for (const e of open.splice(0)) e.dispose();
  });

  /** Operators of the program that is left. */
  async function left(build: (g: Graph) => Tensor | undefined, kept?: (g: Graph) => Tensor): Promise<Op[]> {
    const engine = await createEngine({ nThreads: 1, device: "cpu" });
    open.push(engine);
    const g = engine.graph();
    build(g)?.asOutput();
    const others = new Set(kept === undefined ? [] : [kept(g)]);
    const { nodes } = new Fusions(CAPS).fuse(g.program(), others);
    return nodes.map((n) => n.tensor.op).filter((op) => op > Op.TRANSPOSE);
  }

  it("takes norm and weights, both products and their gate, product and sum together", async () => {
    expect(await left((g) => block(g, Type.F32, 1).y)).toEqual([Op.MUL, Op.GLU, Op.ADD]);
    expect(await left((g) => block(g, Type.Q8_0, 4).y)).toHaveLength(3);
  });

  it("leaves products of many columns alone", async () => {
    const ops = [Op.MUL, Op.MUL_MAT, Op.MUL_MAT, Op.GLU, Op.MUL_MAT, Op.ADD];
    expect(await left((g) => block(g, Type.F32, 5).y)).toEqual(ops);
  });

  it("leaves what somebody else reads", async () => {
    const seen = (change: (g: Graph, r: Tensor) => void): Promise<Op[]> =>
      left((g) => {
        const r = g.rmsNorm(g.input("x", Type.F32, [32]), 1e-5);
        change(g, r);
        return g.mul(r, g.weight("w", Type.F32, [32]));
      });
    expect(await seen(() => undefined)).toEqual([Op.MUL]);
    expect(await seen((_, r) => void r.asOutput())).toEqual([Op.RMS_NORM, Op.MUL]);
    expect(await seen((g, r) => void g.scale(r, 2).asOutput())).toContain(Op.RMS_NORM);
    expect(await seen((g, r) => void g.scale(g.view(r, [8]), 2).asOutput())).toContain(Op.RMS_NORM);
  });

  it("leaves a product whose weights are written before its sum", async () => {
    const ops = await left((g) => {
      const w = g.input("w", Type.F32, [32, 32]);
      const x = g.input("x", Type.F32, [32]);
      const product = g.expand(g.mulMat(w, x));
      g.expand(g.cpy(g.input("new", Type.F32, [32, 32]), w));
      return g.add(product, x);
    });
    expect(ops).toEqual([Op.MUL_MAT, Op.CPY, Op.ADD]);
  });
});

await describeGpu("fused kernels", () => {
  it.each([
    [Type.F32, 1],
    [Type.Q8_0, 3],
    [Type.Q4_0, 1],
  ])("of type %i and %i columns give the bits of single ones", async (type, n) => {
    const results: Uint8Array[] = [];
    const counts: number[] = [];
    for (const fuses of [true, false]) {
      const backend = new GpuBackend(await openDevice({ gpu: await testGpu() }), KERNELS, fuses);
      const engine = await engineOver(backend);
      const g = engine.graph();
      const { y } = block(g, type, n, Glu.GEGLU);
      y.asOutput();
      g.plan();
      const next = random(7);
      for (const t of g.program().leafs) t.write(makeData({ type: t.type, ne: t.ne }, next).bytes);
      await g.compute();
      results.push(await y.readBytes());
      counts.push(backend.gpu.counts.dispatches);
      engine.dispose();
    }
    expect(results[0]).toEqual(results[1]);
    expect(counts).toEqual([3, 6]); // gate and up run as one either way
  });
});
