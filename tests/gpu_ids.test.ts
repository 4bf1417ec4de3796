// Ids outside their tables on the GPU: the CPU's error, before the run for ids of the host, with the next reading for
// ids that the GPU computed. Nothing outside is touched, and the engine goes on.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Op, SRC_LIVE } from "../assembly/abi.ts";
import { DeviceError } from "../ts/errors.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { getRowsDef } from "../ts/ops/get_rows.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import type { GpuBackend } from "../ts/webgpu/backend.ts";
import { describeGpu } from "./gpu_describe.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";

/** Operators over a table of 7 rows of 4 and two ids; what else they read is 1, 2, 3 .. */
const OPS: readonly (readonly [string, (g: Graph, table: Tensor, ids: Tensor) => Tensor])[] = [
  ["get_rows", (g, table, ids) => g.getRows(table, ids)],
  ["add_id", (g, table, ids) => g.addId(rowsOf(g), table, g.reshape(ids, [2, 1]))],
  [
    "mul_mat_id",
    (g, table, ids) => g.mulMatId(g.reshape(table, [2, 2, 7]), columns(g), g.reshape(ids, [2, 1])),
  ],
];

const rowsOf = (g: Graph): Tensor => g.input("other", Type.F32, [4, 2, 1]);
const columns = (g: Graph): Tensor => g.input("other", Type.F32, [2, 1, 1]);
const count = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => i + 1);

await describeGpu("an id outside its table", () => {
  let engine: Engine;
  let backend: GpuBackend;

  beforeAll(async () => {
    ({ engine, backend } = await gpuEngine({ gpu: await testGpu() }));
  });

  afterAll(() => {
    expect(backend.gpu.failure).toBeUndefined();
    engine.dispose();
    expect(backend.gpu.counts.liveBytes).toBe(0);
  });

  function fill(leafs: readonly Tensor[]): void {
    for (const t of leafs) if (t.name !== "ids") t.write(count(t.ne[0] * t.ne[1] * t.ne[2]));
  }

  test.each(OPS)("of %s, written by the host, ends the run before it starts", async (op, build) => {
    using g = engine.graph();
    const table = g.input("table", Type.F32, [4, 7]);
    const ids = g.input("ids", Type.I32, [2]);
    const y = build(g, table, ids).asOutput();
    g.plan();
    fill(g.program().leafs);
    ids.write([1, 6]);
    await g.compute();
    const good = await y.read();
    for (const id of [7, -1, 2 ** 31 - 1, -(2 ** 31)]) {
      ids.write([1, id]);
      const { submits } = backend.gpu.counts;
      const failed = g.compute();
      await expect(failed).rejects.toThrow(DeviceError);
      await expect(failed).rejects.toMatchObject({ code: "trap", details: { op, actual: id } });
      expect(backend.gpu.counts.submits).toBe(submits);
    }
    ids.write([1, 6]);
    await g.compute();
    expect(await y.read()).toEqual(good);
  });

  test.each(OPS)("of %s, computed by the GPU, fails the next reading by name", async (op, build) => {
    using g = engine.graph();
    const table = g.input("table", Type.F32, [4, 7]);
    const from = g.input("from", Type.F32, [2]);
    const y = build(g, table, g.cast(from, Type.I32)).asOutput();
    g.plan();
    fill(g.program().leafs);
    from.write([1, 6]);
    await g.compute();
    const good = await y.read();
    for (const id of [7, -1, 2 ** 30]) {
      from.write([1, id]);
      await g.compute();
      const { submits } = backend.gpu.counts;
      const failed = y.read();
      await expect(failed).rejects.toThrow(DeviceError);
      await expect(failed).rejects.toMatchObject({ code: "trap", details: { op, actual: id } });
      expect(backend.gpu.counts.submits).toBe(submits + 1);
      from.write([1, 6]);
      await g.compute();
      expect(await y.read()).toEqual(good);
    }
  });

  test.each([Type.I32, Type.I64])("of set_rows, ids of type %i, writes nothing", async (type) => {
    using g = engine.graph();
    const target = g.input("target", Type.F32, [4, 7]);
    const rows = g.input("rows", Type.F32, [4, 1]);
    const ids = g.input("ids", type, [1]);
    const guard = g.input("guard", Type.F32, [4, 7]);
    const y = g.setRows(target, rows, ids).asOutput();
    g.expand(g.add(guard, y));
    g.plan();
    const before = new Float32Array(28).fill(3);
    for (const t of [target, guard]) t.write(before);
    rows.write([1, 2, 3, 4]);
    for (const id of type === Type.I64 ? [-1n, 7n, 2n ** 32n, -(2n ** 63n)] : [-1, 7]) {
      ids.write(typeof id === "bigint" ? BigInt64Array.of(id) : [id]);
      await expect(g.compute()).rejects.toMatchObject({ code: "trap", details: { op: "set_rows" } });
      for (const t of [y, guard]) expect(await t.read()).toEqual(before);
    }
  });

  test("of set_rows, computed by the GPU, writes nothing and is told once", async () => {
    using g = engine.graph();
    const target = g.input("target", Type.F32, [4, 7]);
    const rows = g.input("rows", Type.F32, [4, 2]);
    const from = g.input("from", Type.F32, [2]);
    const y = g.setRows(target, rows, g.cast(from, Type.I32)).asOutput();
    g.plan();
    target.write(new Float32Array(28).fill(3));
    rows.write(count(8));
    from.write([1000, 2]);
    await g.compute();
    await expect(y.read()).rejects.toMatchObject({ code: "trap", details: { op: "set_rows", actual: 1000 } });
    const want = new Float32Array(28).fill(3);
    want.set([5, 6, 7, 8], 8);
    expect(await y.read()).toEqual(want);
  });

  test("does not matter behind the live columns", async () => {
    using g = engine.graph();
    const table = g.input("table", Type.F32, [4, 7]);
    const ids = g.input("ids", Type.I32, [3]);
    const live = g.input("live", Type.I32, [1]);
    const src: (Tensor | undefined)[] = [table, ids];
    src[SRC_LIVE] = live;
    const y = g.node(Op.GET_ROWS, getRowsDef, src).asOutput();
    g.plan();
    table.write(count(28));
    ids.write([3, 1, 99]);
    live.write([2]);
    await g.compute();
    expect((await y.read()).slice(0, 8)).toEqual(Float32Array.of(13, 14, 15, 16, 5, 6, 7, 8));
    live.write([3]);
    await expect(g.compute()).rejects.toMatchObject({ code: "trap", details: { actual: 99 } });
  });
});
