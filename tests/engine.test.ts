// The engine: planning and running graphs, memory, faults, threads.
import { expect, test, vi } from "vitest";
import { Flag, Op } from "../assembly/abi.ts";
import { createEngine, Engine, type EngineOptions } from "../ts/runtime/engine.ts";
import type { Graph } from "../ts/graph/graph.ts";
import { leaf, type Tensor } from "../ts/graph/tensor.ts";
import { defaultThreads } from "../ts/runtime/threads.ts";
import { withShared } from "../ts/runtime/wasm.ts";
import { Type } from "../ts/types.ts";
import { ReferenceBackend, type ReferenceOptions } from "./backends/reference.ts";
import simdBytes from "../build/simd.wasm";

async function withEngine<T>(options: EngineOptions, use: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await createEngine({ nThreads: 1, ...options });
  await engine.arrived;
  try {
    return await use(engine);
  } finally {
    engine.dispose();
  }
}

const ramp = (n: number, f = (i: number): number => Math.sin(i)): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => f(i));
const code = (value: string): unknown => expect.objectContaining({ code: value });

/** A small perceptron: y = soft_max(w2 relu(w1 x + b)). */
function perceptron(g: Graph): { x: Tensor; w1: Tensor; w2: Tensor; b: Tensor; y: Tensor } {
  const x = g.input("x", Type.F32, [17, 3]);
  const w1 = g.weight("w1", Type.F32, [17, 9]);
  const w2 = g.weight("w2", Type.F32, [9, 5]);
  const b = g.weight("b", Type.F32, [9]);
  const y = g.softMax(g.mulMat(w2, g.relu(g.add(g.mulMat(w1, x), b)))).asOutput("y");
  return { x, w1, w2, b, y };
}

async function runPerceptron(engine: Engine): Promise<Float32Array> {
  const g = engine.graph();
  const { x, w1, w2, b, y } = perceptron(g);
  g.plan();
  w1.write(ramp(17 * 9));
  w2.write(ramp(9 * 5, Math.cos));
  b.write(ramp(9, (i) => i / 9));
  x.write(ramp(17 * 3, (i) => Math.sin(3 * i)));
  await g.compute();
  const result = (await y.read()) as Float32Array;
  g.dispose();
  return result;
}

test("a planned graph runs again and again and keeps its inputs and weights", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const x = g.input("x", Type.F32, [5]);
    const w = g.weight("w", Type.F32, [5]);
    const y = g.sqr(g.mul(g.scale(x, 2), w)).asOutput();
    const plan = g.plan();
    expect(plan.nBytes).toBeGreaterThanOrEqual(plan.lowerBound);
    w.write([1, 2, 3, 4, 5]);
    x.write([1, 1, 1, 1, 2]);
    for (let i = 0; i < 3; i++) {
      await g.compute();
      expect([...((await y.read()) as Float32Array)]).toEqual([4, 16, 36, 64, 400]);
    }
    expect([...((await x.read()) as Float32Array)]).toEqual([1, 1, 1, 1, 2]);
  }));

test("a result in the middle is readable only when marked as output", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const middle = g.scale(x, 3).asOutput("middle");
    const hidden = g.scale(middle, 2);
    const y = g.sqr(hidden).asOutput();
    g.plan();
    x.write([1, 2, 3, 4]);
    await g.compute();
    expect([...((await middle.read()) as Float32Array)]).toEqual([3, 6, 9, 12]);
    expect([...((await y.read()) as Float32Array)]).toEqual([36, 144, 324, 576]);
    await expect(hidden.read()).rejects.toThrow(code("not-readable"));
  }));

test("views of weights, of inputs and of results are read and written through their root", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const w = g.weight("w", Type.F32, [3, 4]);
    const x = g.input("x", Type.F32, [3, 2]);
    const s = g.add(g.view(w, [3, 2], { nb: [12], offset: 12 }), x);
    const columns = g.transpose(s).asOutput("columns");
    const scaled = g.scale(g.reshape(s, [6]), 10).asOutput();
    g.plan();
    w.write(ramp(12, (i) => i));
    x.write(new Float32Array(6));
    await g.compute();
    expect([...((await columns.read()) as Float32Array)]).toEqual([3, 6, 4, 7, 5, 8]);
    expect([...((await scaled.read()) as Float32Array)]).toEqual([30, 40, 50, 60, 70, 80]);
  }));

test("refuses calls out of order and wrong data, and stays usable", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.sqr(x).asOutput();
    expect(() => x.write([1, 2, 3, 4])).toThrow(code("not-planned"));
    await expect(g.compute()).rejects.toThrow(code("not-planned"));
    await expect(y.read()).rejects.toThrow(code("not-planned"));
    g.plan();
    expect(() => x.write([1, 2, 3])).toThrow(code("bad-data"));
    expect(() => x.write(new BigInt64Array(4))).toThrow(code("bad-data"));
    x.write([1, 2, 3, 4]);
    await g.compute();
    expect([...((await y.read()) as Float32Array)]).toEqual([1, 4, 9, 16]);
  }));

test("a misspelt option is a TypeError", async () => {
  await expect(createEngine({ nthreads: 1 } as EngineOptions)).rejects.toThrow(TypeError);
  await expect(createEngine({ nThreads: 0 })).rejects.toThrow(code("bad-param"));
  await expect(createEngine({ device: "gpu" as "cpu" })).rejects.toThrow(code("unsupported"));
});

test("a disposed engine throws a typed error, and dispose may be called twice", async () => {
  const engine = await createEngine({ nThreads: 2 });
  const g = engine.graph();
  g.sqr(g.input("x", Type.F32, [1])).asOutput();
  g.plan();
  engine.dispose();
  engine.dispose();
  expect(() => engine.graph()).toThrow(code("disposed"));
  expect(() => engine.memory()).toThrow(code("disposed"));
  expect(() => g.plan()).toThrow(code("disposed"));
  await expect(g.compute()).rejects.toThrow(code("disposed"));
});

test.each([1, 2, 3])(
  "a trap on any of %i threads is a typed error that names the node, and the engine goes on",
  (nThreads) =>
    withEngine({ nThreads }, async (engine) => {
      const g = engine.graph();
      const table = g.weight("table", Type.F32, [8, 10]);
      const ids = g.input("ids", Type.I32, [64]);
      const y = g.sqr(g.getRows(table, ids).named("picked")).asOutput();
      g.plan();
      table.write(ramp(80));
      engine.arena.ensure(16 * 2 ** 20); // memory grows: views from before are detached
      const good = Int32Array.from({ length: 64 }, (_, i) => i % 10);
      for (const bad of [0, 31, 63]) {
        ids.write(good.with(bad, 10));
        await expect(g.compute()).rejects.toMatchObject({
          name: "DeviceError",
          code: "trap",
          details: { op: "get_rows", node: 0, tensor: "picked" },
        });
        ids.write(good.with(bad, -1));
        await expect(g.compute()).rejects.toThrow(code("trap"));
        ids.write(good);
        await g.compute();
        const want = [...good].flatMap((id) =>
          [...ramp(80).subarray(8 * id, 8 * id + 8)].map((v) => Math.fround(v * v)),
        );
        expect([...((await y.read()) as Float32Array)]).toEqual(want);
      }
    }),
);

test("threads give the bits of one thread", async () => {
  const want = await withEngine({}, runPerceptron);
  for (const nThreads of [2, 3, 5]) expect(await withEngine({ nThreads }, runPerceptron)).toEqual(want);
});

test("both builds and the debug-free module given as bytes give the same result", async () => {
  const want = await withEngine({ wasm: "simd" }, runPerceptron);
  const given = await createEngine({ nThreads: 1, wasm: simdBytes });
  expect(given.build).toBe("custom");
  expect(await runPerceptron(given)).toEqual(want);
  given.dispose();
});

test("a wasm file that is none says what it is instead", async () => {
  const html = new TextEncoder().encode("<!DOCTYPE html><title>404</title>");
  await expect(createEngine({ wasm: html })).rejects.toMatchObject({
    code: "bad-wasm",
    message: expect.stringContaining("HTML"),
  });
  const response = new Response("gone", { status: 404 });
  await expect(createEngine({ wasm: response })).rejects.toMatchObject({
    code: "bad-wasm",
    message: expect.stringContaining("404"),
  });
});

test("a core file that does not come is a DeviceError", async () => {
  const used = new Response(new Uint8Array(8));
  await used.arrayBuffer();
  for (const wasm of [used, new URL("http://127.0.0.1:1/core.wasm")]) {
    await expect(createEngine({ wasm })).rejects.toMatchObject({ name: "DeviceError", code: "bad-wasm" });
  }
});

test("a core file that is damaged says so, and not that the engine lacks SIMD", async () => {
  for (const nBytes of [9, 1000, simdBytes.length - 1]) {
    const cut = simdBytes.slice(0, nBytes);
    await expect(createEngine({ wasm: cut })).rejects.toMatchObject({
      code: "bad-wasm",
      message: "wasm: the given bytes: damaged, or in need of what this engine lacks",
    });
  }
  await expect(createEngine({ wasm: {} })).rejects.toMatchObject({ code: "bad-wasm" });
  vi.spyOn(WebAssembly, "validate").mockReturnValue(false); // an engine that has no SIMD
  try {
    await expect(createEngine({ wasm: simdBytes.slice(0, 1000) })).rejects.toMatchObject({ code: "no-simd" });
  } finally {
    vi.restoreAllMocks();
  }
});

test("one module serves plain and shared memory", () => {
  const plain = withShared(simdBytes, false);
  const memory = new WebAssembly.Memory({ initial: 4, maximum: 4 });
  const shared = new WebAssembly.Memory({ initial: 4, maximum: 4, shared: true });
  const make = (bytes: Uint8Array<ArrayBuffer>, m: WebAssembly.Memory): WebAssembly.Instance =>
    new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory: m, abort: () => undefined } });
  expect(make(plain, memory).exports.run).toBeTypeOf("function");
  expect(make(withShared(plain, true), shared).exports.run).toBeTypeOf("function");
  expect(() => make(plain, shared)).toThrow(WebAssembly.LinkError);
});

test("the default thread count is sane whatever the host reports", () => {
  expect([undefined, NaN, 0, -1, 1, 2, 3, 3.7, 8, 128, Infinity].map(defaultThreads)).toEqual([
    1, 1, 1, 1, 1, 2, 3, 3, 8, 8, 1,
  ]);
});

test("more threads than cores finish", () =>
  withEngine({ nThreads: 12 }, async (engine) => {
    expect(engine.nThreads).toBe(12);
    expect(await runPerceptron(engine)).toEqual(await withEngine({}, runPerceptron));
  }));

test("one wins the race between concurrent runs after the other, and both results are right", () =>
  withEngine({ nThreads: 2 }, async (engine) => {
    const runs = Array.from({ length: 4 }, () => runPerceptron(engine));
    const [want, ...rest] = await Promise.all(runs);
    for (const got of rest) expect(got).toEqual(want);
  }));

test.each([1, 2])(
  "with %i threads an aborted run rejects with the signal's reason and the next one is right",
  (nThreads) =>
    withEngine({ nThreads }, async (engine) => {
      const g = engine.graph();
      let x = g.input("x", Type.F32, [256, 256]);
      const first = x;
      for (let i = 0; i < 200; i++) x = g.mulMat(x, first);
      x.asOutput();
      g.plan();
      first.write(new Float32Array(65536));
      engine.arena.ensure(16 * 2 ** 20);
      const reason = new Error("enough");
      const controller = new AbortController();
      setTimeout(() => controller.abort(reason), 1);
      await expect(g.compute({ signal: controller.signal })).rejects.toBe(reason);
      await g.compute();
      expect(((await x.read()) as Float32Array).every((v) => v === 0)).toBe(true);
    }),
);

test("graphs planned together share one compute buffer and alternate correctly", () =>
  withEngine({}, async (engine) => {
    const make = (n: number): { g: Graph; x: Tensor; y: Tensor } => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [n]);
      return { g, x, y: g.scale(g.sqr(x), n).asOutput() };
    };
    const [a, b] = [make(3), make(1000)];
    const { plans } = engine.reserve([a!.g, b!.g]);
    expect(engine.memory().compute).toBe(Math.ceil(Math.max(...plans.map((p) => p.nBytes)) / 64) * 64);
    for (const { g, x, y } of [a!, b!, a!]) {
      const n = x.ne[0];
      x.write(ramp(n, (i) => i));
      await g.compute();
      expect(await y.read()).toEqual(ramp(n, (i) => Math.fround(i * i) * n));
    }
    a!.g.dispose();
    expect(engine.memory().compute).toBeGreaterThan(0);
    b!.g.dispose();
    expect(engine.memory()).toMatchObject({ compute: 0, records: 0 });
  }));

test("two graphs of equal shapes and other wiring each get a plan of their own", () =>
  withEngine({}, async (engine) => {
    const make = (left: boolean): { g: Graph; x: Tensor; y: Tensor } => {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [4]);
      const [p, q] = [g.sqr(x), g.scale(x, 2)];
      return { g, x, y: (left ? g.sub(p, q) : g.sub(q, p)).asOutput() };
    };
    for (const left of [true, false, true]) {
      const { g, x, y } = make(left);
      g.plan();
      x.write([1, 2, 3, 4]);
      await g.compute();
      const want = [-1, 0, 3, 8];
      expect([...((await y.read()) as Float32Array)].map((v) => v + 0)).toEqual(
        left ? want : want.map((v) => 0 - v),
      );
    }
  }));

test("inputs without OUTPUT may be consumed in place, and say so when read", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const x = g.leaf("x", Type.F32, [1000]);
    g.sqr(x).asOutput();
    const plan = g.plan();
    expect(plan.nBytes).toBe(Math.ceil(4000 / 32) * 32);
    expect(x.flags & Flag.OUTPUT).toBe(0);
  }));

test("a tensor too large for 32-bit addresses is refused by name, never wrapped", () =>
  withEngine({}, async (engine) => {
    const g = engine.graph();
    const big = g.weight("big", Type.F32, [65536, 16384]); // 2^32 bytes
    g.sumRows(big).asOutput();
    expect(() => g.plan()).toThrow(
      expect.objectContaining({ code: "too-large", message: expect.stringMatching(/^big .*4294967296/) }),
    );
    expect(engine.memory()).toMatchObject({ weights: 0, records: 0, compute: 0 });
  }));

// ---- a second backend behind the same interface

async function withReference<T>(
  options: ReferenceOptions,
  use: (engine: Engine, backend: ReferenceBackend) => Promise<T>,
): Promise<T> {
  const backend = new ReferenceBackend(options);
  return withEngine({}, async (cpu) => use(new Engine(cpu, [backend]), backend));
}

test("a backend without linear memory and with random delays gives the CPU's result", () =>
  withReference({ delayMs: 3, alignment: 256 }, async (engine, backend) => {
    const [want, got] = [await withEngine({}, runPerceptron), await runPerceptron(engine)];
    got.forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 5));
    expect(engine.memory()).toMatchObject({ weights: 0, compute: 0 });
    expect(backend.buffers.every((b) => b.disposed)).toBe(true);
  }));

test("an operator that a backend refuses is a typed error while planning", () =>
  withReference({ refuse: [Op.SOFT_MAX] }, async (engine) => {
    const g = engine.graph();
    perceptron(g);
    expect(() => g.plan()).toThrow(
      expect.objectContaining({ code: "unsupported-op", message: expect.stringContaining("reference") }),
    );
  }));

test("a plan larger than a backend's largest buffer lies in several", () =>
  withReference({ maxSize: 700 }, async (engine, backend) => {
    const [want, got] = [await withEngine({}, runPerceptron), await runPerceptron(engine)];
    got.forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 5));
    expect(Math.max(...backend.buffers.map((b) => b.size))).toBeLessThanOrEqual(700);
    expect(backend.buffers.every((b) => b.disposed)).toBe(true);
  }));

test("a cache starts as zeros, in fresh memory and in memory that was used before", () =>
  withEngine({}, async (engine) => {
    const make = (use: "weights" | "kv"): { t: Tensor; end: () => void } => {
      const t = leaf("t", Type.F32, [1001]);
      const memory = engine.allocate([t], use);
      return { t, end: () => memory.dispose() };
    };
    const fresh = make("kv");
    expect(await fresh.t.read()).toEqual(new Float32Array(1001));
    fresh.t.write(ramp(1001));
    fresh.end();
    const weights = make("weights");
    weights.t.write(ramp(1001));
    weights.end();
    const again = make("kv");
    expect(await again.t.read()).toEqual(new Float32Array(1001));
  }));
