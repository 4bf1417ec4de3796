// Which device an engine takes, and what it says when it takes none.
import { afterEach, describe, expect, test, vi } from "vitest";
import { DeviceError, GraphError } from "../ts/errors.ts";
import type { OpenDevice } from "../ts/runtime/backend.ts";
import { createEngine, type Engine, type EngineOptions, startEngine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { RemoteBackend, type RemoteOptions } from "./backends/remote.ts";

const open: Engine[] = [];

afterEach(() => {
  vi.unstubAllGlobals();
  for (const x of open.splice(0)) x.dispose();
});

async function start(options: EngineOptions, opener?: OpenDevice): Promise<Engine> {
  const all = { nThreads: 1, ...options };
  const engine = opener === undefined ? await createEngine(all) : await startEngine(all, opener);
  open.push(engine);
  return engine;
}

/** Opens a device for tests. */
const remote =
  (options: RemoteOptions = {}, software = false): OpenDevice =>
  async () => ({
    backend: await RemoteBackend.open("webgpu", options),
    description: "test adapter",
    software,
  });

const names = (engine: Engine): string[] => engine.devices.map((b) => b.name);

async function square(engine: Engine): Promise<Float32Array> {
  using g = engine.graph();
  const x = g.input("x", Type.F32, [3]);
  const y = g.sqr(x).asOutput();
  g.plan();
  x.write([1, 2, 3]);
  await g.compute();
  return (await y.read()) as Float32Array;
}

describe("without a GPU the engine computes on the CPU and says why", () => {
  const cases: [string, unknown, RegExp][] = [
    ["no navigator", undefined, /navigator\.gpu is missing/],
    ["a navigator without gpu", {}, /navigator\.gpu is missing/],
    ["one whose adapter is null", { gpu: { requestAdapter: async () => null } }, /there is no adapter/],
    [
      "one that throws",
      { gpu: { requestAdapter: () => Promise.reject(new Error("blocked")) } },
      /no adapter: .*blocked/,
    ],
  ];

  test.each(cases)("%s", async (_, navigator, reason) => {
    vi.stubGlobal("navigator", navigator);
    const engine = await start({ device: "auto" });
    expect(names(engine)).toEqual(["cpu"]);
    expect(engine.backends()).toEqual([
      { name: "cpu", used: true, speed: 1 },
      { name: "webgpu", used: false, reason: expect.stringMatching(reason) },
    ]);
    expect(Array.from(await square(engine))).toEqual([1, 4, 9]);
  });

  test("the ways to one are named, by host", async () => {
    const ways = async (): Promise<string | undefined> => (await start({})).backends()[1]!.reason;
    vi.stubGlobal("navigator", {});
    expect(await ways()).toMatch(/package "webgpu".*device "webgpu".*GPUDevice/);
    vi.stubGlobal("process", { ...process, release: { name: "other" }, getBuiltinModule: undefined });
    expect(await ways()).toMatch(/https.*GPUDevice/);
  });

  test("a navigator whose gpu cannot even be looked at", async () => {
    const navigator = Object.defineProperty({}, "gpu", {
      get: () => {
        throw new Error("not here");
      },
    });
    vi.stubGlobal("navigator", navigator);
    for (const device of ["auto", "webgpu"] as const) {
      const engine = await start({ device });
      expect(engine.backends()[1]).toEqual({ name: "webgpu", used: false, reason: "Error: not here" });
    }
  });

  test('"webgpu" that is not there is a warning', async () => {
    vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => null } });
    const warn = vi.fn<(message: string) => void>();
    await start({ device: "webgpu", logger: { warn } });
    expect(warn.mock.calls).toEqual([[expect.stringMatching(/there is no adapter: the CPU computes/)]]);
  });

  test("nothing is looked for when the CPU is asked for", async () => {
    const opener = vi.fn<OpenDevice>();
    const engine = await start({ device: "cpu" }, opener);
    expect(opener).not.toHaveBeenCalled();
    expect(engine.backends()[1]).toMatchObject({ used: false, reason: "the CPU was asked for" });
  });

  test("a device that is none of the names and no GPUDevice is refused", async () => {
    for (const device of ["gpu", 3, null, {}]) {
      await expect(createEngine({ device: device as never })).rejects.toThrow(
        expect.objectContaining({ code: "unsupported", message: expect.stringContaining("GPUDevice") }),
      );
    }
  });
});

describe("auto", () => {
  test("takes a device that is faster than the CPU, with the costs it measured", async () => {
    const engine = await startEngine({ nThreads: 1 }, remote(), async () => ({ speed: 20, roundTripMs: 1 }));
    open.push(engine);
    expect(names(engine)).toEqual(["webgpu", "cpu"]);
    expect(engine.devices[0]!.costs).toEqual({ speed: 20, roundTripMs: 1 });
    expect(engine.backends()[0]).toEqual({
      name: "webgpu",
      used: true,
      description: "test adapter",
      speed: 20,
    });
    expect(Array.from(await square(engine))).toEqual([1, 4, 9]);
    expect(engine.memory()).toMatchObject({ weights: 0, compute: 0, records: 0 });
  });

  test("leaves a slow one, says how slow, and gives its memory back", async () => {
    const made: RemoteBackend[] = [];
    const engine = await start({ device: "auto" }, async () => {
      const backend = await RemoteBackend.open("webgpu", { slowMs: 300 });
      made.push(backend);
      return { backend, description: "slow adapter", software: false };
    });
    expect(names(engine)).toEqual(["cpu"]);
    expect(engine.backends()[1]).toEqual({
      name: "webgpu",
      used: false,
      description: "slow adapter",
      reason: expect.stringMatching(/^measured at 0\.\d\d times the speed of the CPU$/),
    });
    expect(made[0]!.buffers.size).toBe(0);
    expect(Array.from(await square(engine))).toEqual([1, 4, 9]);
  });

  test("never takes a software adapter; asked for by name it is taken", async () => {
    const engine = await start({ device: "auto" }, remote({}, true));
    expect(names(engine)).toEqual(["cpu"]);
    expect(engine.backends()[1]!.reason).toMatch(/software adapter/);
    expect(names(await start({ device: "webgpu" }, remote({}, true)))).toEqual(["webgpu", "cpu"]);
  });

  test("leaves a device that fails while it is measured", async () => {
    const engine = await start({ device: "auto" }, remote({ capacity: 100 }));
    expect(names(engine)).toEqual(["cpu"]);
    expect(engine.backends()[1]!.reason).toMatch(/^the measurement failed: webgpu: \d+ bytes/);
  });
});

test("a device of the caller's is handed on", async () => {
  const device = { queue: {}, limits: {}, lost: new Promise<never>(() => undefined) };
  const opener = vi.fn(remote());
  const engine = await start({ device }, opener);
  expect(opener).toHaveBeenCalledWith(expect.objectContaining({ device }));
  expect(names(engine)).toEqual(["webgpu", "cpu"]);
});

test("a device that cannot be opened is a reason, whatever it throws", async () => {
  for (const [thrown, reason] of [
    [new DeviceError("unsupported", "webgpu: no"), "webgpu: no"],
    [new TypeError("bad feature"), "TypeError: bad feature"],
    ["text", "text"],
  ]) {
    const engine = await start({ device: "webgpu" }, () => Promise.reject(thrown));
    expect(engine.backends()[1]).toMatchObject({ used: false, reason });
  }
});

describe("a device that is lost", () => {
  async function lossy(
    again: "same" | "none",
  ): Promise<{ engine: Engine; made: RemoteBackend[]; events: unknown[] }> {
    const made: RemoteBackend[] = [];
    const events: unknown[] = [];
    const opener: OpenDevice = async () => {
      if (made.length > 0 && again === "none")
        throw new DeviceError("unsupported", "webgpu: no adapter any more");
      const backend = await RemoteBackend.open("webgpu", { delayMs: 1 });
      made.push(backend);
      return { backend, description: `adapter ${made.length}`, software: false };
    };
    const logger = { onEvent: (event: unknown) => void events.push(event) };
    return { engine: await start({ device: "webgpu", logger }, opener), made, events };
  }

  test.each(["same", "none"] as const)(
    "fails the run with a typed error, and the next plan works; a device again: %s",
    async (again) => {
      const { engine, made, events } = await lossy(again);
      const g = engine.graph();
      const x = g.input("x", Type.F32, [4]);
      const w = g.weight("w", Type.F32, [4, 2]);
      const y = g.mulMat(w, x).asOutput();
      g.plan();
      w.write([1, 2, 3, 4, 5, 6, 7, 8]);
      x.write([1, 1, 1, 1]);
      await g.compute();
      made[0]!.lose();
      events.length = 0;
      await expect(g.compute()).rejects.toThrow(expect.objectContaining({ code: "device-lost" }));
      expect(events).toEqual([{ type: "device-lost", name: "webgpu", reopened: again === "same" }]);
      expect(engine.backends()[0]).toMatchObject({ name: "webgpu", used: again === "same" });
      await expect(g.compute()).rejects.toThrow(expect.objectContaining({ code: "device-lost" }));
      g.plan();
      expect(engine.splits(g).map((s) => s.backend)).toEqual([again === "same" ? "webgpu" : "cpu"]);
      w.write([1, 2, 3, 4, 5, 6, 7, 8]);
      x.write([1, 1, 1, 1]);
      await g.compute();
      expect(Array.from((await y.read()) as Float32Array)).toEqual([10, 26]);
      if (again === "none") return;
      made[1]!.lose();
      await expect(g.compute()).rejects.toThrow(expect.objectContaining({ code: "device-lost" }));
      expect(made.length).toBe(2); // once only
      g.plan();
      expect(engine.splits(g).map((s) => s.backend)).toEqual(["cpu"]);
      g.dispose();
      expect(engine.memory()).toMatchObject({ weights: 0, compute: 0, records: 0 });
    },
  );

  test("and noticed by a read is forgotten by the next plan", async () => {
    const { engine, made } = await lossy("none");
    const g = engine.graph();
    const w = g.weight("w", Type.F32, [4]);
    const y = g.sqr(w).asOutput();
    g.plan();
    w.write([1, 2, 3, 4]);
    await g.compute();
    made[0]!.lose();
    await expect(y.read()).rejects.toThrow(expect.objectContaining({ code: "device-lost" }));
    g.plan();
    w.write([1, 2, 3, 4]);
    await g.compute();
    expect(Array.from((await y.read()) as Float32Array)).toEqual([1, 4, 9, 16]);
  });

  test("pins to it do not hold any more", async () => {
    const { engine, made } = await lossy("none");
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.pin(g.sqr(x), "webgpu").asOutput();
    g.plan();
    made[0]!.lose();
    await expect(g.compute()).rejects.toThrow();
    g.plan();
    x.write([1, 2, 3, 4]);
    await g.compute();
    expect(Array.from((await y.read()) as Float32Array)).toEqual([1, 4, 9, 16]);
  });

  test("the one opened after it is let go when the engine was disposed in the meantime", async () => {
    const made: RemoteBackend[] = [];
    let arrive = (): void => undefined;
    const gate = new Promise<void>((resolve) => (arrive = resolve));
    const engine = await start({ device: "webgpu" }, async () => {
      if (made.length > 0) await gate;
      const backend = await RemoteBackend.open("webgpu", {});
      made.push(backend);
      return { backend, description: "test adapter", software: false };
    });
    made[0]!.lose();
    const recovered = engine.recover();
    engine.dispose();
    arrive();
    await recovered;
    expect(made.map(({ engine: inner }) => isDisposed(inner))).toEqual([true, true]);
  });
});

function isDisposed(engine: Engine): boolean {
  try {
    engine.memory();
    return false;
  } catch (error) {
    return error instanceof GraphError && error.code === "disposed";
  }
}
