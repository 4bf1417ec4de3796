// The backend interface: buffer type -> buffer -> planned tensors. Imports no implementation.
//
// A backend knows kernels and memory of one device. It does not know models, files or other backends; the planner
// places tensors for it, and nothing here assumes linear memory.

import type { Program } from "../graph/program.ts";
import type { Memory, Tensor } from "../graph/tensor.ts";

/** What a buffer is for; a report groups by it. */
export type BufferUse = "weights" | "kv" | "compute";

/** A kind of memory of a device. */
export interface BufferType {
  readonly name: string;
  /** bytes; offsets of tensors are multiples of it */
  readonly alignment: number;
  /** largest buffer, bytes */
  readonly maxSize: number;
  /** the CPU reads and writes it directly */
  readonly isHost: boolean;
  /**
   * @throws {DeviceError} out-of-memory, buffer-too-large
   */
  alloc(nBytes: number, use: BufferUse): Buffer;
}

/** Memory of a device. Reading is asynchronous everywhere. */
export interface Buffer extends Memory {
  readonly type: BufferType;
  /** bytes */
  readonly size: number;
  clear(): void;
  dispose(): void;
}

/** A program whose tensors have places. */
export interface Planned {
  readonly program: Program;
  /** bytes of the compute buffer this program needs */
  readonly nBytes: number;
  /** address of the node records in the arena */
  readonly records: number;
}

/** A program ready to run again and again without allocating. */
export interface Executable {
  /**
   * Runs all nodes once.
   *
   * @throws {DeviceError} trap, timeout; rejects with the signal's reason when aborted
   */
  run(signal?: AbortSignal): Promise<void>;
  dispose(): void;
}

/** A device that computes. Memory of its programs is planned by the engine, with the alignment of its buffer type. */
export interface Backend {
  readonly name: string;
  readonly bufferType: BufferType;
  /** true when a kernel exists for this operator with these types and shapes */
  supportsOp(tensor: Tensor, src: readonly (Tensor | undefined)[]): boolean;
  /** rewrites a program into the form the device's kernels want (casts, fusion) */
  lower(program: Program): Program;
  /** binds a planned program to its compute buffer; tensors have their placements by then */
  compile(planned: Planned, compute: Buffer): Executable;
  dispose(): void;
}
