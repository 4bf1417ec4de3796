// Products with chosen matrices on a GPU, one column by itself and sorted into tiles, against double precision.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Op, SRC_LIVE } from "../assembly/abi.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { mulMatIdDef } from "../ts/ops/mul_mat_id.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import type { GpuBackend } from "../ts/webgpu/backend.ts";
import { Core, nmse, samples, stream, weights } from "./core.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";

interface Experts {
  readonly type: Type;
  readonly k: number;
  readonly m: number;
  /** matrices, columns of a token, tokens */
  readonly x: number;
  readonly n: number;
  readonly tokens: number;
  /** columns of b for a token: 1 or n */
  readonly each: number;
  readonly ids?: (column: number) => number;
}

interface Made {
  readonly a: Uint8Array;
  readonly b: Float32Array;
  readonly ids: Int32Array;
  readonly want: Float64Array;
}

function make(core: Core, e: Experts): Made {
  const next = stream(e.k + e.tokens);
  core.reset();
  const size = e.k * e.m;
  const a = weights(core, e.type, size * e.x, next).slice();
  const values = core.dequantize(e.type, a, size * e.x);
  const b = samples(e.k * e.each * e.tokens, next);
  const ids = Int32Array.from({ length: e.n * e.tokens }, (_, c) => e.ids?.(c) ?? (5 * c + (c >> 3)) % e.x);
  const want = new Float64Array(e.m * ids.length);
  ids.forEach((id, c) => {
    const column = (Math.floor(c / e.n) * e.each + ((c % e.n) % e.each)) * e.k;
    for (let m = 0; m < e.m; m++) {
      let sum = 0;
      for (let i = 0; i < e.k; i++) sum += values[id * size + m * e.k + i]! * b[column + i]!;
      want[c * e.m + m] = id < e.x ? sum : NaN;
    }
  });
  return { a, b, ids, want };
}

await describeGpu("mul_mat_id on a GPU", () => {
  const engines = new GpuEngines();
  let core: Core;
  let engine: Engine;
  let backend: GpuBackend;

  beforeAll(async () => {
    core = await Core.load("simd");
    ({ engine, backend } = await engines.open());
  });

  afterAll(() => {
    expect(backend.gpu.failure).toBeUndefined();
    engines.dispose();
  });

  async function run(on: Engine, e: Experts, { a, b, ids }: Made, live?: number): Promise<Float32Array> {
    using g = on.graph();
    const leafs: Tensor[] = [
      g.weight("a", e.type, [e.k, e.m, e.x]),
      g.input("b", Type.F32, [e.k, e.each, e.tokens]),
      g.input("ids", Type.F32, [e.n, e.tokens]),
    ];
    const src: (Tensor | undefined)[] = [leafs[0], leafs[1], g.cast(leafs[2]!, Type.I32)];
    if (live !== undefined) src[SRC_LIVE] = g.input("live", Type.I32, [1]);
    const y = g.node(Op.MUL_MAT_ID, mulMatIdDef, src).asOutput();
    g.plan();
    leafs[0]!.write(a);
    leafs[1]!.write(b);
    leafs[2]!.write(Float32Array.from(ids));
    if (live !== undefined) src[SRC_LIVE]!.write([live]);
    await g.compute();
    return (await y.read()) as Float32Array;
  }

  // sorting and tiles, or columns by themselves
  const CASES: readonly Experts[] = [
    { type: Type.F16, k: 33, m: 33, x: 3, n: 2, tokens: 31, each: 1 },
    { type: Type.Q4_0, k: 64, m: 9, x: 4, n: 3, tokens: 33, each: 3 },
    { type: Type.Q4_0, k: 96, m: 31, x: 1, n: 1, tokens: 8, each: 1 },
    { type: Type.Q4_0, k: 64, m: 9, x: 4, n: 3, tokens: 3, each: 3 },
  ];
  test.each(CASES)("$type, $x matrices, $n columns of $tokens tokens", async (e) => {
    const made = make(core, e);
    const { dispatches } = backend.gpu.counts;
    expect(nmse(await run(engine, e, made), made.want)).toBeLessThan(1e-11);
    expect(backend.gpu.counts.dispatches - dispatches).toBe(e.tokens > 3 ? 3 : 2); // the cast too
  });

  const EVEN: Experts = { type: Type.Q4_0, k: 64, m: 9, x: 4, n: 3, tokens: 33, each: 3 };

  test("all columns of one matrix, others unused", async () => {
    const e = { ...EVEN, ids: () => 2 };
    const made = make(core, e);
    expect(nmse(await run(engine, e, made), made.want)).toBeLessThan(1e-11);
  });

  test("matrices that do not fit into a binding together", async () => {
    const { engine: small } = await engines.open({ maxBinding: 4096 });
    const e = { ...EVEN, type: Type.F16, k: 33, m: 33, x: 3, n: 1, tokens: 24, each: 1 };
    const made = make(core, e);
    expect(nmse(await run(small, e, made), made.want)).toBeLessThan(1e-11);
  });

  test("tokens behind the live ones are left out, their ids too", async () => {
    const e = { ...EVEN, ids: (c: number) => (c < 60 ? c % 4 : 99) };
    const made = make(core, e);
    const y = await run(engine, e, made, 20);
    expect(nmse(y.slice(0, 20 * 27), made.want.slice(0, 20 * 27))).toBeLessThan(1e-11);
    await expect(run(engine, e, made, 21)).rejects.toMatchObject({
      code: "trap",
      details: { op: "mul_mat_id", actual: 99 },
    });
  });
});
