// Programs on a GPU: results, memory, counts, errors and loss.
import { afterEach, expect, it } from "vitest";
import { Op } from "../assembly/abi.ts";
import { leaf, type Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { opDef } from "../ts/ops/index.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { openDevice } from "../ts/webgpu/device.ts";
import type { GpuKernel, Kernels } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";
import { engineOver } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { random } from "./op_data.ts";

/** Sums of three inputs, some in place, some of views, one result of 16 bits. Returns the outputs' bytes. */
async function sums(engine: Engine, n: number): Promise<Uint8Array[]> {
  using g = engine.graph();
  const inputs = [0, 1, 2].map((i) => g.input(`x${i}`, Type.F32, [n, 6]));
  const [a, b, c] = inputs as [Tensor, Tensor, Tensor];
  let y = g.mul(g.add(a, b), c);
  for (let i = 0; i < 20; i++) y = g.sub(g.add(y, a), b);
  const rows = g.view(y, [n, 2], { nb: [n * 4, n * 8, n * 8], offset: n * 8 });
  const half = g.node(Op.ADD, opDef(Op.ADD), [rows, g.view(c, [n, 2], { nb: [n * 4, n * 8, n * 8] })], {
    type: Type.F16,
  });
  const outputs = [y.asOutput(), half.asOutput()];
  g.plan();
  const next = random(n);
  for (const t of inputs) t.write(Float32Array.from({ length: n * 6 }, () => next() - 0.5));
  await g.compute();
  return Promise.all(outputs.map((t) => t.readBytes()));
}

await describeGpu("a program on a GPU", () => {
  const engines = new GpuEngines();

  afterEach(() => {
    engines.dispose();
  });

  it.each([
    ["the adapter's limits", {}],
    ["the limits that every device has", { limits: "default" }],
    ["windows into buffers larger than a binding", { maxBinding: 1792 }],
  ] as const)("gives the CPU's bits with %s", async (_title, options) => {
    const cpu = await createEngine({ nThreads: 1 });
    engines.keep(cpu);
    const { engine, backend } = await engines.open(options);
    for (const n of [1, 3, 32, 33]) expect(await sums(engine, n)).toEqual(await sums(cpu, n));
    expect(backend.lost).toBeUndefined();
  });

  it("makes no buffer, bind group or pipeline once it has run", async () => {
    const { engine, backend } = await engines.open();
    using g = engine.graph();
    const x = g.input("x", Type.F32, [33]);
    let y = x;
    for (let i = 0; i < 20; i++) y = g.add(y, x);
    y.asOutput();
    g.plan();
    const step = async (i: number): Promise<void> => {
      x.write(new Float32Array(33).fill(i));
      await g.compute();
      if (i % 10 === 0) expect(await y.read()).toEqual(new Float32Array(33).fill(21 * i));
    };
    await step(0);
    const { buffers, bindGroups, pipelines, liveBytes, submits } = backend.gpu.counts;
    for (let i = 1; i <= 500; i++) await step(i);
    expect(backend.gpu.counts).toMatchObject({ buffers, bindGroups, pipelines, liveBytes });
    expect(backend.gpu.counts.submits - submits).toBe(500 + 50); // runs and readings
    expect(pipelines).toBe(1);
    expect(bindGroups).toBe(2);
  });

  it("reports its bytes by use, and holds none after dispose", async () => {
    const { engine, backend } = await engines.open();
    const { counts } = backend.gpu;
    await sums(engine, 33);
    const staging = counts.liveBytes; // of readings
    const report = { name: "webgpu", weights: 0, kv: 0, compute: 0, staging, total: staging };
    expect(engine.memory().devices).toEqual([report]);
    const g = engine.graph();
    const y = g.add(g.input("x", Type.F32, [100]), g.weight("w", Type.F32, [100])).asOutput();
    const cache = engine.allocate([leaf("k", Type.F32, [1000])], "kv");
    g.plan();
    await g.compute();
    await y.read();
    const compute = counts.liveBytes - 512 - 4096 - staging;
    expect(compute).toBeGreaterThan(2 * 400);
    expect(engine.memory().devices).toEqual([
      { ...report, weights: 512, kv: 4096, compute, total: counts.liveBytes },
    ]);
    cache.dispose();
    g.dispose();
    expect(engine.memory().devices).toEqual([report]);
    engine.dispose();
    expect(counts.liveBytes).toBe(0);
    expect(backend.held()).toEqual({ weights: 0, kv: 0, compute: 0, staging: 0 });
    expect(counts.buffers).toBeGreaterThan(3);
  });

  it("holds none either with a reading under way, which rejects", async () => {
    const { engine, backend } = await engines.open();
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.add(x, x).asOutput();
    g.plan();
    await g.compute();
    const readings = [y.read(), y.read()];
    engine.dispose();
    expect(backend.gpu.counts.liveBytes).toBe(0);
    const ends = await Promise.allSettled(readings);
    expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(backend.gpu.counts.liveBytes).toBe(0);
  });

  it("says which line of which kernel does not compile", async () => {
    const broken: GpuKernel = {
      supports: () => true,
      dispatches: (node, caps) =>
        KERNELS[Op.ADD]!.dispatches(node, caps).map((d) => ({
          ...d,
          key: "broken",
          label: "broken add",
          source: () => "fn main(group: u32, local: u32) {\n  let x: u32 = 1.5;\n}",
        })),
    };
    const { engine } = await engines.open({}, { [Op.ADD]: broken });
    using g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    g.add(x, x).asOutput();
    g.plan();
    const error = await g.compute().then(
      () => undefined,
      (e: unknown) => e,
    );
    expect(error).toMatchObject({ name: "DeviceError", code: "bad-shader", details: { op: "broken add" } });
    expect((error as Error).message).toMatch(
      /^webgpu: broken add: line \d+: .*\n(.*\n)* +\d+ {3}let x: u32 = 1\.5;/,
    );
    await expect(g.compute()).rejects.toThrow(expect.objectContaining({ code: "bad-shader" }));
  });

  it("leaves what has more operands than a device binds to others, and says why", async () => {
    const add = KERNELS[Op.ADD]!;
    const wide = (n: number): Kernels => ({
      [Op.ADD]: {
        ...add,
        dispatches: (node, caps) =>
          add.dispatches(node, caps).map((d) => {
            const more = Array.from({ length: n }, (_, i) => ({ ...d.bind[1]!, name: `more${i}` }));
            return { ...d, bind: [...d.bind, ...more] };
          }),
      },
    });
    for (const [more, supported] of [
      [5, true],
      [6, false],
    ] as const) {
      const gpu = await openDevice({ gpu: await testGpu(), limits: "default" });
      expect(gpu.device.limits.maxStorageBuffersPerShaderStage).toBe(8);
      const backend = new GpuBackend(gpu, wide(more));
      const engine = await engineOver(backend);
      engines.keep(engine);
      using g = engine.graph();
      const x = g.input("x", Type.F32, [4]);
      const y = g.add(x, x);
      expect(backend.supportsOp(y, y.src)).toBe(supported);
      const reasons = [...backend.refused().values()];
      expect(reasons).toEqual(supported ? [] : ["9 operands; the device binds 8 at once"]);
    }
  });

  it("puts no result over a source where the kernel forbids it", async () => {
    const places = async (kernels: Kernels): Promise<boolean> => {
      const { engine } = await engines.open({}, kernels);
      using g = engine.graph();
      const x = g.leaf("x", Type.F32, [64]);
      const y = g.add(x, g.input("z", Type.F32, [64])).asOutput();
      g.plan();
      return y.placement!.offset === x.placement!.offset;
    };
    expect(await places(KERNELS)).toBe(true);
    expect(await places({ ...KERNELS, [Op.ADD]: { ...KERNELS[Op.ADD]!, inPlace: false } })).toBe(false);
  });

  it("refuses operators without a kernel when it is planned", async () => {
    const { engine } = await engines.open({}, {});
    using g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    g.add(x, x).asOutput();
    expect(() => g.plan()).toThrow(expect.objectContaining({ code: "unsupported-op" }));
  });

  it("that is aborted rejects with the reason and runs again", async () => {
    const { engine } = await engines.open();
    using g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.add(x, x).asOutput();
    g.plan();
    x.write(Float32Array.of(1, 2, 3, 4));
    await expect(g.compute({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough");
    await g.compute();
    expect(await y.read()).toEqual(Float32Array.of(2, 4, 6, 8));
  });

  it("ends with device-lost when the device goes, in runs and in readings", async () => {
    const { engine, backend } = await engines.open();
    using g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.add(x, x).asOutput();
    g.plan();
    await g.compute();
    const lost = expect.objectContaining({ name: "DeviceError", code: "device-lost" });
    const reading = y.read();
    backend.gpu.device.destroy();
    await expect(reading).rejects.toThrow(lost);
    await expect(g.compute()).rejects.toThrow(lost);
    await expect(y.read()).rejects.toThrow(lost);
    expect(() => x.write(Float32Array.of(1, 2, 3, 4))).toThrow(lost);
    expect(backend.lost?.code).toBe("device-lost");
  });
});
