// Memory that idle threads touch while it is filled: bytes stay what they are, runs and the end of the engine go first.
import { afterEach, expect, test } from "vitest";
import { CTRL_DONE, CTRL_JOB, CTRL_LAST, CTRL_PATIENCE } from "../assembly/abi.ts";
import { leaf } from "../ts/graph/tensor.ts";
import type { Allocation } from "../ts/runtime/allocation.ts";
import { type CpuBuffer, touchFirst } from "../ts/runtime/cpu.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { macrotask } from "../ts/runtime/macrotask.ts";
import { Type } from "../ts/types.ts";

const MB = 2 ** 20;
const engines: Engine[] = [];

afterEach(() => engines.splice(0).forEach((engine) => engine.dispose()));

async function engineOf(nThreads: number): Promise<Engine> {
  const engine = await createEngine({ nThreads, device: "cpu" });
  engines.push(engine);
  await engine.arrived;
  return engine;
}

/** Memory as weights have it, and its bytes. */
function weights(engine: Engine, nBytes: number): { memory: Allocation; bytes: Uint8Array } {
  const memory = engine.allocate([leaf("w", Type.F32, [nBytes / 4])], "weights");
  const buffer = memory.buffers[0] as CpuBuffer;
  return { memory, bytes: buffer.view(0, nBytes) };
}

const cell = (engine: Engine, at: number): number => Atomics.load(engine.arena.i32, at / 4);

/** Turns of the event loop until the others have gone through all pages. */
async function allTouched(engine: Engine, bytes: Uint8Array): Promise<void> {
  while (cell(engine, CTRL_LAST) * 65536 >= bytes.byteOffset) await macrotask();
}

test.each([2, 3])("of %i threads the others go through all pages, and change no byte", async (nThreads) => {
  const engine = await engineOf(nThreads);
  const { memory, bytes } = weights(engine, 4 * MB);
  for (let i = 0; i < bytes.length; i++) bytes[i] = i * 31;
  const end = touchFirst(engine.backend, memory.buffers);
  await macrotask();
  await allTouched(engine, bytes);
  end();
  end();
  expect(bytes.findIndex((x, i) => x !== ((i * 31) & 255))).toBe(-1);
});

test("what is written meanwhile is there", async () => {
  const engine = await engineOf(2);
  const { memory, bytes } = weights(engine, 32 * MB);
  const end = touchFirst(engine.backend, memory.buffers);
  await macrotask();
  for (let value = 1; value <= 3; value++) {
    for (let at = 0; at < bytes.length; at += 1000) bytes.fill(value + at, at, at + 1000);
  }
  end();
  expect(bytes.findIndex((x, i) => x !== ((3 + i - (i % 1000)) & 255))).toBe(-1);
});

test("a run goes first, and has all threads", async () => {
  const engine = await engineOf(2);
  const { memory } = weights(engine, 512 * MB);
  const g = engine.graph();
  const x = g.input("x", Type.F32, [33, 31]);
  const y = g.scale(x, 2).asOutput("y");
  g.plan();
  x.write(Float32Array.from({ length: 33 * 31 }, (_, i) => i));
  const end = touchFirst(engine.backend, memory.buffers);
  await macrotask();
  const jobs = cell(engine, CTRL_JOB);
  await g.compute();
  expect(cell(engine, CTRL_JOB)).toBe(jobs + 1);
  end();
  expect(await y.read()).toEqual(Float32Array.from({ length: 33 * 31 }, (_, i) => 2 * i));
});

test("nothing is handed out to one thread, nor after the end", async () => {
  for (const nThreads of [1, 2]) {
    const engine = await engineOf(nThreads);
    const { memory } = weights(engine, MB);
    const jobs = cell(engine, CTRL_JOB);
    touchFirst(engine.backend, memory.buffers)();
    await macrotask();
    expect(cell(engine, CTRL_JOB)).toBe(jobs);
  }
});

test("an engine may be disposed meanwhile", async () => {
  const engine = await engineOf(2);
  const { memory } = weights(engine, 64 * MB);
  const end = touchFirst(engine.backend, memory.buffers);
  await macrotask();
  engine.dispose();
  end();
  expect(engine.nThreads).toBe(1);
});

test("a thread that does not leave off is given up, with a notice, and the engine goes on alone", async () => {
  const warnings: string[] = [];
  const logger = { warn: (message: string): void => void warnings.push(message) };
  const engine = await createEngine({ nThreads: 2, device: "cpu", logger });
  engines.push(engine);
  await engine.arrived;
  const { memory } = weights(engine, MB);
  const end = touchFirst(engine.backend, memory.buffers);
  await macrotask();
  engine.arena.i32[CTRL_PATIENCE / 4] = 2;
  Atomics.store(engine.arena.i32, CTRL_DONE / 4, -100);
  end();
  expect(engine.nThreads).toBe(1);
  expect(warnings).toEqual(["threads: a worker stopped answering: one thread"]);
});
