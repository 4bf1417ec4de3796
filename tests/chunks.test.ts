// Compute memory beyond a device's largest buffer: several buffers, each tensor wholly in one.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { PlanBuffer } from "../ts/graph/plan.ts";
import { loadModel } from "../ts/llm/index.ts";
import { createEngine, Engine } from "../ts/runtime/engine.ts";
import type { ReportEntry } from "../ts/runtime/report.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { GpuDevice } from "../ts/webgpu/device.ts";
import { layer, results, weights } from "./attention_layer.ts";
import { FakeGpu } from "./backends/fake_gpu.ts";
import { engineWith, RemoteBackend, type RemoteOptions } from "./backends/remote.ts";
import { writeSynthetic } from "./synthetic.ts";

const code = (value: string): unknown => expect.objectContaining({ code: value });
const open: Engine[] = [];

afterEach(() => {
  for (const engine of open.splice(0)) engine.dispose();
});

async function onDevice(options: RemoteOptions): Promise<{ engine: Engine; device: RemoteBackend }> {
  const device = await RemoteBackend.open("device", options);
  const engine = await engineWith([device]);
  open.push(engine);
  return { engine, device };
}

/** What the CPU alone comes to. */
async function expected(...lengths: readonly number[]): Promise<Float32Array[]> {
  const cpu = await createEngine({ nThreads: 1, device: "cpu" });
  open.push(cpu);
  const w = weights(cpu);
  const all: Float32Array[] = [];
  for (const n of lengths) {
    const l = layer(cpu, w, n);
    l.g.plan();
    all.push(await results(l));
  }
  return all;
}

const computeSizes = (device: RemoteBackend): number[] =>
  [...device.buffers].flatMap((b) => (b.use === "compute" ? [b.size] : []));

test("prefill and decode alternate over the same buffers, and nothing is taken on the way", async () => {
  const [one, many] = await expected(1, 65);
  const { engine, device } = await onDevice({ maxSize: 34304 });
  const w = weights(engine);
  const [decode, prefill] = [layer(engine, w, 1), layer(engine, w, 65)];
  const reservation = engine.reserve([decode.g, prefill.g]);
  expect(reservation.plans[1]!.backends[0]!.chunks.length).toBeGreaterThan(2);
  expect(Math.max(...computeSizes(device))).toBeLessThanOrEqual(34304);
  expect(engine.memory().devices[0]!.compute).toBe(reservation.nBytes);
  const look = (): unknown => [[...device.buffers], engine.memory(), engine.arena.memory.buffer.byteLength];
  await results(decode);
  const before = look();
  for (let i = 0; i < 50; i++) {
    expect(await results(prefill), `run ${i}`).toEqual(many);
    expect(await results(decode), `run ${i}`).toEqual(one);
  }
  expect(look()).toEqual(before);
  decode.g.dispose();
  expect(computeSizes(device).length).toBeGreaterThan(2);
  prefill.g.dispose();
  expect(computeSizes(device)).toEqual([]);
});

test("growing takes the buffers that are missing, keeps those that serve, and a shorter prompt fits in", async () => {
  const [five, long, short] = await expected(5, 65, 60);
  const { engine, device } = await onDevice({ maxSize: 34304 });
  const w = weights(engine);
  const small = layer(engine, w, 5);
  const reservation = engine.reserve([small.g]);
  const [first, ...others] = [...device.buffers].filter((b) => b.use === "compute");
  expect(others).toEqual([]);
  const large = layer(engine, w, 65);
  const { chunks } = reservation.plan(large.g).backends[0]!;
  expect(computeSizes(device)).toHaveLength(chunks.length);
  expect(device.buffers.has(first!)).toBe(first!.size >= chunks[0]!);
  expect(await results(small)).toEqual(five);
  expect(await results(large)).toEqual(long);
  const held = new Set(device.buffers);
  const shorter = layer(engine, w, 60);
  reservation.plan(shorter.g);
  expect(await results(shorter)).toEqual(short);
  expect(new Set(device.buffers)).toEqual(held);
  expect(await results(small)).toEqual(five);
});

test("growing that fails on its last buffer leaves the graphs as they were", async () => {
  const [five] = await expected(5);
  const { engine, device } = await onDevice({ maxSize: 34304, capacity: 80_000 });
  const w = weights(engine);
  const small = layer(engine, w, 5);
  const reservation = engine.reserve([small.g]);
  const held = new Set(device.buffers);
  expect(() => reservation.plan(layer(engine, w, 65).g)).toThrow(code("out-of-memory"));
  expect(new Set(device.buffers)).toEqual(held);
  expect(await results(small)).toEqual(five);
});

test("the only graph of a reservation, planned again larger, leaves no buffer behind", async () => {
  const { engine, device } = await onDevice({});
  const g = engine.graph();
  const x = g.input("x", Type.F32, [100]);
  g.sqr(x).asOutput();
  const reservation = engine.reserve([g]);
  g.concat(x, g.scale(x, 2), 0).asOutput();
  reservation.plan(g);
  expect(computeSizes(device)).toEqual([reservation.nBytes]);
  g.dispose();
  expect(device.buffers.size).toBe(0);
});

test("a tensor larger than the largest buffer is refused by name, bytes and limit", async () => {
  const { engine } = await onDevice({ maxSize: 5000 });
  const plan = (n: number): void => {
    const g = engine.graph();
    const [a, b] = [g.input("a", Type.F32, [1000]), g.input("b", Type.F32, [n - 1000])];
    g.pin(g.concat(a, b, 0).asOutput("wide"), "device");
    g.plan();
    g.dispose();
  };
  plan(1216); // 4864 bytes, the largest multiple of the alignment
  expect(() => plan(1217)).toThrow(
    expect.objectContaining({
      code: "too-large",
      message: expect.stringMatching(/wide.*4868 bytes.*4864/),
      details: expect.objectContaining({ expected: 4864, actual: 4868, tensor: "wide" }),
    }),
  );
});

test("report, text, JSON and picture tell the buffers apart", async () => {
  const { engine } = await onDevice({ maxSize: 34304 });
  const l = layer(engine, weights(engine), 65);
  const plan = l.g.plan();
  const [{ chunks, nBytes }] = plan.backends as [(typeof plan.backends)[0]];
  expect(chunks.reduce((sum, n) => sum + n, 0)).toBe(nBytes);
  expect(plan.nBytes).toBe(nBytes);
  const json = JSON.parse(JSON.stringify(plan)) as { entries: ReportEntry[]; buffers: PlanBuffer[] };
  expect(json.buffers.map((b) => b.nBytes)).toEqual(chunks);
  expect(json.buffers.map((b) => b.name)).toEqual(chunks.map((_, k) => `device ${k}`));
  for (const { name, offset, size, within } of json.entries) {
    const buffer = json.buffers.find((b) => b.name === within!.buffer)!;
    expect(offset, name).toBe(buffer.from + within!.offset);
    expect(within!.offset + size, name).toBeLessThanOrEqual(buffer.nBytes);
  }
  expect(new Set(json.entries.map((e) => e.within!.buffer)).size).toBe(chunks.length);
  expect(plan.toText()).toContain(`in buffers of ${chunks.join(", ")}`);
  const svg = plan.toSVG();
  expect(svg.match(/class="border"/g)).toHaveLength(chunks.length - 1);
  expect(svg).toContain("of device 1");
});

test("a model that needs more than the 256 MiB of a GPU's default limits lies in several buffers", async () => {
  const fake = new FakeGpu({ maxBufferSize: 2 ** 28 });
  const gpu = new GpuDevice(fake.asDevice(), undefined, { device: fake.asDevice() });
  const backend = new GpuBackend(gpu, undefined, new Set());
  backend.prepare = () => Promise.resolve(); // nothing is computed here
  const cpu = await createEngine({ nThreads: 1, device: "cpu" });
  const engine = new Engine(cpu, [backend, cpu.backend]);
  open.push(engine);
  const folder = mkdtempSync(join(tmpdir(), "slackwater-"));
  try {
    const file = join(folder, "wide.gguf");
    writeSynthetic(file, {
      nEmbd: 64,
      nLayer: 2,
      nHead: 2,
      nHeadKv: 1,
      nFf: 16384,
      nCtx: 2047,
      type: Type.F16,
    });
    const model = await loadModel(file, { engine, nBatch: 2047 });
    const compute = fake.buffers.filter((b) => b.label === "compute" && !b.destroyed);
    expect(compute.length).toBeGreaterThan(1);
    expect(Math.max(...compute.map((b) => b.size))).toBeLessThanOrEqual(2 ** 28);
    expect(fake.bytesOf("compute")).toBeGreaterThan(2 ** 28);
    expect(engine.memory().compute).toBe(0);
    expect(fake.strays).toEqual([]);
    model.dispose();
    engine.dispose();
    expect(fake.liveBytes).toBe(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
