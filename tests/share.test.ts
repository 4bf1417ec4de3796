// Large products, whose rows threads take as they come: results have the bits of one thread, whoever takes them, and what one
// run leaves behind does not reach the next.
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { CTRL_CLAIM_SHIFT, CTRL_CLAIMS, GROUP_MAX } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import { leaf, type Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { Core, samples, stream, weights } from "./core.ts";

/** Rows of K are long and many enough that a product of one column is shared out part by part. */
const K = 1024;
const ROWS = 4000;
const THREADS = [1, 2, 3];

async function withEngine<T>(nThreads: number, use: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await createEngine({ nThreads, device: "cpu" });
  try {
    await engine.arrived;
    expect(engine.nThreads).toBe(nThreads);
    return await use(engine);
  } finally {
    engine.dispose();
  }
}

function matrix(engine: Engine, type: Type, bytes: Uint8Array): Tensor {
  const w = leaf("w", type, [K, (bytes.length / typeInfo(type)!.typeSize / K) * typeInfo(type)!.blockSize]);
  engine.allocate([w], "weights");
  w.write(bytes);
  if (typeInfo(type)!.blockSize > 1) engine.toQuads([w]);
  return w;
}

/** Digests of the results of a graph over an input of K times `columns`. */
async function results(
  engine: Engine,
  columns: number,
  build: (g: Graph, x: Tensor) => readonly Tensor[],
  runs = 1,
): Promise<string[]> {
  using g = engine.graph();
  const x = g.input("x", Type.F32, [K, columns]);
  const outputs = build(g, x).map((y) => y.asOutput());
  g.plan();
  x.write(samples(K * columns, stream(columns)));
  for (let i = 0; i < runs; i++) await g.compute();
  const bytes = await Promise.all(outputs.map((y) => y.readBytes()));
  return bytes.map((b) => createHash("sha256").update(b).digest("hex"));
}

test.each([Type.F32, Type.F16, Type.Q8_0, Type.Q4_K].map((t) => [Type[t], t] as const))(
  "%s has the same bits for any number of threads",
  async (_, type) => {
    const bytes = weights(await Core.load(), type, K * ROWS, stream(type));
    const found = new Map<number, string[][]>();
    for (const n of THREADS) {
      await withEngine(n, async (engine) => {
        const w = matrix(engine, type, bytes);
        const of = (columns: number): Promise<string[]> =>
          results(engine, columns, (g, x) => [g.mulMat(w, x)]);
        const many = typeInfo(type)!.blockSize > 1 ? 260 : 65; // more than are prepared at a time
        found.set(n, [await of(1), await of(3), await of(5), await of(33), await of(many)]);
      });
    }
    for (const n of THREADS) expect(found.get(n)).toEqual(found.get(1));
  },
);

// Claims stand in two banks: the third product of a row of products uses the first one's again.
test("products side by side and one after the other, in runs one after the other", async () => {
  const bytes = weights(await Core.load(), Type.F32, K * K, stream(1));
  const build =
    (w: Tensor) =>
    (g: Graph, x: Tensor): Tensor[] => {
      const row = [x];
      for (let i = 0; i < 7; i++) row.push(g.scale(g.mulMat(w, row[i]!), 0.01));
      return [...row.slice(1), g.mulMat(w, x), g.mulMat(w, row[1]!)];
    };
  const of = (n: number): Promise<string[]> =>
    withEngine(n, (engine) => results(engine, 1, build(matrix(engine, Type.F32, bytes)), 3));
  const alone = await of(1);
  expect(await of(2)).toEqual(alone);
  expect(await of(3)).toEqual(alone);
});

test("what a run that was broken off had taken is free again in the next", async () => {
  const bytes = weights(await Core.load(), Type.F32, K * K, stream(1));
  const build =
    (w: Tensor) =>
    (g: Graph, x: Tensor): Tensor[] => [g.mulMat(w, x)];
  const alone = await withEngine(1, (engine) => results(engine, 1, build(matrix(engine, Type.F32, bytes))));
  await withEngine(2, async (engine) => {
    const w = matrix(engine, Type.F32, bytes);
    const from = CTRL_CLAIMS / 4;
    engine.arena.i32.fill(1 << 20, from, from + ((2 * GROUP_MAX) << (CTRL_CLAIM_SHIFT - 2)));
    expect(await results(engine, 1, build(w))).toEqual(alone);
  });
});

test.each([1, 2])("a row that a view repeats is multiplied by %i threads", async (n) => {
  await withEngine(n, async (engine) => {
    using g = engine.graph();
    const w = g.input("w", Type.F32, [64, 1]);
    const x = g.input("x", Type.F32, [64, 2]);
    const y = g.mulMat(g.view(w, [64, 8], { nb: [0, 0, 0] }), x).asOutput();
    g.plan();
    w.write(new Float32Array(64).fill(1));
    x.write(new Float32Array(128).fill(1));
    await g.compute();
    expect([...((await y.read()) as Float32Array)]).toEqual(new Array(16).fill(64));
  });
});
