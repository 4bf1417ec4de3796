// The backend interface in three tiers: buffer type -> buffer -> planned tensors. Imports no implementation.
//
// A backend knows kernels and memory of one device. It does not know models, files or other backends; the planner
// places tensors for it, and nothing here assumes linear memory. A device works through a queue: whatever is asked of a
// buffer or an executable happens after all that was asked before, and only reading waits for it.

import type { DeviceError } from "../errors.ts";
import type { Fusions } from "../graph/fusion.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Memory, Tensor } from "../graph/tensor.ts";

/** What a buffer is for; a report groups by it. */
export type BufferUse = "weights" | "kv" | "compute";

/** Bytes that a device holds. */
export interface DeviceUse extends Readonly<Record<BufferUse, number>> {
  /** on the way to it and from it; kept to be used again, so there until the engine is disposed */
  readonly staging: number;
}

/** A kind of memory of a device. */
export interface BufferType {
  readonly name: string;
  /** bytes; offsets of tensors are multiples of it */
  readonly alignment: number;
  /** largest buffer, bytes; what is planned beyond it lies in several, each tensor wholly in one */
  readonly maxSize: number;
  /** the CPU reads and writes it directly: its buffers have {@link Buffer.view} */
  readonly isHost: boolean;
  /**
   * Takes memory. A device that learns later that it has none says so by {@link Buffer.ready}.
   *
   * @throws {DeviceError} out-of-memory, buffer-too-large
   */
  alloc(nBytes: number, use: BufferUse): Buffer;
}

/** A place for bytes on their way into a buffer. */
export interface Staging {
  /** to be filled; never shared memory unless the buffer itself is */
  readonly bytes: Uint8Array;
  /** Sends the bytes off. `bytes` may not be used any more. */
  commit(): void;
}

/**
 * Memory of a device. Reading is asynchronous everywhere.
 *
 * Devices that copy whole words take offsets that are multiples of 4 and round lengths up: the bytes up to the alignment
 * of the buffer type after a tensor belong to nobody.
 */
export interface Buffer extends Memory {
  readonly type: BufferType;
  /** bytes */
  readonly size: number;
  /** resolves when the memory is there; rejects with out-of-memory. Never reported as unhandled */
  readonly ready: Promise<void>;
  /**
   * A place to put `nBytes` into before they go to `offset`: how files get into a device without passing through linear
   * memory. Of a host buffer it is the memory itself. Wait for one before asking for the next.
   */
  stage(offset: number, nBytes: number): Staging | Promise<Staging>;
  /** The bytes themselves, of host buffers only. Ask again after anything that may grow memory. */
  view?(offset: number, nBytes: number): Uint8Array;
  /** sets all bytes to zero */
  clear(): void;
  dispose(): void;
}

/** A part of a program (a split) that one backend runs, whose tensors have places: see {@link Tensor.placement}. */
export interface Planned {
  /** `leafs` are all tensors that come from elsewhere: weights, inputs, results and copies of other splits */
  readonly program: Program;
  /** address of the node records in the arena */
  readonly records: number;
  /** index of the record of the first node; the others follow */
  readonly firstRecord: number;
  /** place of the scratch of node `i` in one of the compute buffers; undefined when it has none */
  scratch(i: number): { readonly chunk: number; readonly offset: number } | undefined;
}

/** A program ready to run again and again without allocating. */
export interface Executable {
  /**
   * Runs nodes [first, last) once, all by default. Resolves when they are done or in the device's queue.
   *
   * @throws {DeviceError} trap, timeout, device-lost; rejects with the signal's reason when aborted
   */
  run(signal?: AbortSignal, first?: number, last?: number): Promise<void>;
  dispose(): void;
}

/** What the scheduler reckons with. Coarse; `auto` replaces them by what it measures. */
export interface Costs {
  /** how many times faster than the CPU of this engine */
  readonly speed: number;
  /** time until the host has a result that it waits for, ms; 0 for the CPU */
  readonly roundTripMs: number;
}

/** A device that computes. Memory of its programs is planned by the engine, with the alignment of its buffer type. */
export interface Backend {
  /** unique in an engine */
  readonly name: string;
  readonly bufferType: BufferType;
  costs: Costs;
  /** why the device is gone; from then on every call that needs it throws this, and its memory is lost */
  readonly lost: DeviceError | undefined;
  /**
   * True when a kernel exists for this operator with these types and shapes. Asked before {@link lower}. Operators up to
   * Op.TRANSPOSE compute nothing and are not asked for.
   */
  supportsOp(tensor: Tensor, src: readonly (Tensor | undefined)[]): boolean;
  /**
   * Rewrites a split into the form the device's kernels want (casts, fusion). What others read must still be computed.
   *
   * @param kept tensors that other splits or the user read, besides outputs (Flag.OUTPUT) and what is written through
   *   views
   */
  lower(program: Program, kept: ReadonlySet<Tensor>): Program;
  /** May the result of this node, whose operator allows it, lie where a source lay that nobody else reads? */
  inPlace(node: ProgramNode): boolean;
  /** bytes of scratch that a node needs while it runs */
  scratch(node: ProgramNode): number;
  /**
   * Makes ready what programs like this one need (pipelines, tests of kernels) before they are planned; afterwards
   * supportsOp knows which kernels failed. Loaders call it; what was not prepared is made ready by the first run.
   */
  prepare?(program: Program, signal?: AbortSignal): Promise<void>;
  /** what it holds now; absent where linear memory is all there is */
  held?(): DeviceUse;
  /** kernels that failed their test, and why */
  refused?(): ReadonlyMap<string, string>;
  /** binds a planned split to its compute buffers, one at least; tensors have their placements by then */
  compile(planned: Planned, compute: readonly Buffer[]): Executable;
  dispose(): void;
}

/** Keeps short texts between processes; what it throws is as if nothing were kept. */
export interface VerdictStore {
  /** the text last set for a key; anything else where there is none */
  get(key: string): unknown;
  set(key: string, text: string): unknown;
}

/** How a device is opened. */
export interface DeviceOptions {
  /** a GPUDevice of the caller's, to be used as it is and not destroyed */
  readonly device?: object | undefined;
  /** fusions that {@link Backend.lower} may use; default all */
  readonly fusions?: Fusions | undefined;
  /** see `EngineOptions.verdicts` */
  readonly verdicts?: VerdictStore | string | false | undefined;
}

/** A device that was found. */
export interface OpenedDevice {
  readonly backend: Backend;
  /** vendor and name, for people */
  readonly description: string;
  /** computes on the CPU: of use for tests only */
  readonly software: boolean;
}

/**
 * Opens a device; ts/webgpu/index.ts exports one as `openWebGpu`, which the engine imports on demand.
 *
 * @throws {DeviceError} unsupported, with the reason: nothing there, no adapter, an adapter without a device
 */
export type OpenDevice = (options: DeviceOptions) => Promise<OpenedDevice>;
