// Threads that come late, one by one or never: runs have one thread until all are there, and nothing is left behind.
// The last test needs dist/.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import { CTRL_JOB, CTRL_PHASE, CTRL_READY, Status } from "../assembly/abi.ts";
import type { Crew, PoolOptions, Thread } from "../ts/runtime/threads.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { macrotask } from "../ts/runtime/macrotask.ts";
import { hire, ThreadPool } from "../ts/runtime/threads.ts";
import { compileCore, createMemory, instantiate } from "../ts/runtime/wasm.ts";
import { Type } from "../ts/types.ts";
import { runCommand } from "./hosts/process.ts";

afterEach(() => vi.useRealTimers());

/** A worker that does only what the test makes it do. */
class FakeThread implements Thread {
  ended = false;
  say!: () => void;
  fail!: () => void;
  readonly #answer = new Promise<unknown>((resolve, reject) => {
    this.say = () => resolve("ready");
    this.fail = () => reject(new Error("out of handles"));
  });

  post(): void {}

  next(): Promise<unknown> {
    return this.#answer;
  }

  terminate(): void {
    this.ended = true;
    this.fail();
  }
}

/** Shared memory with a core, and the warnings of a pool over it. */
async function parts(): Promise<PoolOptions & { readonly warnings: string[]; readonly cells: Int32Array }> {
  const { module } = await compileCore(undefined, true);
  const { memory } = createMemory(32, true);
  const warnings: string[] = [];
  const cells = new Int32Array(memory.buffer, 0, 1024);
  const warn = (message: string): void => void warnings.push(message);
  return { module, memory, core: instantiate(module, memory), warn, warnings, cells };
}

/** A crew of a worker that comes and one that is the test's. */
function crewWith(fake: Thread): Crew {
  const crew = hire(2);
  return { ...crew, nThreads: 3, workers: [...crew.workers, fake] };
}

/** What a run without nodes comes to, and whether it was handed to workers. */
function emptyRun(pool: ThreadPool, cells: Int32Array): { status: unknown; shared: boolean } {
  const before = Atomics.load(cells, CTRL_JOB / 4);
  const status = pool.run(0, 0, 0);
  return { status, shared: Atomics.load(cells, CTRL_JOB / 4) !== before };
}

/** Turns of the event loop until this many workers are counted. */
async function counted(cells: Int32Array, n: number): Promise<void> {
  while (Atomics.load(cells, CTRL_READY / 4) < n) await macrotask();
}

test("no run is shared out before the last thread is there, and each run is from then on", async () => {
  const options = await parts();
  const { cells, core, warnings } = options;
  const slow = new FakeThread();
  const pool = await ThreadPool.start(options, crewWith(slow));
  expect(emptyRun(pool, cells)).toEqual({ status: Status.OK, shared: false });
  await counted(cells, 1);
  for (let i = 0; i < 3; i++) expect(emptyRun(pool, cells)).toEqual({ status: Status.OK, shared: false });
  expect(pool.nThreads).toBe(3);
  const other = hire(2).workers[0]!; // comes as thread 2, in the place of the one that says nothing
  other.post({ module: options.module, memory: options.memory, ith: 2, leader: false });
  const comes = other.next();
  await counted(cells, 2);
  for (let i = 0; i < 100; i++) expect(emptyRun(pool, cells)).toEqual({ status: Status.OK, shared: true });
  await comes;
  slow.say();
  await pool.arrived;
  expect(emptyRun(pool, cells)).toEqual({ status: Status.OK, shared: true });
  pool.dispose();
  other.terminate();
  expect(warnings).toEqual([]);
  expect(core.jobNumber()).toBe(102); // 101 jobs, and the end
});

test("a thread that dies before it comes leaves one thread and one notice, and the others are ended", async () => {
  const options = await parts();
  const fake = new FakeThread();
  const pool = await ThreadPool.start(options, crewWith(fake));
  fake.fail();
  await pool.arrived;
  expect(pool.nThreads).toBe(1);
  expect(options.warnings).toEqual([expect.stringMatching(/a worker did not start.*one thread$/)]);
  expect(fake.ended).toBe(true);
  expect(emptyRun(pool, options.cells)).toEqual({ status: Status.OK, shared: false });
});

test("a thread that says nothing is given up after its time, unless others' work kept its answer waiting", async () => {
  for (const answers of [false, true]) {
    const options = await parts();
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const fake = new FakeThread();
    const pool = await ThreadPool.start(options, { ...hire(1), nThreads: 2, late: true, workers: [fake] });
    await vi.advanceTimersByTimeAsync(10_001);
    expect(pool.nThreads).toBe(2);
    if (answers) fake.say();
    await vi.advanceTimersByTimeAsync(101);
    await pool.arrived;
    expect({ nThreads: pool.nThreads, warned: options.warnings.length }).toEqual(
      answers ? { nThreads: 2, warned: 0 } : { nThreads: 1, warned: 1 },
    );
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  }
});

test("a real worker that is ended before it comes, by the pool or by others, settles the wait at once", async () => {
  for (const mine of [true, false]) {
    const options = await parts();
    const crew = hire(2);
    const pool = await ThreadPool.start(options, crew);
    if (mine) pool.dispose();
    else crew.workers[0]!.terminate();
    await pool.arrived;
    expect(pool.nThreads).toBe(1);
    expect(options.warnings).toHaveLength(mine ? 0 : 1);
    await expect(crew.workers[0]!.next()).rejects.toThrow("ended");
  }
});

test("a worker that comes after the end leaves again, whatever one thread has run since", async () => {
  const { module, memory, core, cells } = await parts();
  core.leave();
  expect(core.run(0, 0, 0, 1)).toBe(Status.OK);
  const worker = hire(2).workers[0]!;
  worker.post({ module, memory, ith: 1, leader: false });
  await worker.next();
  // It is in its event loop again: a second first message finds the core there, and is run as thread 0.
  worker.post({ records: 0, first: 0, last: 0, nth: 1 });
  expect(await worker.next()).toBe(Status.OK);
  expect(Atomics.load(cells, CTRL_JOB / 4)).toBe(1);
  worker.terminate();
});

test("a worker script that ends at once leaves one thread and one notice without waiting for its time", async () => {
  const warnings: string[] = [];
  const workerUrl = new URL("data:text/javascript,process.exit(3)");
  const logger = { warn: (m: string): void => void warnings.push(m) };
  using engine = await createEngine({ nThreads: 2, device: "cpu", workerUrl, logger });
  expect(engine.nThreads).toBe(1);
  expect(warnings).toEqual([expect.stringContaining("a worker did not start")]);
});

/** A product that two threads share out, and meet before the next; results of runs until the engine has all threads. */
function chain(engine: Engine): { x: Tensor; y: Tensor; compute: () => Promise<void> } {
  const g = engine.graph();
  const x = g.input("x", Type.F32, [257, 3]);
  const w = g.weight("w", Type.F32, [257, 257]);
  const y = g.mulMat(w, g.mulMat(w, x)).asOutput();
  g.plan();
  w.write(Float32Array.from({ length: 257 * 257 }, (_, i) => Math.sin(i) / 9));
  return { x, y, compute: () => g.compute() };
}

test("a graph that runs while the threads come has the same bits all along, and shares its work in the end", async () => {
  using engine = await createEngine({ nThreads: 4, device: "cpu" });
  const { x, y, compute } = chain(engine);
  const data = Float32Array.from({ length: 257 * 3 }, (_, i) => Math.cos(i));
  const run = async (): Promise<unknown> => {
    x.write(data);
    await compute();
    return y.read();
  };
  const want = await run();
  let here = false;
  void engine.arrived.then(() => (here = true));
  for (let after = 0; after < 3; after += here ? 1 : 0) {
    expect(await run()).toEqual(want);
    await macrotask();
  }
  engine.arena.i32[CTRL_PHASE / 4] = 0;
  await run();
  expect(engine.arena.i32[CTRL_PHASE / 4]!).toBeGreaterThan(0);
  expect(engine.nThreads).toBe(4);
});

test.each([
  ["engine.dispose(); await engine.arrived", false],
  ["await engine.arrived", false],
  ["", true], // the limit of time for the threads that are awaited
])(
  "a process that ends its engine with `%s` ends by itself, quietly; a timer is left: %s",
  async (last, left) => {
    const program = `
    const { createEngine } = await import(process.argv[1]);
    const engine = await createEngine({ nThreads: 4, device: "cpu", logger: { warn: console.error } });
    ${last};
    console.log(process.getActiveResourcesInfo().includes("Timeout"));
  `;
    const args = ["--input-type=module", "--eval", program, pathToFileURL(resolve("dist/index.js")).href];
    const ended = await runCommand(process.execPath, args, { limitMs: 50_000 });
    expect(ended).toMatchObject({ code: 0, timedOut: false, stderr: "", stdout: `${left}\n` });
  },
);
