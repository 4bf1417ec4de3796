// Threads that do not come: the others notice, the error is typed, the engine goes on alone.
import { expect, test } from "vitest";
import type { Status } from "../assembly/abi.ts";
import { CTRL_PATIENCE } from "../assembly/abi.ts";
import type { CpuBackend } from "../ts/runtime/cpu.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { ThreadPool } from "../ts/runtime/threads.ts";
import { Type } from "../ts/types.ts";

test("a thread that never comes ends the run with a timeout, and the engine goes on with one thread", async () => {
  const engine = await createEngine({ nThreads: 2 });
  const g = engine.graph();
  const x = g.input("x", Type.F32, [1000]);
  const y = g.sqr(g.scale(x, 2)).asOutput();
  g.plan();
  x.write(new Float32Array(1000).fill(3));
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
  expect([...((await y.read()) as Float32Array)]).toEqual(new Array(1000).fill(36));
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
