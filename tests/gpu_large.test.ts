// A model above 4 GiB on its way to a GPU: every tensor at its place, nothing through linear memory, a bounded ring of
// mapped buffers; and what is left when it does not get there. The file is sparse, the device a double.
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { loadModel, type LoadOptions, type Model } from "../ts/llm/index.ts";
import { createEngine, Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { GpuBuffer } from "../ts/webgpu/buffer.ts";
import { GpuDevice } from "../ts/webgpu/device.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { type FakeBuffer, FakeGpu, type FakeOptions } from "./backends/fake_gpu.ts";
import { dataDir, describeWith } from "./data.ts";
import { syntheticHeader, type SyntheticShape, writeSynthetic } from "./synthetic.ts";

const MIB = 2 ** 20;
const LARGE: SyntheticShape = {
  nEmbd: 4096,
  nLayer: 9,
  nHead: 32,
  nHeadKv: 8,
  nFf: 16384,
  nCtx: 64,
  type: Type.F16,
};

/** A GPU whose kernels are taken on trust: nothing is computed here. */
class Trusted extends GpuBackend {
  override prepare(): Promise<void> {
    return Promise.resolve();
  }
}

const open: Engine[] = [];
/** A busy disk takes its time. */
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

afterEach(() => {
  vi.restoreAllMocks();
  for (const engine of open.splice(0)) engine.dispose();
});

async function onFake(options: FakeOptions = {}): Promise<{ engine: Engine; fake: FakeGpu }> {
  const fake = new FakeGpu(options);
  const backend = new Trusted(new GpuDevice(fake.asDevice(), undefined, { device: fake.asDevice() }));
  const cpu = await createEngine({ nThreads: 1, device: "cpu" });
  const engine = new Engine(cpu, [backend, cpu.backend]);
  open.push(engine);
  return { engine, fake };
}

/** The memory that a leaf was given. */
function placeOf(t: Tensor): { readonly buffer: FakeBuffer; readonly offset: number } {
  const { memory, offset } = t.placement!;
  return { buffer: (memory as GpuBuffer).memory as unknown as FakeBuffer, offset };
}

let folder: string;
let path: string;
let fd: number;
const header = syntheticHeader(LARGE);

// Bytes that tell where they stand, at every MiB of each tensor and at its end; holes between.
function mark(offset: number, nBytes: number): void {
  for (let at = 0; at < nBytes; at += MIB) writeMark(offset + at);
  writeMark(offset + nBytes - 64);
}

function writeMark(at: number): void {
  const bytes = new Uint8Array(64);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < 64; i += 8) view.setFloat64(i, at + i, true);
  writeSync(fd, bytes, 0, 64, at);
}

function inFile(offset: number, nBytes: number): Uint8Array {
  const bytes = new Uint8Array(nBytes);
  readSync(fd, bytes, 0, nBytes, offset);
  return bytes;
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "slackwater-"));
  path = join(folder, "large.gguf");
  expect(writeSynthetic(path, LARGE)).toBeGreaterThan(2 ** 32);
  fd = openSync(path, "r+");
  header.offsets.forEach((offset, i) => mark(offset, header.nBytes[i]!));
});

afterAll(() => {
  closeSync(fd);
  rmSync(folder, { recursive: true });
});

/** Loads the large file; leafs of the weights, in the file's order. */
async function load(engine: Engine, options: LoadOptions = {}): Promise<{ model: Model; leafs: Tensor[] }> {
  const allocate = vi.spyOn(engine, "allocate");
  const model = await loadModel(path, { engine, nCtx: 64, ...options });
  const leafs = [...allocate.mock.calls.find(([, use]) => use === "weights")![0]];
  return { model, leafs };
}

test("every tensor of a file above 4 GiB arrives whole at its place, through a bounded ring", async () => {
  const { engine, fake } = await onFake();
  const before = engine.memory().total;
  const { model, leafs } = await load(engine);
  expect(leafs).toHaveLength(header.offsets.length);
  let marked = 0;
  leafs.forEach((leaf, i) => {
    const { buffer, offset } = placeOf(leaf);
    const end = offset + leaf.nBytes;
    const uploads = buffer.uploads.filter((u) => u.offset >= offset && u.offset < end);
    let at = offset;
    for (const u of uploads) {
      expect(u.offset, leaf.name).toBe(at);
      at += u.nBytes;
      for (const s of u.samples) {
        const want = inFile(header.offsets[i]! + s.offset - offset, s.bytes.length);
        expect(Buffer.compare(s.bytes, want), `${leaf.name} at ${s.offset - offset}`).toBe(0);
        if (want.some((x) => x !== 0)) marked++;
      }
    }
    expect(at, leaf.name).toBe(end);
  });
  expect(marked).toBeGreaterThan(header.fileSize / (64 * MIB));
  const [held] = engine.memory().devices;
  expect(held!.weights).toBeGreaterThan(2 ** 32);
  expect(engine.memory().weights).toBe(0);
  expect(engine.memory().total).toBeLessThan(before + 4 * MIB);
  expect(fake.mostStaging).toBeLessThan(64 * MIB);
  expect(fake.strays).toEqual([]);
  model.dispose();
  expect(engine.memory().devices).toMatchObject([{ weights: 0, kv: 0, compute: 0 }]);
  engine.dispose();
  expect(fake.liveBytes).toBe(0);
});

test("a load that is ended on the way, or whose device goes, leaves nothing", async () => {
  const some = header.fileSize / 6;
  const { engine, fake } = await onFake();
  const controller = new AbortController();
  const reason = new Error("enough");
  const stop = ({ loaded }: { readonly loaded: number }): void =>
    void (loaded > some && controller.abort(reason));
  await expect(load(engine, { signal: controller.signal, onProgress: stop })).rejects.toBe(reason);
  expect(engine.memory().devices).toMatchObject([{ weights: 0, kv: 0, compute: 0 }]);
  expect(engine.memory().devices[0]!.staging).toBeLessThanOrEqual(24 * MIB); // the ring's three, not the one under way
  const lose = ({ loaded }: { readonly loaded: number }): void => void (loaded > some && fake.destroy());
  await expect(load(engine, { onProgress: lose })).rejects.toThrow(
    expect.objectContaining({ code: "device-lost" }),
  );
  expect(engine.memory()).toMatchObject({ weights: 0, kv: 0, compute: 0, records: 0, scratch: 0 });
  engine.dispose();
  expect(fake.liveBytes).toBe(0);
  expect(fake.strays).toEqual([]);
});

test("a run whose parameters find no memory says so, and leaves nothing behind", async () => {
  const { engine, fake } = await onFake({ refused: "parameters" });
  const g = engine.graph();
  const y = g.scale(g.input("x", Type.F32, [64]), 2).asOutput();
  g.plan();
  expect(y.placement!.memory).toBeInstanceOf(GpuBuffer);
  await expect(g.compute()).rejects.toThrow(expect.objectContaining({ code: "out-of-memory" }));
  engine.dispose();
  expect(fake.liveBytes).toBe(0);
  expect(fake.strays).toEqual([]);
});

describeWith("models", "a GPU with too little memory", () => {
  const small = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");

  test("gets as many layers as fit, and no error is left to itself", async () => {
    const all = await onFake();
    const whole = await loadModel(small, { engine: all.engine, nCtx: 64 });
    const capacity = Math.floor(0.6 * all.fake.bytesOf("weights", "kv", "compute"));
    expect(all.engine.memory().weights).toBe(0);
    whole.dispose();
    const { engine, fake } = await onFake({ capacity });
    const warn = vi.fn<(message: string) => void>();
    const model = await loadModel(small, { engine, nCtx: 64, logger: { warn } });
    expect(warn).toHaveBeenCalledWith(expect.stringMatching(/layers on the device/));
    expect(engine.memory().weights).toBeGreaterThan(0);
    expect(engine.memory().devices[0]!.weights).toBeGreaterThan(0);
    expect(fake.bytesOf("weights", "kv", "compute")).toBeLessThanOrEqual(capacity);
    expect(fake.strays).toEqual([]);
    model.dispose();
    engine.dispose();
    expect(fake.liveBytes).toBe(0);
  });
});
