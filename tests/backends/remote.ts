// A device for tests: the CPU's kernels in an arena of their own, behind a queue. Nothing of it can be reached directly:
// bytes go in and out by copies, and everything takes a random while. May refuse operators and have a tiny largest buffer.
import { NODE_BYTES, NODE_SCRATCH_DATA, type Op, Region } from "../../assembly/abi.ts";
import { DeviceError } from "../../ts/errors.ts";
import type { Program, ProgramNode } from "../../ts/graph/program.ts";
import type { Tensor } from "../../ts/graph/tensor.ts";
import type {
  Backend,
  Buffer,
  BufferType,
  BufferUse,
  Costs,
  DeviceUse,
  Executable,
  Planned,
  Staging,
} from "../../ts/runtime/backend.ts";
import type { CpuBackend, CpuBuffer } from "../../ts/runtime/cpu.ts";
import { createEngine, Engine } from "../../ts/runtime/engine.ts";
import { recordCount, writeRecords } from "../../ts/runtime/records.ts";

/** What the device shall be like. */
export interface RemoteOptions {
  readonly refuse?: readonly Op[];
  readonly maxSize?: number;
  readonly alignment?: number;
  readonly costs?: Costs;
  /** upper limit of the random delay of everything, ms */
  readonly delayMs?: number;
  readonly inPlace?: boolean;
  /** slows every run down by so many ms */
  readonly slowMs?: number;
  /** bytes that can be had in all */
  readonly capacity?: number;
  /** a lack of memory is reported by Buffer.ready, as WebGPU does */
  readonly late?: boolean;
}

/** Memory of the device. */
export class RemoteBuffer implements Buffer {
  readonly type: BufferType;
  readonly size: number;
  readonly ready: Promise<void>;
  readonly use: BufferUse;
  readonly inner: CpuBuffer;
  readonly #device: RemoteBackend;

  constructor(device: RemoteBackend, size: number, use: BufferUse, ready: Promise<void>) {
    this.#device = device;
    this.type = device.bufferType;
    this.size = size;
    this.use = use;
    this.inner = device.cpu.bufferType.alloc(size, use) as CpuBuffer;
    this.ready = ready;
    ready.catch(() => undefined);
  }

  write(offset: number, bytes: Uint8Array): void {
    this.#device.check();
    if (offset % 4 !== 0) throw new Error(`write at ${offset}`);
    if (offset + bytes.length > this.size) throw new RangeError("write past the buffer");
    const copy = bytes.slice(); // what the caller does with its bytes later does not matter
    this.#device.written += bytes.length;
    void this.#device.enqueue(async () => this.inner.write(offset, copy));
  }

  async read(offset: number, nBytes: number): Promise<Uint8Array> {
    this.#device.fetched++;
    return this.#device.enqueue(() => this.inner.read(offset, nBytes));
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    this.#device.fetched++;
    return this.#device.enqueue(() => this.inner.readInto(offset, target));
  }

  async stage(offset: number, nBytes: number): Promise<Staging> {
    await delay(0);
    const bytes = new Uint8Array(nBytes);
    return { bytes, commit: () => this.write(offset, bytes) };
  }

  clear(): void {
    void this.#device.enqueue(async () => this.inner.clear());
  }

  dispose(): void {
    this.#device.left(this);
    this.inner.dispose();
  }
}

const delay = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** See the head of the file. */
export class RemoteBackend implements Backend {
  readonly name: string;
  readonly bufferType: BufferType;
  readonly costs: Costs;
  readonly options: RemoteOptions;
  readonly cpu: CpuBackend;
  readonly engine: Engine;
  lost: DeviceError | undefined;
  /** largest buffer, bytes; may change between plans */
  maxSize: number;
  /** buffers that have not been given back */
  readonly buffers = new Set<RemoteBuffer>();
  /** nodes computed, by operator */
  readonly ran: Op[] = [];
  /** bytes written, and reads, since the start */
  written = 0;
  fetched = 0;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(name: string, engine: Engine, options: RemoteOptions) {
    this.name = name;
    this.engine = engine;
    this.cpu = engine.backend as CpuBackend;
    this.options = options;
    this.costs = options.costs ?? { speed: 8, roundTripMs: 1e-7 };
    this.maxSize = options.maxSize ?? 2 ** 31;
    const most = (): number => this.maxSize;
    this.bufferType = {
      name: `${name} memory`,
      alignment: options.alignment ?? 256,
      get maxSize() {
        return most();
      },
      isHost: false,
      alloc: (nBytes, use) => this.#alloc(nBytes, use),
    };
  }

  static async open(name: string, options: RemoteOptions = {}): Promise<RemoteBackend> {
    return new RemoteBackend(name, await createEngine({ nThreads: 1, device: "cpu" }), options);
  }

  #alloc(nBytes: number, use: BufferUse): Buffer {
    this.check();
    if (nBytes > this.bufferType.maxSize)
      throw new DeviceError("buffer-too-large", `${this.name}: ${nBytes} bytes`);
    const held = [...this.buffers].reduce((sum, b) => sum + b.size, 0);
    let ready = Promise.resolve();
    if (held + nBytes > (this.options.capacity ?? Infinity)) {
      const error = new DeviceError("out-of-memory", `${this.name}: ${nBytes} bytes beside ${held}`);
      if (!this.options.late) throw error;
      ready = delay(1).then(() => Promise.reject(error));
    }
    const buffer = new RemoteBuffer(this, nBytes, use, ready);
    this.buffers.add(buffer);
    return buffer;
  }

  left(buffer: RemoteBuffer): void {
    this.buffers.delete(buffer);
  }

  /** What is asked happens in the order of asking, each after a while. */
  enqueue<T>(job: () => Promise<T>): Promise<T> {
    const run = async (): Promise<T> => {
      this.check();
      if (this.options.delayMs !== undefined) await delay(Math.random() * this.options.delayMs);
      this.check();
      return job();
    };
    const result = this.#tail.then(run, run);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  check(): void {
    if (this.lost !== undefined) throw this.lost;
  }

  /** The device goes away, as by a driver's reset. */
  lose(): void {
    this.lost = new DeviceError("device-lost", `${this.name}: the device is gone`);
  }

  held(): DeviceUse {
    const of = (use: BufferUse): number =>
      [...this.buffers].reduce((sum, b) => sum + (b.use === use ? b.size : 0), 0);
    return { weights: of("weights"), kv: of("kv"), compute: of("compute"), staging: 0 };
  }

  supportsOp(t: Tensor): boolean {
    return this.options.refuse?.includes(t.op) !== true;
  }

  lower(program: Program, kept: ReadonlySet<Tensor>): Program {
    return this.cpu.lower(program, kept);
  }

  inPlace(): boolean {
    return this.options.inPlace !== false;
  }

  scratch(node: ProgramNode): number {
    return this.cpu.scratch(node);
  }

  compile(planned: Planned, compute: readonly Buffer[]): Executable {
    const { arena } = this.engine;
    const { program } = planned;
    const records = arena.alloc(recordCount(program) * NODE_BYTES, Region.RECORDS);
    const schedule = { program, splits: [], bufferOf: () => 0 };
    writeRecords(arena, records, schedule, [this.cpu], (t) => this.#addressOf(t));
    program.nodes.forEach((_, i) => {
      const at = records + (program.leafs.length + i) * NODE_BYTES;
      const scratch = planned.scratch(i);
      arena.u32[(at + NODE_SCRATCH_DATA) / 4] =
        scratch === undefined ? 0 : (compute[scratch.chunk] as RemoteBuffer).inner.address + scratch.offset;
    });
    return {
      run: (signal, first = 0, last = program.nodes.length) =>
        this.#run(records, program, first, last, signal),
      dispose: () => undefined,
    };
  }

  #addressOf(t: Tensor): number | undefined {
    const at = t.placement;
    if (!(at?.memory instanceof RemoteBuffer) || at.memory.type !== this.bufferType) return undefined;
    return at.memory.inner.address + at.offset;
  }

  // Resolves when the work is in the queue.
  async #run(records: number, p: Program, first: number, last: number, signal?: AbortSignal): Promise<void> {
    this.check();
    signal?.throwIfAborted();
    const job = async (): Promise<void> => {
      if (this.options.slowMs !== undefined) await delay(this.options.slowMs);
      const nLeafs = p.leafs.length;
      for (const { tensor } of p.nodes.slice(first, last)) this.ran.push(tensor.op);
      const status = await this.cpu.pool.run(records, nLeafs + first, nLeafs + last);
      if (status !== 0) throw new DeviceError("trap", `${this.name}: status ${status}`);
    };
    this.enqueue(job).catch(() => undefined);
    await delay(0);
  }

  dispose(): void {
    this.engine.dispose();
  }
}

/** An engine over these devices and a CPU. */
export async function engineWith(devices: readonly RemoteBackend[], nThreads = 1): Promise<Engine> {
  const cpu = await createEngine({ nThreads, device: "cpu" });
  await cpu.arrived;
  return new Engine(cpu, [...devices, cpu.backend]);
}
