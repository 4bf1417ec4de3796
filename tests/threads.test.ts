// Threads that do not come: the others notice, the error is typed, the engine goes on alone.
import { expect, test } from "vitest";
import type { Status } from "../assembly/abi.ts";
import {
  CTRL_FIRST,
  CTRL_LAST,
  CTRL_PATIENCE,
  CTRL_PHASE,
  CTRL_RECORDS,
  Flag,
  NODE_BYTES,
  NODE_FLAGS,
  NODE_OP,
  Op,
} from "../assembly/abi.ts";
import type { CpuBackend } from "../ts/runtime/cpu.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { ThreadPool } from "../ts/runtime/threads.ts";
import { Type } from "../ts/types.ts";

/** Elements that are worth sharing out. */
const N = 20_000;

test("a thread that never comes ends the run with a timeout, and the engine goes on with one thread", async () => {
  const engine = await createEngine({ nThreads: 2 });
  await engine.arrived;
  const g = engine.graph();
  const x = g.input("x", Type.F32, [N]);
  const y = g.sqr(g.scale(x, 2)).asOutput();
  g.plan();
  x.write(new Float32Array(N).fill(3));
  const { pool } = engine.backend as CpuBackend;
  // The pool believes in a third thread that nobody started.
  const believed = new Proxy(pool, {
    get: (target, key) =>
      key === "run"
        ? (records: number, first: number, last: number): Status => engine.core.run(records, first, last, 3)
        : (Reflect.get(target, key, target) as unknown),
  });
  expect(believed).toBeInstanceOf(ThreadPool);
  engine.arena.i32[CTRL_PATIENCE / 4] = 3;
  Object.defineProperty(engine.backend, "pool", { value: bound(believed, pool) });
  await expect(g.compute()).rejects.toMatchObject({
    name: "DeviceError",
    code: "timeout",
    details: { node: 0 },
  });
  Object.defineProperty(engine.backend, "pool", { value: pool });
  expect(engine.nThreads).toBe(1);
  await g.compute();
  expect([...((await y.read()) as Float32Array)]).toEqual(new Array(N).fill(36));
  engine.dispose();
});

// Methods of the real pool keep their own `this`.
function bound(proxy: ThreadPool, pool: ThreadPool): ThreadPool {
  return new Proxy(proxy, {
    get: (target, key) => {
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === "function" && key !== "run" ? (value as () => unknown).bind(pool) : value;
    },
  });
}

/** How often two threads meet in a run of a graph over an input of N elements. */
async function meetings(build: (g: Graph, x: Tensor) => Tensor): Promise<number> {
  const engine = await createEngine({ nThreads: 2, device: "cpu" });
  await engine.arrived;
  const g = engine.graph();
  const x = g.input("x", Type.F32, [512, 4]);
  build(g, x).asOutput();
  g.plan();
  x.write(new Float32Array(2048).fill(0.5));
  await g.compute();
  const count = engine.arena.i32[CTRL_PHASE / 4]! / 2; // it counts arrivals
  engine.dispose();
  return count;
}

const matrix = (g: Graph, name: string): Tensor => g.weight(name, Type.F32, [512, 512]);

test("threads meet before a node that reads what was shared out, not between nodes that are independent", async () => {
  const chain = (g: Graph, x: Tensor): Tensor => g.mulMat(matrix(g, "b"), g.mulMat(matrix(g, "a"), x));
  expect(await meetings(chain)).toBe(1);
  const pair = (g: Graph, x: Tensor): Tensor =>
    g.concat(g.mulMat(matrix(g, "a"), x), g.mulMat(matrix(g, "b"), x), 1);
  expect(await meetings(pair)).toBe(1);
});

test("small nodes in a row are one thread's: it meets the others once before them and once after them", async () => {
  const small = (g: Graph, x: Tensor): Tensor => g.scale(g.relu(g.scale(g.add(x, x), 2)), 3);
  expect(await meetings(small)).toBe(0);
  expect(await meetings((g, x) => g.mulMat(matrix(g, "a"), small(g, x)))).toBe(1);
  expect(await meetings((g, x) => small(g, g.mulMat(matrix(g, "a"), x)))).toBe(1);
});

test("products of the same columns run side by side wherever the graph made them", async () => {
  // q = a x and k = b x, each with small nodes of its own that would stand between them.
  const branch = (g: Graph, x: Tensor, name: string): Tensor =>
    g.scale(g.relu(g.mulMat(matrix(g, name), x)), 2);
  expect(await meetings((g, x) => g.add(branch(g, x, "a"), branch(g, x, "b")))).toBe(1);
});

test("a small product is one thread's, but beside a larger one it is shared out, at no more meetings", async () => {
  const engine = await createEngine({ nThreads: 2, device: "cpu" });
  await engine.arrived;
  const soloProducts = async (rows: readonly number[]): Promise<{ solo: boolean[]; met: number }> => {
    using g = engine.graph();
    const x = g.input("x", Type.F32, [512, 1]);
    for (const [i, n] of rows.entries()) {
      g.mulMat(g.weight(`w${i}`, Type.F32, [512, n]), x).asOutput(`y${i}`);
    }
    g.plan();
    x.write(new Float32Array(512).fill(0.5));
    const { i32 } = engine.arena;
    await g.compute();
    const [records, first, last] = [CTRL_RECORDS, CTRL_FIRST, CTRL_LAST].map((at) => i32[at / 4]!);
    const solo: boolean[] = [];
    for (let i = first!; i < last!; i++) {
      const at = records! + i * NODE_BYTES;
      if (i32[(at + NODE_OP) / 4] === Op.MUL_MAT) solo.push((i32[(at + NODE_FLAGS) / 4]! & Flag.SOLO) !== 0);
    }
    return { solo, met: i32[CTRL_PHASE / 4]! / 2 };
  };
  expect(await soloProducts([96])).toEqual({ solo: [true], met: 0 });
  expect(await soloProducts([512, 96, 3])).toEqual({ solo: [false, false, true], met: 0 });
  expect(await soloProducts([96, 96])).toEqual({ solo: [true, true], met: 0 });
  engine.dispose();
});
