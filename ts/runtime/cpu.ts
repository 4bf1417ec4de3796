// The CPU backend: buffers are regions of the arena, programs are node records run by the thread pool.

import { Op, Region, Status } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import { ALL_FUSIONS, type Fusions } from "../graph/fusion.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { opDef } from "../ops/index.ts";
import { nelements } from "../shape.ts";
import type { Arena } from "./arena.ts";
import type {
  Backend,
  Buffer,
  BufferType,
  BufferUse,
  Costs,
  Executable,
  Planned,
  Staging,
} from "./backend.ts";
import { fuseForCpu } from "./cpu_fuse.ts";
import { lowerForCpu } from "./cpu_lower.ts";
import { Stretch } from "./macrotask.ts";
import { besideEachOther, markMeetings, SOLO_WORK } from "./meetings.ts";
import { MAX_BYTES } from "./records.ts";
import type { ThreadPool } from "./threads.ts";

const REGION: { readonly [K in BufferUse]: Region } = {
  weights: Region.WEIGHTS,
  kv: Region.KV,
  compute: Region.COMPUTE,
};

/** A region of the arena. */
export class CpuBuffer implements Buffer {
  readonly type: BufferType;
  /** address in linear memory, bytes */
  readonly address: number;
  readonly size: number;
  readonly ready: Promise<void> = Promise.resolve();
  readonly #arena: Arena;
  #disposed = false;

  constructor(type: BufferType, arena: Arena, size: number, use: BufferUse) {
    this.type = type;
    this.size = size;
    this.#arena = arena;
    const { highest } = arena;
    this.address = arena.alloc(size, REGION[use]);
    // A cache starts as zeros. Fresh memory is that already, and is not touched before it is used.
    if (use === "kv" && this.address < highest) {
      arena.u8.fill(0, this.address, Math.min(highest, this.address + size));
    }
  }

  write(offset: number, bytes: Uint8Array): void {
    this.#arena.u8.set(bytes, this.#at(offset));
  }

  async read(offset: number, nBytes: number): Promise<Uint8Array> {
    const at = this.#at(offset);
    return this.#arena.u8.slice(at, at + nBytes);
  }

  async readInto(offset: number, target: Uint8Array): Promise<void> {
    const at = this.#at(offset);
    target.set(this.#arena.u8.subarray(at, at + target.length));
  }

  /** The bytes themselves, to read a file into. Ask again after anything that may grow memory. */
  view(offset: number, nBytes: number): Uint8Array {
    const at = this.#at(offset);
    return this.#arena.u8.subarray(at, at + nBytes);
  }

  stage(offset: number, nBytes: number): Staging {
    return { bytes: this.view(offset, nBytes), commit: () => undefined };
  }

  #at(offset: number): number {
    if (this.#disposed) throw new GraphError("disposed", "buffer: given back");
    return this.address + offset;
  }

  clear(): void {
    this.#arena.u8.fill(0, this.address, this.address + this.size);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#arena.free(this.address);
  }
}

// A slice should take a few milliseconds where the machine is slow, so that the event loop turns in time. Slices that turn
// out to be fast are handed to the threads together, up to CALL_MS.
const SLICE_FLOPS = 50e6;
const CALL_MS = 8;

/** Node ranges of about SLICE_FLOPS each, as record indices: [first, last) pairs. */
export function slices(nodes: readonly ProgramNode[], first: number): number[] {
  const cuts = [first];
  let work = 0;
  nodes.forEach((node, i) => {
    work += flops(node);
    if (work < SLICE_FLOPS) return;
    cuts.push(first + i + 1);
    work = 0;
  });
  const end = first + nodes.length;
  if (cuts[cuts.length - 1] !== end) cuts.push(end);
  return cuts;
}

function flops({ tensor, src }: ProgramNode): number {
  if (tensor.op <= Op.TRANSPOSE) return 0;
  return opDef(tensor.op).flops?.(tensor, src) ?? nelements(tensor.ne);
}

/** The same range, cut at each node. */
function singly(cuts: readonly number[]): readonly number[] {
  const first = cuts[0] ?? 0;
  return Array.from({ length: (cuts[cuts.length - 1] ?? first) - first + 1 }, (_, i) => first + i);
}

/** Hears of a node that has run, with the times of `performance.now()` before and after. */
export type NodeListener = (tensor: Tensor, start: number, end: number) => void;

class CpuExecutable implements Executable {
  readonly #backend: CpuBackend;
  readonly #planned: Planned;
  readonly #cuts: readonly number[];
  readonly #stretch = new Stretch();
  /** what a slice took lately; none is known to be fast at first */
  #sliceMs = Infinity;
  #disposed = false;

  constructor(backend: CpuBackend, planned: Planned) {
    this.#backend = backend;
    this.#planned = planned;
    this.#cuts = slices(planned.program.nodes, planned.firstRecord);
  }

  run(signal?: AbortSignal, first?: number, last?: number): Promise<void> {
    return this.#run(this.#cutsOf(first, last), signal);
  }

  #cutsOf(first = 0, last: number = this.#planned.program.nodes.length): readonly number[] {
    if (first === 0 && last === this.#planned.program.nodes.length) return this.#cuts;
    const { firstRecord } = this.#planned;
    const inside = this.#cuts.filter((cut) => cut > firstRecord + first && cut < firstRecord + last);
    return [firstRecord + first, ...inside, firstRecord + last];
  }

  async #run(cuts: readonly number[], signal?: AbortSignal): Promise<void> {
    const { pool, onNode } = this.#backend;
    const onAbort = (): void => pool.abort();
    signal?.throwIfAborted();
    signal?.addEventListener("abort", onAbort);
    if (onNode !== undefined) cuts = singly(cuts);
    try {
      for (let i = 0, next = 0; i + 1 < cuts.length; i = next) {
        if (this.#stretch.due()) {
          await this.#stretch.turn();
          signal?.throwIfAborted();
        }
        if (this.#disposed) throw new GraphError("disposed", "graph: its plan was given back while it ran");
        next = onNode === undefined ? this.#callEnd(cuts, i) : i + 1;
        const start = performance.now();
        const ran = pool.run(this.#planned.records, cuts[i]!, cuts[next]!);
        const status = typeof ran === "number" ? ran : await ran;
        const end = performance.now();
        if (onNode === undefined) this.#sliceMs = (end - start) / (next - i);
        else onNode(this.#planned.program.nodes[cuts[i]! - this.#planned.firstRecord]!.tensor, start, end);
        if (status !== Status.OK && !this.#disposed) this.#fail(status, pool.failedRecord, signal);
      }
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  // How many slices, from cut i on, go into one call.
  #callEnd(cuts: readonly number[], i: number): number {
    return Math.min(cuts.length - 1, i + Math.max(1, Math.floor(CALL_MS / this.#sliceMs)));
  }

  #fail(status: Status, record: number, signal?: AbortSignal): never {
    if (status === Status.ABORTED) {
      signal?.throwIfAborted();
      throw new DeviceError("trap", "run aborted");
    }
    const node = record - this.#planned.firstRecord;
    const tensor = this.#planned.program.nodes[node]?.tensor;
    const what = tensor === undefined ? "" : ` (${Op[tensor.op]!.toLowerCase()}, ${tensor.label()})`;
    if (status === Status.TIMEOUT) {
      this.#backend.pool.dispose(); // a dead or stuck worker must not touch the next run: from now on one thread
      throw new DeviceError("timeout", `threads: a worker stopped answering at node ${node}${what}`, {
        node,
      });
    }
    throw new DeviceError("trap", `node ${node}${what} trapped: an index or address is out of range`, {
      node,
      ...(tensor === undefined ? {} : { op: Op[tensor.op]!.toLowerCase(), tensor: tensor.name }),
    });
  }

  dispose(): void {
    this.#disposed = true;
  }
}

/** The CPU as a device. */
export class CpuBackend implements Backend {
  readonly name = "cpu";
  readonly bufferType: BufferType;
  readonly costs: Costs = { speed: 1, roundTripMs: 0 };
  readonly lost = undefined;
  readonly pool: ThreadPool;
  /** while set, nodes run one by one, each timed: for profiles */
  onNode: NodeListener | undefined;
  /** work up to which one thread computes a node alone, in graphs planned from now on */
  soloWork: number = SOLO_WORK;
  /** those that are on */
  readonly fusions: Fusions;
  readonly #arena: Arena;

  constructor(arena: Arena, pool: ThreadPool, alignment: number, fusions: Fusions = ALL_FUSIONS) {
    this.pool = pool;
    this.fusions = fusions;
    this.#arena = arena;
    this.bufferType = {
      name: "arena",
      alignment,
      maxSize: MAX_BYTES,
      isHost: true,
      alloc: (nBytes, use) => new CpuBuffer(this.bufferType, arena, nBytes, use),
    };
  }

  // Shape rules admit exactly what the kernels take.
  supportsOp(): boolean {
    return true;
  }

  lower(program: Program, kept: ReadonlySet<Tensor>): Program {
    const lowered = lowerForCpu(fuseForCpu(program, kept, this.fusions));
    return this.pool.nThreads > 1 ? besideEachOther(lowered) : lowered;
  }

  inPlace(): boolean {
    return true;
  }

  scratch({ tensor, src }: ProgramNode): number {
    return opDef(tensor.op).scratch?.(tensor, src, this.pool.nThreads) ?? 0;
  }

  compile(planned: Planned): Executable {
    const { records, firstRecord, program } = planned;
    markMeetings(this.#arena, records, firstRecord, program.nodes, this.soloWork);
    return new CpuExecutable(this, planned);
  }

  dispose(): void {
    this.pool.dispose();
  }
}

/**
 * Has threads of the CPU that have nothing to do touch the memory of buffers that are about to be filled from their start; no
 * byte changes. A run ends it too.
 *
 * @returns what ends it
 */
export function touchFirst(backend: Backend, buffers: readonly Buffer[]): () => void {
  const own = buffers.find((b) => b instanceof CpuBuffer);
  if (own === undefined || !(backend instanceof CpuBackend)) return () => undefined;
  return backend.pool.touch(own.address, own.address + own.size);
}
