// A second backend, for tests: JavaScript memory, float64 arithmetic, random delays. It shows that nothing above the
// backend interface assumes linear memory. It may refuse operators and have a tiny largest buffer.
import { Op, Unary } from "../../assembly/abi.ts";
import { DeviceError } from "../../ts/errors.ts";
import type { Program, ProgramNode } from "../../ts/graph/program.ts";
import type { Tensor } from "../../ts/graph/tensor.ts";
import type {
  Backend,
  Buffer,
  BufferType,
  Costs,
  Executable,
  Planned,
  Staging,
} from "../../ts/runtime/backend.ts";
import { Type } from "../../ts/types.ts";

/** What the backend shall be bad at. */
export interface ReferenceOptions {
  readonly refuse?: readonly Op[];
  readonly maxSize?: number;
  readonly alignment?: number;
  /** upper limit of the random delay before each node, ms */
  readonly delayMs?: number;
}

class JsBuffer implements Buffer {
  readonly type: BufferType;
  readonly size: number;
  readonly bytes: Uint8Array;
  readonly ready: Promise<void> = Promise.resolve();
  disposed = false;

  constructor(type: BufferType, size: number) {
    this.type = type;
    this.size = size;
    this.bytes = new Uint8Array(size);
  }

  write(offset: number, bytes: Uint8Array): void {
    if (offset + bytes.length > this.size) throw new RangeError("write past the buffer");
    this.bytes.set(bytes, offset);
  }

  async read(offset: number, nBytes: number): Promise<Uint8Array> {
    await delay(1);
    return this.bytes.slice(offset, offset + nBytes);
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    target.set(await this.read(offset, target.length));
  }

  stage(offset: number, nBytes: number): Staging {
    const bytes = new Uint8Array(nBytes);
    return { bytes, commit: () => this.write(offset, bytes) };
  }

  clear(): void {
    this.bytes.fill(0);
  }

  dispose(): void {
    this.disposed = true;
  }
}

const delay = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

type Kernel = (dst: Cells, src: readonly Cells[], params: readonly number[]) => void;

/** Elements of a placed F32 tensor, by index. */
class Cells {
  readonly t: Tensor;
  readonly #view: DataView;
  readonly #offset: number;

  constructor(t: Tensor) {
    const { memory, offset } = t.placement!;
    const { buffer } = (memory as JsBuffer).bytes;
    this.t = t;
    this.#view = new DataView(buffer);
    this.#offset = offset;
  }

  at(i: readonly number[]): number {
    return this.#view.getFloat32(this.#address(i), true);
  }

  set(i: readonly number[], x: number): void {
    this.#view.setFloat32(this.#address(i), x, true);
  }

  #address(i: readonly number[]): number {
    return this.t.nb.reduce((sum, nb, d) => sum + (i[d]! % this.t.ne[d]!) * nb, this.#offset);
  }
}

function* indices(ne: readonly number[]): Generator<[number, number, number, number]> {
  for (let d = 0; d < ne[3]!; d++)
    for (let c = 0; c < ne[2]!; c++)
      for (let b = 0; b < ne[1]!; b++) for (let a = 0; a < ne[0]!; a++) yield [a, b, c, d];
}

const binary =
  (f: (a: number, b: number) => number): Kernel =>
  (dst, [a, b]) => {
    for (const i of indices(dst.t.ne)) dst.set(i, f(a!.at(i), b!.at(i)));
  };

const mulMat: Kernel = (dst, [a, b]) => {
  const k = a!.t.ne[0];
  for (const [m, n, p, q] of indices(dst.t.ne)) {
    let sum = 0;
    for (let i = 0; i < k; i++) sum += a!.at([i, m, p, q]) * b!.at([i, n, p, q]);
    dst.set([m, n, p, q], sum);
  }
};

const softMax: Kernel = (dst, [x]) => {
  for (const [a, b, c, d] of indices([1, dst.t.ne[1], dst.t.ne[2], dst.t.ne[3]])) {
    const row = Array.from({ length: dst.t.ne[0] }, (_, i) => x!.at([a + i, b, c, d]));
    const max = Math.max(...row);
    const sum = row.reduce((s, v) => s + Math.exp(v - max), 0);
    row.forEach((v, i) => dst.set([i, b, c, d], Math.exp(v - max) / sum));
  }
};

const relu: Kernel = (dst, [x], params) => {
  if (params[0] !== Unary.RELU) throw new Error("only relu");
  for (const i of indices(dst.t.ne)) dst.set(i, Math.max(0, x!.at(i)));
};

const KERNELS: ReadonlyMap<Op, Kernel> = new Map([
  [Op.ADD, binary((a, b) => a + b)],
  [Op.MUL, binary((a, b) => a * b)],
  [Op.MUL_MAT, mulMat],
  [Op.SOFT_MAX, softMax],
  [Op.UNARY, relu],
]);

/** See the head of the file. */
export class ReferenceBackend implements Backend {
  readonly name = "reference";
  readonly bufferType: BufferType;
  readonly costs: Costs = { speed: 1, roundTripMs: 0 };
  readonly lost = undefined;
  /** every buffer ever made */
  readonly buffers: JsBuffer[] = [];
  readonly #options: ReferenceOptions;

  constructor(options: ReferenceOptions = {}) {
    this.#options = options;
    const maxSize = options.maxSize ?? 2 ** 40;
    this.bufferType = {
      name: "reference memory",
      alignment: options.alignment ?? 256,
      maxSize,
      isHost: false,
      alloc: (nBytes) => {
        if (nBytes > maxSize) throw new DeviceError("buffer-too-large", "reference: too large");
        const buffer = new JsBuffer(this.bufferType, nBytes);
        this.buffers.push(buffer);
        return buffer;
      },
    };
  }

  supportsOp(t: Tensor): boolean {
    if (this.#options.refuse?.includes(t.op)) return false;
    return t.op <= Op.TRANSPOSE || (KERNELS.has(t.op) && t.type === Type.F32);
  }

  lower(program: Program): Program {
    return program;
  }

  inPlace(): boolean {
    return true;
  }

  scratch(): number {
    return 0;
  }

  compile(planned: Planned): Executable {
    return { run: (signal) => this.#run(planned.program.nodes, signal), dispose: () => undefined };
  }

  async #run(nodes: readonly ProgramNode[], signal?: AbortSignal): Promise<void> {
    for (const { tensor, src } of nodes) {
      signal?.throwIfAborted();
      if (this.#options.delayMs !== undefined) await delay(Math.random() * this.#options.delayMs);
      if (tensor.op <= Op.TRANSPOSE) continue;
      const cells = src.flatMap((s) => (s === undefined ? [] : [new Cells(s)]));
      KERNELS.get(tensor.op)!(new Cells(tensor), cells, tensor.params);
    }
  }

  dispose(): void {}
}
