// WebGPU as a device of the engine; imported on demand only.

import type { DeviceOptions, OpenedDevice } from "../runtime/backend.ts";
import { GpuBackend } from "./backend.ts";
import { openDevice } from "./device.ts";
import { verdictStore } from "./selftest/kept.ts";

/**
 * Opens the GPU.
 *
 * @throws {DeviceError} unsupported, with the reason: nothing there, no adapter, an adapter without a device
 */
export async function openWebGpu({ device, fusions, verdicts }: DeviceOptions = {}): Promise<OpenedDevice> {
  const gpu = await openDevice({ device: device as GPUDevice | undefined });
  const { name, software } = gpu.adapter;
  return {
    backend: new GpuBackend(gpu, undefined, fusions, verdictStore(verdicts)),
    description: name,
    software,
  };
}
