// Files on their way to the GPU: mappable buffers, filled in place, copied by the device, used again.

import { DeviceError } from "../errors.ts";
import type { Staging } from "../runtime/backend.ts";
import { alignUp } from "../shape.ts";
import type { GpuDevice } from "./device.ts";

const MAP_WRITE_COPY_SRC = 6; // GPUBufferUsage
const WRITE = 2; // GPUMapMode.WRITE
/** Buffers under way or idle at most: one is filled while the device copies the others. */
const COUNT = 3;

/** Mappable buffers of one device. */
export class StagingRing {
  readonly #gpu: GpuDevice;
  /** mapped, oldest first */
  readonly #idle: GPUBuffer[] = [];
  /** mapped and given out, not sent yet, with where they are to go */
  readonly #given = new Map<GPUBuffer, GPUBuffer>();
  /** sent, with what resolves when each is mapped again, oldest first */
  readonly #busy = new Map<GPUBuffer, Promise<void>>();

  constructor(gpu: GpuDevice) {
    this.#gpu = gpu;
  }

  /**
   * A place for `nBytes` on their way to `offset`, a multiple of 4; up to three bytes after them are set to zero.
   *
   * @throws {DeviceError} unsupported for other offsets; out-of-memory, device-lost
   */
  async stage(target: GPUBuffer, offset: number, nBytes: number): Promise<Staging> {
    if (offset % 4 !== 0) throw new DeviceError("unsupported", `webgpu: cannot copy to byte ${offset}`);
    const size = Math.max(4, alignUp(nBytes, 4));
    const staging = await this.#take(size);
    this.#given.set(staging, target);
    let range: Uint8Array;
    try {
      range = new Uint8Array(staging.getMappedRange(0, size));
    } catch (cause) {
      this.forget(target);
      await this.#gpu.newsOfLoss();
      throw new DeviceError("gpu-error", `webgpu: staging of ${size} bytes: ${String(cause)}`, { cause });
    }
    range.fill(0, nBytes);
    return {
      bytes: range.subarray(0, nBytes),
      commit: () => this.#send(staging, target, offset, size),
    };
  }

  /** Gives back what was given out for a buffer and will not be sent: a load ended on the way. */
  forget(target: GPUBuffer): void {
    for (const [staging, to] of this.#given) {
      if (to !== target) continue;
      this.#given.delete(staging);
      this.#gpu.destroyBuffer(staging);
    }
  }

  #send(staging: GPUBuffer, target: GPUBuffer, offset: number, size: number): void {
    this.#gpu.check();
    try {
      staging.unmap();
    } catch (cause) {
      return this.#gpu.doubt(`staging of ${size} bytes: ${String(cause)}`);
    }
    this.#given.delete(staging);
    const encoder = this.#gpu.device.createCommandEncoder();
    encoder.copyBufferToBuffer(staging, 0, target, offset, size);
    this.#gpu.device.queue.submit([encoder.finish()]);
    this.#gpu.counts.submits++;
    const mapped = staging.mapAsync(WRITE).then(
      () => this.#back(staging, true),
      () => this.#back(staging, false), // the device is gone: check() says so
    );
    this.#busy.set(staging, mapped);
  }

  async #take(size: number): Promise<GPUBuffer> {
    if (this.#gpu.failure !== undefined) await this.#gpu.newsOfLoss();
    this.#gpu.check();
    while (this.#busy.size + this.#idle.length >= COUNT && !this.#idle.some((b) => b.size >= size)) {
      const tooSmall = this.#idle.shift();
      if (tooSmall !== undefined) this.#gpu.destroyBuffer(tooSmall);
      else await this.#busy.values().next().value;
      this.#gpu.check();
    }
    const found = this.#idle.findIndex((b) => b.size >= size);
    if (found >= 0) return this.#idle.splice(found, 1)[0]!;
    const { buffer, ready } = this.#gpu.createBuffer(size, MAP_WRITE_COPY_SRC, "staging", true);
    try {
      await ready;
      return buffer;
    } catch (error) {
      this.#gpu.destroyBuffer(buffer);
      throw error;
    }
  }

  #back(staging: GPUBuffer, mapped: boolean): void {
    if (!this.#busy.delete(staging)) return; // disposed meanwhile
    if (mapped) this.#idle.push(staging);
    else this.#gpu.destroyBuffer(staging);
  }

  /** Gives all buffers back; copies under way end. */
  dispose(): void {
    const all = [...this.#idle.splice(0), ...this.#given.keys(), ...this.#busy.keys()];
    for (const buffer of all) this.#gpu.destroyBuffer(buffer);
    this.#given.clear();
    this.#busy.clear();
  }
}
