// Memory of a GPU: writes, readings and uploads of any size at any place.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { DeviceError } from "../ts/errors.ts";
import { GpuBufferType } from "../ts/webgpu/buffer.ts";
import { type GpuDevice, openDevice } from "../ts/webgpu/device.ts";
import { describeGpu } from "./gpu_describe.ts";
import { testGpu } from "./gpu_host.ts";
import { random } from "./op_data.ts";

/** Seeded bytes. */
function bytesOf(n: number, next: () => number): Uint8Array {
  return Uint8Array.from({ length: n }, () => 256 * next());
}

await describeGpu("memory of a GPU", () => {
  let gpu: GpuDevice;
  let type: GpuBufferType;

  beforeAll(async () => {
    gpu = await openDevice({ gpu: await testGpu() });
    type = new GpuBufferType(gpu);
  });

  afterAll(() => {
    type.dispose();
    expect(gpu.failure).toBeUndefined();
    expect(gpu.counts.liveBytes).toBe(0);
    gpu.dispose();
  });

  it("keeps what lies around writes of any length at any offset", async () => {
    const next = random(1);
    const buffer = type.alloc(1000, "compute");
    const expected = bytesOf(1000, next);
    buffer.write(0, expected);
    for (let i = 0; i < 60; i++) {
      const offset = Math.floor(990 * next());
      const bytes = bytesOf(Math.floor((i < 40 ? 9 : 1000 - offset) * next()), next);
      buffer.write(offset, bytes);
      expected.set(bytes, offset);
    }
    expect(await buffer.read(0, 1000)).toEqual(expected);
    for (const [offset, length] of [
      [1, 1],
      [3, 2],
      [5, 7],
      [999, 1],
      [0, 0],
    ] as const) {
      expect(await buffer.read(offset, length)).toEqual(expected.slice(offset, offset + length));
    }
    buffer.dispose();
  });

  it("is written from shared memory", async () => {
    const buffer = type.alloc(3 * 2 ** 20, "weights");
    const shared = new Uint8Array(new SharedArrayBuffer(buffer.size));
    shared.set(bytesOf(buffer.size, random(2)));
    buffer.write(0, shared);
    expect(Buffer.compare(await buffer.read(0, buffer.size), shared)).toBe(0);
    buffer.dispose();
  });

  it("takes what is staged, through three buffers however much it is", async () => {
    const sizes = [4096, 65536, 65535, 3, 65536, 1, 65536, 40000, 65533, 65536, 65536];
    const buffer = type.alloc(sizes.length * 65536, "weights");
    const expected = new Uint8Array(buffer.size);
    const next = random(3);
    const before = gpu.counts.buffers;
    for (const [i, size] of sizes.entries()) {
      const bytes = bytesOf(size, next);
      const staging = await buffer.stage(i * 65536, size);
      expect(staging.bytes).toHaveLength(size);
      staging.bytes.set(bytes);
      staging.commit();
      expected.set(bytes, i * 65536);
    }
    expect(Buffer.compare(await buffer.read(0, buffer.size), expected)).toBe(0);
    expect(gpu.counts.buffers - before).toBeLessThanOrEqual(5); // three, one of them made larger, one to read with
    await expect(Promise.resolve().then(() => buffer.stage(2, 4))).rejects.toThrow(/byte 2/);
    buffer.dispose();
  });

  it("gives the staging back with copies and a staging under way", async () => {
    const own = new GpuBufferType(gpu);
    const before = gpu.counts.liveBytes;
    const buffer = own.alloc(65536, "weights");
    for (let i = 0; i < 2; i++) (await buffer.stage(i * 4096, 4096)).commit();
    await buffer.stage(8192, 4096); // filled, never sent
    const late = [buffer.stage(0, 65536), buffer.stage(0, 4096)];
    own.dispose();
    expect(gpu.counts.liveBytes).toBeLessThanOrEqual(before + 65536 + 4096); // what the two were given by then
    const codes = (await Promise.allSettled(late)).map(
      (end) => (end as { reason?: DeviceError }).reason?.code,
    );
    expect(codes).toEqual(["disposed", "disposed"]);
    await gpu.device.queue.onSubmittedWorkDone();
    expect(gpu.counts.liveBytes).toBe(before);
  });

  it("is read many times at once through buffers that are used again", async () => {
    const buffer = type.alloc(4096, "kv");
    const expected = bytesOf(4096, random(4));
    buffer.write(0, expected);
    const readAll = (): Promise<Uint8Array[]> =>
      Promise.all([0, 1, 2, 3].map((i) => buffer.read(i, 4096 - 4 * i)));
    await readAll();
    const before = gpu.counts.buffers;
    for (let run = 0; run < 5; run++) {
      for (const [i, bytes] of (await readAll()).entries()) {
        expect(bytes).toEqual(expected.slice(i, 4096 - 3 * i));
      }
    }
    expect(gpu.counts.buffers).toBe(before);
    buffer.dispose();
  });

  it("is zero at first and after clear", async () => {
    const buffer = type.alloc(300, "kv");
    expect((await buffer.read(0, 300)).every((b) => b === 0)).toBe(true);
    buffer.write(7, Uint8Array.of(1, 2, 3));
    buffer.clear();
    expect((await buffer.read(0, 300)).every((b) => b === 0)).toBe(true);
    buffer.dispose();
  });

  it("refuses what is too large and use after dispose, with a code", async () => {
    expect(() => type.alloc(type.maxSize + 1, "weights")).toThrow(
      expect.objectContaining({ code: "buffer-too-large" }),
    );
    const buffer = type.alloc(16, "weights");
    buffer.dispose();
    buffer.dispose();
    expect(() => buffer.write(0, Uint8Array.of(1))).toThrow(expect.objectContaining({ code: "disposed" }));
    await expect(buffer.read(0, 1)).rejects.toThrow(expect.objectContaining({ code: "disposed" }));
  });

  it("says out-of-memory by `ready` and goes on", async () => {
    const wanted: Promise<void>[] = [];
    const buffers = Array.from({ length: 64 }, () => type.alloc(type.maxSize, "weights"));
    for (const b of buffers) wanted.push(b.ready);
    const outcomes = await Promise.allSettled(wanted);
    for (const b of buffers) b.dispose();
    const refused = outcomes.filter((o) => o.status === "rejected").map((o) => o.reason as DeviceError);
    expect(refused.length).toBeGreaterThan(0);
    for (const error of refused) expect(error.code).toBe("out-of-memory");
    const small = type.alloc(16, "weights");
    await small.ready;
    small.write(0, Uint8Array.of(1, 2, 3, 4));
    expect(await small.read(0, 4)).toEqual(Uint8Array.of(1, 2, 3, 4));
    small.dispose();
  });
});
