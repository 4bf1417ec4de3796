// Reading GPU memory: a ring of mappable buffers that are used again and again.

import { DeviceError } from "../errors.ts";
import { alignUp } from "../shape.ts";
import type { GpuDevice } from "./device.ts";
import { FAULT_BYTES, type Faults } from "./faults.ts";

const MAP_READ = 1; // GPUBufferUsage.MAP_READ
const COPY_DST = 8; // GPUBufferUsage.COPY_DST
const READ = 1; // GPUMapMode.READ
/** Bytes that idle buffers may hold together. */
const KEPT_BYTES = 16 * 2 ** 20;
/** Largest piece of one reading. */
const PIECE = 64 * 2 ** 20;

/** Mappable buffers of one device; sizes are powers of two. */
export class ReadbackRing {
  readonly #gpu: GpuDevice;
  readonly #faults: Faults;
  readonly #idle: GPUBuffer[] = [];
  readonly #busy = new Set<GPUBuffer>();

  constructor(gpu: GpuDevice, faults: Faults) {
    this.#gpu = gpu;
    this.#faults = faults;
    gpu.onLost(() => this.dispose());
  }

  /**
   * Copies bytes of a buffer into `target` as they are when all work submitted so far is done.
   *
   * @throws {DeviceError} device-lost, out-of-memory; trap when a kernel met an id outside its table
   */
  async readInto(source: GPUBuffer, offset: number, target: Uint8Array): Promise<void> {
    const pieces: Promise<void>[] = [];
    for (let at = 0; at < target.length; at += PIECE) {
      pieces.push(this.#piece(source, offset + at, target.subarray(at, Math.min(target.length, at + PIECE))));
    }
    await Promise.all(pieces);
  }

  async #piece(source: GPUBuffer, offset: number, target: Uint8Array): Promise<void> {
    const skip = offset % 4;
    const nBytes = alignUp(skip + target.length, 4);
    const staging = this.#take(nBytes + FAULT_BYTES);
    const encoder = this.#gpu.device.createCommandEncoder();
    encoder.copyBufferToBuffer(source, offset - skip, staging, 0, nBytes);
    const told = this.#faults.copyTo(encoder, staging, nBytes) ? FAULT_BYTES : 0;
    this.#gpu.device.queue.submit([encoder.finish()]);
    this.#gpu.counts.submits++;
    let faults: ArrayBuffer | undefined;
    try {
      await staging.mapAsync(READ, 0, nBytes + told);
      const mapped = staging.getMappedRange(0, nBytes + told);
      target.set(new Uint8Array(mapped, skip, target.length));
      if (told > 0) faults = mapped.slice(nBytes);
      staging.unmap();
    } catch (cause) {
      if (this.#busy.delete(staging)) this.#gpu.destroyBuffer(staging);
      await this.#gpu.newsOfLoss();
      throw new DeviceError("gpu-error", `webgpu: reading ${nBytes} bytes: ${String(cause)}`, { cause });
    }
    this.#give(staging);
    this.#gpu.check();
    if (faults !== undefined) this.#faults.check(faults);
  }

  #take(nBytes: number): GPUBuffer {
    this.#gpu.check();
    const size = Math.max(4096, 2 ** Math.ceil(Math.log2(nBytes)));
    const found = this.#idle.findIndex((b) => b.size === size);
    const staging =
      found >= 0
        ? this.#idle.splice(found, 1)[0]!
        : this.#gpu.createBuffer(size, MAP_READ + COPY_DST, "readback").buffer;
    this.#busy.add(staging);
    return staging;
  }

  #give(staging: GPUBuffer): void {
    this.#busy.delete(staging);
    this.#idle.push(staging);
    let held = this.#idle.reduce((n, b) => n + b.size, 0);
    while (held > KEPT_BYTES) {
      const oldest = this.#idle.shift()!;
      held -= oldest.size;
      this.#gpu.destroyBuffer(oldest);
    }
  }

  /** Gives all buffers back; readings under way reject. */
  dispose(): void {
    for (const buffer of [...this.#idle.splice(0), ...this.#busy]) this.#gpu.destroyBuffer(buffer);
    this.#busy.clear();
  }
}
