// The scheduler on three backends: devices A and B behind queues with random delays, and the CPU.
import { afterEach, describe, expect, test } from "vitest";
import { Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { nelements } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import { engineWith, RemoteBackend, type RemoteOptions } from "./backends/remote.ts";

const open: { dispose(): void }[] = [];

afterEach(() => {
  for (const x of open.splice(0)) x.dispose();
});

/** An engine over A (which refuses some operators), B and the CPU. */
async function three(
  a: RemoteOptions = {},
  b: RemoteOptions = {},
): Promise<{ engine: Engine; devices: RemoteBackend[] }> {
  const devices = [
    await RemoteBackend.open("a", { delayMs: 2, ...a }),
    await RemoteBackend.open("b", { delayMs: 2, ...b }),
  ];
  const engine = await engineWith(devices);
  open.push(engine);
  return { engine, devices };
}

async function cpuEngine(): Promise<Engine> {
  const engine = await createEngine({ nThreads: 1, device: "cpu" });
  open.push(engine);
  return engine;
}

const code = (value: string): unknown => expect.objectContaining({ code: value });
const ramp = (n: number, k = 1): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(k * i + k));

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

/** Runs what `build` makes, with inputs written by `ramp`; bytes of the results. */
async function run(engine: Engine, build: (g: Graph) => Built, times = 1): Promise<Uint8Array[]> {
  const g = engine.graph();
  const { inputs, outputs } = build(g);
  for (const t of outputs) t.asOutput();
  g.plan();
  const results: Uint8Array[][] = [];
  for (let i = 0; i < times; i++) {
    inputs.forEach((t, k) =>
      t.write(t.type === Type.I32 ? new Int32Array(nelements(t.ne)) : ramp(nelements(t.ne), k + 1)),
    );
    await g.compute();
    results.push(await Promise.all(outputs.map((t) => t.readBytes())));
  }
  for (const r of results) r.forEach((bytes, i) => expect(equal(bytes, results[0]![i]!)).toBe(true));
  g.dispose();
  return results[0]!;
}

interface Built {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
}

async function sameAsCpu(engine: Engine, build: (g: Graph) => Built, times = 1): Promise<void> {
  const [want, got] = [await run(await cpuEngine(), build), await run(engine, build, times)];
  got.forEach((bytes, i) => expect(equal(bytes, want[i]!), `output ${i}`).toBe(true));
}

const backendsOf = (g: Graph, engine: Engine): string[] => engine.splits(g).map((s) => s.backend);

describe("assignment", () => {
  test("a graph that the preferred device can run is one split there, with its inputs and weights", async () => {
    const { engine, devices } = await three();
    const g = engine.graph();
    const x = g.input("x", Type.F32, [32, 3]);
    const w = g.weight("w", Type.Q8_0, [32, 5]);
    const y = g.softMax(g.mulMat(w, x)).asOutput("y");
    g.plan();
    expect(backendsOf(g, engine)).toEqual(["a"]);
    expect([...devices[0]!.buffers].map((b) => b.use).sort()).toEqual(["compute", "weights"]);
    expect(engine.memory()).toMatchObject({ weights: 0, compute: 0 });
    w.write(new Uint8Array(w.nBytes));
    x.write(ramp(96));
    await g.compute();
    expect(await y.read()).toEqual(new Float32Array(15).fill(Math.fround(0.2)));
    g.dispose();
    expect(devices[0]!.buffers.size).toBe(0);
  });

  test("an operator that one device refuses goes to the next, one that all refuse to the CPU", async () => {
    const { engine } = await three({ refuse: [Op.SQR, Op.SQRT] }, { refuse: [Op.SQRT] });
    const build = (g: Graph): Built => {
      const x = g.input("x", Type.F32, [33, 3]);
      return { inputs: [x], outputs: [g.sin(g.sqrt(g.sqr(g.cos(x))))] };
    };
    const g = engine.graph();
    const { outputs } = build(g);
    outputs[0]!.asOutput();
    expect(backendsOf(g, engine)).toEqual(["b", "cpu", "a"]);
    await sameAsCpu(engine, build);
  });

  test("nodes follow large weights, and small vectors are copied to the node", async () => {
    const { engine, devices } = await three();
    const g = engine.graph();
    const w = g.weight("w", Type.F32, [64, 64]);
    const v = g.weight("v", Type.F32, [64]);
    g.pin(w, "b");
    g.pin(v, "cpu");
    const x = g.input("x", Type.F32, [64, 3]);
    const y = g.mul(g.mulMat(w, x), v).asOutput();
    g.plan();
    expect(backendsOf(g, engine)).toEqual(["b"]);
    expect(engine.splits(g)[0]!.copies).toEqual([{ name: "v", from: "cpu", nBytes: 256 }]);
    w.write(ramp(64 * 64));
    v.write(ramp(64));
    x.write(ramp(192));
    await g.compute();
    expect(nelements(y.ne)).toBe((await y.read()).length);
    expect(devices[1]!.ran).toContain(Op.MUL_MAT);
    g.dispose();
  });

  test("weights on a side that cannot use them are copied, and the result is the CPU's", async () => {
    const { engine } = await three({ refuse: [Op.MUL_MAT] }, { refuse: [Op.MUL_MAT] });
    const build = (g: Graph): Built => {
      const w = g.weight("w", Type.F32, [33, 9]);
      if (g.belongsTo(engine)) {
        engine.pin(w, "a");
        engine.allocate([w], "weights");
      }
      const x = g.input("x", Type.F32, [33, 3]);
      return { inputs: [w, x], outputs: [g.sqr(g.mulMat(w, x))] };
    };
    await sameAsCpu(engine, build, 2);
  });

  test("an island of an unknown operator in every layer does not make layers go back and forth", async () => {
    const costs = { speed: 8, roundTripMs: 0.1 };
    const { engine } = await three({ refuse: [Op.SIN], costs }, { refuse: [Op.SIN], costs });
    const g = engine.graph();
    let x = g.input("x", Type.F32, [256, 4]);
    for (let i = 0; i < 20; i++) {
      x = g.mulMat(g.weight(`w${i}`, Type.F32, [256, 256]), x);
      if (i >= 5 && i < 15) x = g.sin(x);
    }
    x.asOutput();
    // The 10 sines and the 9 products between them; those before are worth one wait.
    expect(engine.splits(g).map((s) => [s.backend, s.nOps])).toEqual([
      ["a", 6],
      ["cpu", 19],
      ["a", 5],
    ]);
  });

  test("layers that gain more than a wait costs stay on the device", async () => {
    const costs = { speed: 8, roundTripMs: 0.01 };
    const { engine } = await three({ refuse: [Op.SIN], costs }, { refuse: [Op.SIN], costs });
    const g = engine.graph();
    let x = g.input("x", Type.F32, [512, 4]);
    for (let i = 0; i < 3; i++) x = g.sin(g.mulMat(g.weight(`w${i}`, Type.F32, [512, 512]), x));
    x.asOutput();
    expect(backendsOf(g, engine)).toEqual(["a", "cpu", "a", "cpu", "a", "cpu"]);
  });

  test("a tensor is where everything is that writes into it", async () => {
    const { engine } = await three({ refuse: [Op.SET_ROWS] }, { refuse: [Op.SET_ROWS] });
    const build = (g: Graph): Built => {
      const x = g.input("x", Type.F32, [32, 5]);
      const rows = g.input("rows", Type.F32, [32, 1]);
      const ids = g.input("ids", Type.I32, [1]);
      const target = g.sqr(x);
      return { inputs: [x, rows, ids], outputs: [g.cos(g.setRows(target, g.sin(rows), ids))] };
    };
    const g = engine.graph();
    build(g).outputs[0]!.asOutput();
    // sqr makes the target of set_rows, so it is on the CPU too.
    expect(engine.splits(g).map((s) => [s.backend, s.nOps])).toEqual([
      ["a", 1],
      ["cpu", 2],
      ["a", 1],
    ]);
    await sameAsCpu(engine, build, 3);
  });

  test("memory on a device that cannot write into it is refused, by name", async () => {
    const { engine } = await three({ refuse: [Op.SET_ROWS] });
    const g = engine.graph();
    const cache = g.weight("cache", Type.F32, [32, 5]);
    engine.allocate([cache], "kv"); // on the preferred device
    g.expand(g.setRows(cache, g.input("rows", Type.F32, [32, 1]), g.input("ids", Type.I32, [1])));
    expect(() => g.plan()).toThrow(code("unsupported-op"));
    expect(() => g.plan()).toThrow(/on a .*target lies there/);
  });
});

describe("copies", () => {
  test("100 inputs of one split", async () => {
    const { engine } = await three();
    const build = (g: Graph): Built => {
      const inputs = Array.from({ length: 100 }, (_, i) => g.input(`x${i}`, Type.F32, [i + 1]));
      const made = inputs.map((x) => g.expand(g.sqr(x)));
      if (g.belongsTo(engine)) for (const t of made) g.pin(t, "a");
      const joined = made.reduce((a, b) => g.concat(a, b, 0));
      if (g.belongsTo(engine)) for (let t = joined; t.op === Op.CONCAT; t = t.src[0]!) g.pin(t, "b");
      return { inputs, outputs: [joined] };
    };
    await sameAsCpu(engine, build, 2);
    const g = engine.graph();
    build(g).outputs[0]!.asOutput();
    expect(backendsOf(g, engine)).toContain("b");
    expect(Math.max(...engine.splits(g).map((s) => s.copies.length))).toBe(100);
  });

  test("views of another backend's buffer: rows, columns, transposed, of a view", async () => {
    const { engine } = await three();
    const build = (g: Graph): Built => {
      const x = g.input("x", Type.F32, [8, 6]);
      const a = g.sqr(x);
      const rows = g.view(a, [8, 2], { offset: 3 * a.nb[1] });
      const columns = g.view(a, [3, 6], { nb: [a.nb[1]], offset: 8 });
      const turned = g.transpose(columns);
      const outputs = [
        g.sin(rows),
        g.cont(columns),
        g.cont(turned),
        g.cos(g.view(rows, [4], { offset: 16 })),
      ];
      if (g.belongsTo(engine)) {
        g.pin(a, "a");
        outputs.forEach((t, i) => g.pin(t, i % 2 === 0 ? "b" : "cpu"));
      }
      return { inputs: [x], outputs };
    };
    await sameAsCpu(engine, build, 2);
  });

  test("a copy is made again after somebody wrote into what was copied", async () => {
    const { engine } = await three();
    const build = (g: Graph): Built => {
      const x = g.input("x", Type.F32, [32, 5]);
      const rows = g.input("rows", Type.F32, [32, 1]);
      const ids = g.input("ids", Type.I32, [1]);
      const a = g.sqr(x);
      const before = g.sin(a);
      const again = g.cos(a);
      const written = g.setRows(a, rows, ids);
      const after = g.sin(a);
      const result = g.sin(written);
      for (const t of [before, again, written, after, result]) g.expand(t);
      if (g.belongsTo(engine)) {
        g.pin(a, "a");
        for (const t of [before, again, after, result]) g.pin(t, "b");
      }
      return { inputs: [x, rows, ids], outputs: [before, again, after, result] };
    };
    await sameAsCpu(engine, build, 3);
    const g = engine.graph();
    for (const t of build(g).outputs) t.asOutput();
    expect(engine.splits(g).map((s) => [s.backend, s.copies.length])).toEqual([
      ["a", 0],
      ["b", 1],
      ["a", 0],
      ["b", 2],
    ]);
  });

  test("an input wanted by both sides lies on the host and is sent once per device", async () => {
    const { engine, devices } = await three({ refuse: [Op.SIN] }, { refuse: [Op.SIN] });
    const build = (g: Graph): Built => {
      const x = g.input("x", Type.F32, [40]);
      return { inputs: [x], outputs: [g.mul(g.sin(x), x), g.add(g.sqr(x), x)] };
    };
    await sameAsCpu(engine, build);
    expect(devices[0]!.ran.length).toBeGreaterThan(0);
  });
});

describe("pins", () => {
  const chain = (g: Graph): { x: Tensor; nodes: Tensor[] } => {
    const x = g.input("x", Type.F32, [33]);
    const nodes = [g.sqr(x)];
    for (let i = 0; i < 3; i++) nodes.push(g.sin(nodes.at(-1)!));
    nodes.at(-1)!.asOutput("y");
    return { x, nodes };
  };

  test("are kept by later plans and by reservations that grow, until they are taken off", async () => {
    const { engine } = await three();
    const g = engine.graph();
    const { x, nodes } = chain(g);
    g.pin(nodes[1]!, "cpu");
    g.pin(nodes[2]!, "b");
    const reservation = engine.reserve([g]);
    expect(backendsOf(g, engine)).toEqual(["a", "cpu", "b"]);
    const larger = engine.graph();
    larger.sqr(larger.input("z", Type.F32, [4097])).asOutput();
    reservation.plan(larger);
    reservation.plan(g);
    expect(backendsOf(g, engine)).toEqual(["a", "cpu", "b"]);
    x.write(ramp(33));
    await g.compute();
    const want = ramp(33).map((v) => Math.sin(Math.sin(Math.sin(v * v))));
    ((await nodes[3]!.read()) as Float32Array).forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 5));
    g.dispose();
    g.pin(nodes[1]!, undefined);
    g.plan();
    expect(backendsOf(g, engine)).toEqual(["b"]);
  });

  test("the same mixed graph computed three times, and by turns with another over the same buffers", async () => {
    const { engine } = await three();
    const graphs = [engine.graph(), engine.graph()];
    const chains = graphs.map(chain);
    for (const [i, { nodes }] of chains.entries()) engine.pin(nodes[1 + i]!, "cpu");
    engine.reserve(graphs);
    for (let i = 0; i < 3; i++) {
      for (const [k, { x, nodes }] of chains.entries()) {
        x.write(ramp(33, 1 + i + 10 * k));
        await graphs[k]!.compute();
        const want = ramp(33, 1 + i + 10 * k).map((v) => Math.sin(Math.sin(Math.sin(v * v))));
        ((await nodes[3]!.read()) as Float32Array).forEach((v, j) => expect(v).toBeCloseTo(want[j]!, 5));
      }
    }
  });

  test("a pin that cannot be kept is refused, with the reason", async () => {
    const { engine } = await three({ refuse: [Op.SIN] });
    const g = engine.graph();
    const { nodes } = chain(g);
    expect(() => g.pin(nodes[1]!, "gpu")).toThrow(/no backend "gpu", expected one of a, b, cpu/);
    g.pin(nodes[1]!, "a");
    expect(() => g.plan()).toThrow(code("unsupported-op"));
    expect(() => g.plan()).toThrow(/pinned there/);
    g.pin(nodes[1]!, "b");
    g.plan();
  });
});

describe("runs", () => {
  test("splits can be read", async () => {
    const { engine } = await three({ refuse: [Op.SIN] }, { refuse: [Op.SIN] });
    const g = engine.graph();
    const x = g.input("x", Type.F32, [256]);
    const square = g.pin(g.sqr(x).named("square"), "a");
    g.pin(g.sqr(g.sin(square)).asOutput("y"), "a");
    expect(g.splits()).toBe(
      [
        "split 0   a        1 op     square",
        "             <- square from a, 1.00 KiB",
        "split 1   cpu      1 op     sin",
        "             <- sin from cpu, 1.00 KiB",
        "split 2   a        1 op     y",
      ].join("\n"),
    );
    g.plan();
    expect(g.plan().backends.map((b) => [b.name, b.nBytes])).toEqual([
      ["a", 2048],
      ["cpu", 1024],
    ]);
  });

  test("each result can be seen when it has been computed, on any backend, and the run ended there", async () => {
    for (const engine of [
      (await three({ refuse: [Op.SIN] }, { refuse: [Op.SIN] })).engine,
      await cpuEngine(),
    ]) {
      const g = engine.graph();
      const x = g.input("x", Type.F32, [5]);
      const [a, b] = [g.sqr(x).named("a"), g.view(x, [2])];
      const c = g.sin(a).named("c");
      g.add(c, g.sum(b)).asOutput("y");
      g.plan();
      x.write([1, 2, 3, 4, 5]);
      const seen: string[] = [];
      await g.compute({ onTensor: (t, data) => seen.push(`${t.name} ${data.length}`) });
      expect(seen).toEqual(["a 5", "c 5", " 1", "y 5"]);
      seen.length = 0;
      await g.compute({
        wants: (t) => t === c,
        onTensor: (_, data) => seen.push(`${(data as Float32Array)[1]!.toFixed(4)}`),
      });
      expect(seen).toEqual([Math.sin(4).toFixed(4)]);
      seen.length = 0;
      await g.compute({ onTensor: (t) => seen.push(t.name) < 2 });
      expect(seen).toEqual(["a", "c"]);
    }
  });

  test("an aborted run of several splits ends with the signal's reason, and the next one is right", async () => {
    const { engine } = await three({ refuse: [Op.SIN], slowMs: 20 }, { refuse: [Op.SIN] });
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.sqr(g.sin(g.sqr(x))).asOutput();
    g.plan();
    x.write([1, 2, 3, 4]);
    const reason = new Error("enough");
    const controller = new AbortController();
    const ran = g.compute({ signal: controller.signal });
    controller.abort(reason);
    await expect(ran).rejects.toBe(reason);
    await g.compute();
    const want = [1, 2, 3, 4].map((v) => Math.sin(v * v) ** 2);
    ((await y.read()) as Float32Array).forEach((v, i) => expect(v).toBeCloseTo(want[i]!, 5));
  });

  test("weights larger than a device's largest buffer lie in several of them", async () => {
    const { engine, devices } = await three({ maxSize: 8192 });
    const build = (g: Graph): Built => {
      const ws = [0, 1, 2, 3, 4].map((i) => g.weight(`w${i}`, Type.F32, [32, 31 + i]));
      const x = g.input("x", Type.F32, [32, 2]);
      return { inputs: [...ws, x], outputs: ws.map((w) => g.mulMat(w, x)) };
    };
    await sameAsCpu(engine, build);
    const g = engine.graph();
    for (const t of build(g).outputs) t.asOutput();
    g.plan();
    const sizes = [...devices[0]!.buffers].filter((b) => b.use === "weights").map((b) => b.size);
    expect(sizes.length).toBe(4);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(8192);
    g.dispose();
    expect(devices[0]!.buffers.size).toBe(0);
    const large = engine.graph();
    large.sqr(large.weight("large", Type.F32, [4096])).asOutput();
    expect(() => large.plan()).toThrow(code("too-large"));
  });

  test("a computing step takes no memory of any backend", async () => {
    const { engine, devices } = await three({ refuse: [Op.SIN] }, { refuse: [Op.SIN] });
    const g = engine.graph();
    const x = g.input("x", Type.F32, [64]);
    g.sqr(g.sin(g.sqr(x))).asOutput();
    g.plan();
    const look = (): unknown => [devices.map((d) => [...d.buffers]), engine.memory()];
    const before = look();
    for (let i = 0; i < 20; i++) {
      x.write(ramp(64, i));
      await g.compute();
    }
    expect(look()).toEqual(before);
  });
});
