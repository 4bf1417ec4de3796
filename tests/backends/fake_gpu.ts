// A GPUDevice for tests that holds no memory: counts bytes, checks what WebGPU demands of buffers, copies and mapping, and
// keeps some of the bytes of each copy. Its queue works later, and what is mapped is detached when it is unmapped.

const [MAP_READ, MAP_WRITE, COPY_SRC, COPY_DST] = [1, 2, 4, 8]; // GPUBufferUsage
/** Bytes kept at the start, in the middle and at the end of each copy. */
const KEPT = 64;

/** What the device shall be like. */
export interface FakeOptions {
  /** bytes of weights, caches and compute buffers that can be had; what else there is is small */
  readonly capacity?: number;
  readonly maxBufferSize?: number;
  /** label of buffers that cannot be had at all */
  readonly refused?: string;
}

/** Bytes that a copy brought to a place. */
export interface Sample {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** A copy of bytes out of a mapped buffer. */
export interface Upload {
  readonly offset: number;
  readonly nBytes: number;
  readonly samples: readonly Sample[];
}

class Fault {
  readonly kind: "out-of-memory" | "validation";
  readonly message: string;

  constructor(kind: Fault["kind"], message: string) {
    this.kind = kind;
    this.message = message;
  }
}

/** A buffer; only one that can be mapped has bytes. */
export class FakeBuffer {
  readonly size: number;
  readonly usage: number;
  readonly label: string;
  readonly uploads: Upload[] = [];
  destroyed = false;
  mapped: boolean;
  readonly #device: FakeGpu;
  #bytes: ArrayBuffer | undefined;

  constructor(device: FakeGpu, { size, usage, label, mappedAtCreation }: GPUBufferDescriptor) {
    this.#device = device;
    this.size = size;
    this.usage = usage;
    this.label = label!;
    this.mapped = mappedAtCreation === true;
    if ((usage & (MAP_READ | MAP_WRITE)) !== 0) this.#bytes = new ArrayBuffer(size);
  }

  getMappedRange(offset: number, size: number): ArrayBuffer {
    if (!this.mapped || offset !== 0 || size % 4 !== 0 || size > this.size) throw new Error("bad range");
    return this.#bytes!;
  }

  unmap(): void {
    if (!this.mapped) this.#device.fault("validation", `${this.label}: unmapped twice`);
    this.mapped = false;
    this.#bytes = structuredClone(this.#bytes!, { transfer: [this.#bytes!] });
  }

  async mapAsync(): Promise<void> {
    if (this.mapped || this.destroyed) throw new Error(`${this.label}: cannot be mapped`);
    await this.#device.queue.onSubmittedWorkDone();
    if (this.#device.isLost || this.destroyed) throw new Error("AbortError");
    this.mapped = true;
  }

  bytes(offset: number, nBytes: number): Uint8Array {
    return new Uint8Array(this.#bytes!, offset, nBytes);
  }

  destroy(): void {
    if (this.destroyed) this.#device.fault("validation", `${this.label}: destroyed twice`);
    this.destroyed = true;
    this.#device.liveBytes -= this.size;
  }
}

type Command = () => void;

/** See the head of the file. Hand it on as a GPUDevice by {@link FakeGpu.asDevice}. */
export class FakeGpu {
  readonly features: ReadonlySet<string> = new Set();
  readonly adapterInfo: object = { vendor: "fake", architecture: "", device: "", description: "" };
  readonly limits: object;
  readonly lost: Promise<{ readonly message: string }>;
  readonly buffers: FakeBuffer[] = [];
  liveBytes = 0;
  /** most bytes of mappable buffers at a time */
  mostStaging = 0;
  /** errors that no scope took */
  readonly strays: string[] = [];
  isLost = false;
  readonly queue: {
    submit(lists: readonly (readonly Command[])[]): void;
    onSubmittedWorkDone(): Promise<void>;
    writeBuffer(target: FakeBuffer, offset: number, bytes: Uint8Array): void;
  };
  readonly #capacity: number;
  readonly #refused: string | undefined;
  readonly #scopes: { readonly kind: string; fault: Fault | null }[] = [];
  #work: Promise<void> = Promise.resolve();
  #lose!: (info: { readonly message: string }) => void;

  constructor({ capacity = Infinity, maxBufferSize = 2 ** 30, refused }: FakeOptions = {}) {
    this.#capacity = capacity;
    this.#refused = refused;
    this.lost = new Promise((resolve) => (this.#lose = resolve));
    this.limits = {
      maxBufferSize,
      maxStorageBufferBindingSize: Math.min(maxBufferSize, 2 ** 27),
      maxStorageBuffersPerShaderStage: 8,
      maxComputeInvocationsPerWorkgroup: 256,
      maxComputeWorkgroupSizeX: 256,
      maxComputeWorkgroupStorageSize: 16384,
    };
    this.queue = {
      submit: (lists) => void (this.#work = this.#later(lists.flat())),
      onSubmittedWorkDone: () => this.#work,
      writeBuffer: (target, offset, bytes) => this.#checkTarget(target, offset, bytes.length),
    };
  }

  /** The device for those who take one. */
  asDevice(): GPUDevice {
    return this as unknown as GPUDevice;
  }

  async #later(commands: readonly Command[]): Promise<void> {
    await this.#work;
    await new Promise((resolve) => void setImmediate(resolve));
    if (!this.isLost) for (const run of commands) run();
  }

  /** An error: of the innermost scope of its kind, or a stray one. */
  fault(kind: Fault["kind"], message: string): void {
    const scope = this.#scopes.findLast((s) => s.kind === kind);
    if (scope === undefined) this.strays.push(message);
    else scope.fault ??= new Fault(kind, message);
  }

  pushErrorScope(kind: string): void {
    this.#scopes.push({ kind, fault: null });
  }

  popErrorScope(): Promise<Fault | null> {
    return Promise.resolve(this.#scopes.pop()!.fault);
  }

  addEventListener(): void {}

  createBuffer(descriptor: GPUBufferDescriptor): FakeBuffer {
    const buffer = new FakeBuffer(this, descriptor);
    if (buffer.size % 4 !== 0) this.fault("validation", `${buffer.label}: ${buffer.size} bytes`);
    this.liveBytes += buffer.size;
    this.buffers.push(buffer);
    this.mostStaging = Math.max(this.mostStaging, this.bytesOf("staging", "readback"));
    if (buffer.label === this.#refused || this.bytesOf("weights", "kv", "compute") > this.#capacity)
      this.fault("out-of-memory", `${buffer.size} bytes`);
    return buffer;
  }

  /** Bytes alive of buffers with these labels. */
  bytesOf(...labels: readonly string[]): number {
    return this.buffers.reduce((sum, b) => sum + (b.destroyed || !labels.includes(b.label) ? 0 : b.size), 0);
  }

  createCommandEncoder(): object {
    const commands: Command[] = [];
    return {
      copyBufferToBuffer: (from: FakeBuffer, at: number, to: FakeBuffer, offset: number, size: number) =>
        commands.push(() => this.#copy(from, at, to, offset, size)),
      clearBuffer: (target: FakeBuffer) => this.#checkTarget(target, 0, target.size),
      finish: () => commands,
    };
  }

  #copy(from: FakeBuffer, at: number, to: FakeBuffer, offset: number, size: number): void {
    if (from.mapped || (from.usage & COPY_SRC) === 0) this.fault("validation", "copy from what is mapped");
    if (at % 4 !== 0 || at + size > from.size) this.fault("validation", `copy of ${size} bytes at ${at}`);
    this.#checkTarget(to, offset, size);
    const samples = [0, Math.floor((size - KEPT) / 8) * 4, size - KEPT].map((start): Sample => {
      const first = Math.max(0, start);
      return { offset: offset + first, bytes: from.bytes(at + first, Math.min(KEPT, size)).slice() };
    });
    to.uploads.push({ offset, nBytes: size, samples });
  }

  #checkTarget(target: FakeBuffer, offset: number, nBytes: number): void {
    const fits = offset % 4 === 0 && nBytes % 4 === 0 && offset + nBytes <= target.size;
    if (!fits) this.fault("validation", `${target.label}: ${nBytes} bytes to ${offset} of ${target.size}`);
    if (target.destroyed || target.mapped || (target.usage & COPY_DST) === 0)
      this.fault("validation", `${target.label}: cannot be written`);
  }

  createBindGroupLayout(): object {
    return {};
  }

  createPipelineLayout(): object {
    return {};
  }

  createBindGroup(): object {
    return {};
  }

  destroy(): void {
    this.isLost = true;
    this.#lose({ message: "destroyed" });
  }
}
