// Opening a GPU whose host misbehaves at each call: the reason is said, and nobody waits for ever.
import { afterEach, expect, test, vi } from "vitest";
import { openDevice } from "../ts/webgpu/device.ts";

afterEach(() => vi.useRealTimers());

const never = (): Promise<never> => new Promise<never>(() => undefined);
const refuses = (): Promise<never> => Promise.reject(new Error("broken"));
const throws = (): never => {
  throw new Error("broken");
};

/** An entry point that gives this adapter. */
function gpuOf(requestAdapter: () => unknown): GPU {
  return { requestAdapter } as unknown as GPU;
}

/** One whose adapter gives this device. */
function adapterOf(requestDevice: () => unknown): GPU {
  const info = { vendor: "acme", architecture: "", device: "", description: "" };
  return gpuOf(() => Promise.resolve({ info, features: new Set(), limits: {}, requestDevice }));
}

test.each<[string, GPU, RegExp]>([
  ["no adapter", gpuOf(() => Promise.resolve(null)), /there is no adapter/],
  ["an adapter refused", gpuOf(refuses), /no adapter: Error: broken/],
  ["requestAdapter throwing", gpuOf(throws), /no adapter: Error: broken/],
  ["a device refused", adapterOf(refuses), /acme gave no device: Error: broken/],
  ["requestDevice throwing", adapterOf(throws), /acme gave no device: Error: broken/],
])("%s is unsupported, with the reason", async (_title, gpu, reason) => {
  const opening = openDevice({ gpu });
  await expect(opening).rejects.toThrow(
    expect.objectContaining({ name: "DeviceError", code: "unsupported" }),
  );
  await expect(opening).rejects.toThrow(reason);
});

test.each<[string, GPU]>([
  ["requestAdapter", gpuOf(never)],
  ["requestDevice", adapterOf(never)],
])("%s that never answers is waited for 20 seconds", async (what, gpu) => {
  vi.useFakeTimers();
  const opening = expect(openDevice({ gpu })).rejects.toThrow(`${what} did not answer in 20 s`);
  await vi.advanceTimersByTimeAsync(20_000);
  await opening;
});

test("a device that comes too late is destroyed", async () => {
  vi.useFakeTimers();
  const destroy = vi.fn<() => void>();
  const late = new Promise((resolve) => void setTimeout(() => resolve({ destroy }), 30_000));
  const opening = expect(openDevice({ gpu: adapterOf(() => late) })).rejects.toThrow(/did not answer/);
  await vi.advanceTimersByTimeAsync(20_000);
  await opening;
  expect(destroy).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(destroy).toHaveBeenCalledOnce();
});
