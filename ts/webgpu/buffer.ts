// Memory of a GPU: the buffer type and buffers of the backend interface.

import { DeviceError, GraphError } from "../errors.ts";
import type { Buffer, BufferType, BufferUse, Staging } from "../runtime/backend.ts";
import { alignUp } from "../shape.ts";
import { ALIGN, type GpuDevice } from "./device.ts";
import { Faults } from "./faults.ts";
import { WordPatch } from "./patch.ts";
import { ReadbackRing } from "./readback.ts";
import { StagingRing } from "./staging.ts";

const USAGE = 0x8c; // GPUBufferUsage: STORAGE, COPY_DST, COPY_SRC
/** Bytes copied at once out of shared memory, which Node's writeBuffer must never see: it crashes the process. */
const PIECE = 2 ** 20;

/** What the host last wrote to a part of a buffer. */
export interface Watch {
  readonly start: number;
  /** the bytes, once `known` */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** all of them were written at once, or later on */
  known: boolean;
  /** ends it */
  dispose(): void;
}

/** The one kind of memory of a device. */
export class GpuBufferType implements BufferType {
  readonly name = "webgpu";
  readonly alignment: number = ALIGN;
  readonly isHost = false;
  readonly maxSize: number;
  readonly gpu: GpuDevice;
  readonly readback: ReadbackRing;
  readonly patch: WordPatch;
  readonly staging: StagingRing;
  readonly faults: Faults;
  readonly #live = new Set<GpuBuffer>();

  constructor(gpu: GpuDevice) {
    this.gpu = gpu;
    this.maxSize = Math.floor(gpu.device.limits.maxBufferSize / ALIGN) * ALIGN;
    this.faults = new Faults(gpu);
    this.readback = new ReadbackRing(gpu, this.faults);
    this.patch = new WordPatch(gpu);
    this.staging = new StagingRing(gpu);
  }

  alloc(nBytes: number, use: BufferUse): GpuBuffer {
    if (nBytes > this.maxSize) {
      throw new DeviceError(
        "buffer-too-large",
        `webgpu: a buffer of ${nBytes} bytes; the largest is ${this.maxSize}`,
        { expected: this.maxSize, actual: nBytes },
      );
    }
    const buffer = new GpuBuffer(this, nBytes, use, () => this.#live.delete(buffer));
    this.#live.add(buffer);
    return buffer;
  }

  /** Gives back all buffers, and what they share. */
  dispose(): void {
    for (const buffer of this.#live) buffer.dispose();
    this.readback.dispose();
    this.staging.dispose();
    this.patch.dispose();
    this.faults.dispose();
  }
}

/** A buffer of a device. Writes take effect in the order of the calls, between runs. */
export class GpuBuffer implements Buffer {
  readonly type: GpuBufferType;
  readonly size: number;
  /** its memory: a multiple of 256 bytes, so that the last binding can be rounded up */
  readonly memory: GPUBuffer;
  readonly ready: Promise<void>;
  readonly #gpu: GpuDevice;
  readonly #onDispose: () => void;
  readonly #watches = new Set<Watch>();
  #disposed = false;

  constructor(type: GpuBufferType, nBytes: number, use: BufferUse, onDispose: () => void) {
    this.#onDispose = onDispose;
    this.type = type;
    this.size = nBytes;
    this.#gpu = type.gpu;
    const { buffer, ready } = this.#gpu.createBuffer(Math.max(ALIGN, alignUp(nBytes, ALIGN)), USAGE, use);
    this.memory = buffer;
    this.ready = ready;
  }

  /** True once given back. */
  get disposed(): boolean {
    return this.#disposed;
  }

  write(offset: number, bytes: Uint8Array): void {
    this.#alive();
    this.#gpu.check();
    for (const watch of this.#watches) note(watch, offset, bytes);
    // whole words are copied, parts of words at both ends are patched in
    const head = Math.min(bytes.length, (4 - (offset % 4)) % 4);
    const tail = (bytes.length - head) % 4;
    const end = bytes.length - tail;
    if (head > 0) this.type.patch.write(this.memory, offset, bytes.subarray(0, head));
    if (end > head) this.#writeWords(offset + head, bytes.subarray(head, end));
    if (tail > 0) this.type.patch.write(this.memory, offset + end, bytes.subarray(end));
  }

  #writeWords(offset: number, bytes: Uint8Array): void {
    const { queue } = this.#gpu.device;
    if (bytes.buffer instanceof ArrayBuffer) {
      return queue.writeBuffer(this.memory, offset, bytes as Uint8Array<ArrayBuffer>);
    }
    for (let at = 0; at < bytes.length; at += PIECE) {
      queue.writeBuffer(this.memory, offset + at, bytes.slice(at, at + PIECE) as Uint8Array<ArrayBuffer>);
    }
  }

  /** Keeps what is written to `nBytes` bytes from `start` on: small parts only. */
  watch(start: number, nBytes: number): Watch {
    const bytes = new Uint8Array(nBytes);
    const watch: Watch = { start, bytes, known: false, dispose: () => void this.#watches.delete(watch) };
    this.#watches.add(watch);
    return watch;
  }

  async stage(offset: number, nBytes: number): Promise<Staging> {
    this.#alive();
    const staged = await this.type.staging.stage(this.memory, offset, nBytes);
    if (this.#disposed) this.type.staging.forget(this.memory);
    this.#alive();
    return staged;
  }

  async read(offset: number, nBytes: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(nBytes);
    await this.readInto(offset, bytes);
    return bytes;
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    this.#alive();
    await this.type.readback.readInto(this.memory, offset, target);
  }

  clear(): void {
    this.#alive();
    this.#gpu.check();
    const encoder = this.#gpu.device.createCommandEncoder();
    encoder.clearBuffer(this.memory);
    this.#gpu.device.queue.submit([encoder.finish()]);
    this.#gpu.counts.submits++;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#onDispose();
    this.type.staging.forget(this.memory);
    this.#gpu.destroyBuffer(this.memory);
  }

  #alive(): void {
    if (this.#disposed) throw new GraphError("disposed", "buffer: given back");
  }
}

function note(watch: Watch, offset: number, written: Uint8Array): void {
  const from = Math.max(watch.start, offset);
  const to = Math.min(watch.start + watch.bytes.length, offset + written.length);
  if (from >= to) return;
  watch.bytes.set(written.subarray(from - offset, to - offset), from - watch.start);
  watch.known ||= to - from === watch.bytes.length;
}
