// Ids outside their tables: a word in GPU memory that kernels leave a note in, read together with any result.
//
//   cell [number of the node, id]   zeros while all is well; the highest number stays
//
// Kernels that meet such an id write nothing outside, leave NaN or leave the row out, and note it. Nobody waits for the
// cell: a reading brings it along, and fails when something stands in it.

import { Op } from "../../assembly/abi.ts";
import { DeviceError } from "../errors.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { GpuDevice } from "./device.ts";

const USAGE = 0x8c; // GPUBufferUsage: STORAGE, COPY_DST, COPY_SRC
const CELL_SIZE = 256; // a binding of the least size there is
/** Bytes of the cell that say something. */
export const FAULT_BYTES = 8;

/** A node that reads ids. */
export interface FaultSite {
  readonly node: number;
  readonly tensor: Tensor;
  /** ids below it are good */
  readonly rows: number;
}

/** The same error as the CPU's (docs/decisions/0009). */
export function idError({ node, tensor, rows }: FaultSite, id: number): DeviceError {
  const op = Op[tensor.op]!.toLowerCase();
  const what = `node ${node} (${op}, ${tensor.label()}) trapped: id ${id} is out of range, expected 0 to ${rows - 1}`;
  return new DeviceError("trap", what, {
    node,
    op,
    tensor: tensor.name,
    actual: id,
    expected: `0 to ${rows - 1}`,
  });
}

/** The cell of one device and the nodes that may write to it. */
export class Faults {
  readonly #gpu: GpuDevice;
  readonly #sites = new Map<number, FaultSite>();
  #cell: GPUBuffer | undefined;
  #last = 0;

  constructor(gpu: GpuDevice) {
    this.#gpu = gpu;
  }

  /** Memory of the cell, made when the first kernel needs it. */
  get memory(): GPUBuffer {
    this.#cell ??= this.#gpu.createBuffer(CELL_SIZE, USAGE, "faults").buffer;
    return this.#cell;
  }

  /** A number for a node, from 1 up, until {@link remove}. */
  add(site: FaultSite): number {
    this.#sites.set(++this.#last, site);
    return this.#last;
  }

  remove(number: number): void {
    this.#sites.delete(number);
  }

  /** Copies the cell to `offset` of a buffer where there is one; false where there is none. */
  copyTo(encoder: GPUCommandEncoder, target: GPUBuffer, offset: number): boolean {
    if (this.#cell === undefined || this.#sites.size === 0) return false;
    encoder.copyBufferToBuffer(this.#cell, 0, target, offset, FAULT_BYTES);
    return true;
  }

  /**
   * Looks at a copy of the cell. What was found is told once.
   *
   * @throws {DeviceError} trap, with the node
   */
  check(copy: ArrayBuffer): void {
    const [number, id] = new Uint32Array(copy) as unknown as [number, number];
    if (number === 0) return;
    this.#gpu.device.queue.writeBuffer(this.memory, 0, new Uint32Array(FAULT_BYTES / 4));
    const site = this.#sites.get(number);
    if (site === undefined) throw new DeviceError("trap", `webgpu: id ${id | 0} is out of range`);
    throw idError(site, id | 0);
  }

  dispose(): void {
    if (this.#cell !== undefined) this.#gpu.destroyBuffer(this.#cell);
    this.#cell = undefined;
  }
}
