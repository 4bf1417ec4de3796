// Memory of leafs that no plan moves: weights, caches. One buffer per backend, or several where its largest is too small.

import { Flag } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { Tensor } from "../graph/tensor.ts";
import { alignUp } from "../shape.ts";
import type { Backend, Buffer, BufferType, BufferUse } from "./backend.ts";

/** Buffers of some leafs, given back together. */
export class Allocation {
  readonly buffers: readonly Buffer[];
  readonly #tensors: readonly Tensor[];
  readonly #onDispose: () => void;
  #lost = false;

  constructor(buffers: readonly Buffer[], tensors: readonly Tensor[], onDispose: () => void) {
    this.buffers = buffers;
    this.#tensors = tensors;
    this.#onDispose = onDispose;
  }

  /** Part of it was on a device that is gone: those tensors have no place any more. */
  get lost(): boolean {
    return this.#lost;
  }

  /** bytes */
  get size(): number {
    return this.buffers.reduce((sum, b) => sum + b.size, 0);
  }

  /** Resolves when all of the memory is there. @throws {DeviceError} out-of-memory, by rejecting */
  async ready(): Promise<void> {
    await Promise.all(this.buffers.map((b) => b.ready));
  }

  /** Sets all bytes to zero. */
  clear(): void {
    for (const b of this.buffers) b.clear();
  }

  /** Gives the memory back; the tensors have no place any more. */
  dispose(): void {
    for (const t of this.#tensors) if (this.#holds(t)) t.place(undefined);
    for (const b of this.buffers) b.dispose();
    this.#onDispose();
  }

  /** The device with this kind of memory is gone. */
  lose(type: BufferType): void {
    if (!this.buffers.some((b) => b.type === type)) return;
    this.#lost = true;
    for (const t of this.#tensors)
      if ((t.placement?.memory as Buffer | undefined)?.type === type) t.place(undefined);
  }

  // Tensors may have got other memory since.
  #holds(t: Tensor): boolean {
    return this.buffers.includes(t.placement?.memory as Buffer);
  }
}

// A buffer to be.
interface Chunk {
  readonly backend: Backend;
  size: number;
  readonly places: { readonly tensor: Tensor; readonly offset: number }[];
}

/** Lays tensors out in buffers of at most the largest size of each backend, in the order given. */
function layOut(tensors: readonly Tensor[], backendOf: (t: Tensor) => Backend): Chunk[] {
  const chunks: Chunk[] = [];
  const open = new Map<Backend, Chunk>();
  for (const tensor of tensors) {
    const backend = backendOf(tensor);
    const { alignment, maxSize } = backend.bufferType;
    if (tensor.nBytes > maxSize) {
      throw new GraphError(
        "too-large",
        `${tensor.label()}: ${tensor.nBytes} bytes; ${backend.name} takes ${maxSize}`,
        {
          tensor: tensor.name,
          expected: maxSize,
          actual: tensor.nBytes,
        },
      );
    }
    let chunk = open.get(backend);
    if (chunk === undefined || chunk.size + tensor.nBytes > maxSize) {
      chunk = { backend, size: 0, places: [] };
      chunks.push(chunk);
      open.set(backend, chunk);
    }
    chunk.places.push({ tensor, offset: chunk.size });
    chunk.size = alignUp(chunk.size + tensor.nBytes, alignment);
  }
  return chunks;
}

/** Bytes per backend that {@link allocate} would take. */
export function measureLeafs(
  tensors: readonly Tensor[],
  backendOf: (t: Tensor) => Backend,
): ReadonlyMap<Backend, number> {
  const bytes = new Map<Backend, number>();
  for (const { backend, size } of layOut(tensors, backendOf)) {
    bytes.set(backend, (bytes.get(backend) ?? 0) + size);
  }
  return bytes;
}

/**
 * Gives leafs their memory. Nothing is taken when it fails.
 *
 * @param alloc takes a buffer of a backend
 * @param onDispose is called when the memory has been given back
 * @throws {GraphError} too-large
 * @throws what `alloc` throws
 */
export function allocate(
  tensors: readonly Tensor[],
  backendOf: (t: Tensor) => Backend,
  alloc: (backend: Backend, size: number) => Buffer,
  onDispose: () => void,
): Allocation {
  const chunks = layOut(tensors, backendOf);
  const buffers: Buffer[] = [];
  try {
    for (const { backend, size } of chunks) {
      // The last tensor may end below the largest size and its padding above.
      buffers.push(alloc(backend, Math.min(size, backend.bufferType.maxSize)));
    }
  } catch (error) {
    for (const b of buffers) b.dispose();
    throw error;
  }
  chunks.forEach(({ places }, i) => {
    for (const { tensor, offset } of places) {
      tensor.flags |= Flag.EXTERNAL;
      tensor.place({ memory: buffers[i]!, offset });
    }
  });
  return new Allocation(buffers, tensors, onDispose);
}

/** A buffer of a backend. @throws {DeviceError} buffer-too-large, out-of-memory */
export function allocBuffer({ bufferType }: Backend, size: number, use: BufferUse): Buffer {
  if (size <= bufferType.maxSize) return bufferType.alloc(size, use);
  throw new DeviceError(
    "buffer-too-large",
    `${bufferType.name}: a buffer of ${size} bytes; the largest is ${bufferType.maxSize}`,
    { expected: bufferType.maxSize, actual: size },
  );
}

/** Bytes of one device. */
export interface DeviceBytes {
  readonly name: string;
  readonly bytes: number;
}

/**
 * Takes memory of devices, in as many buffers as it takes, and gives it back at once, to know that it can be had.
 *
 * @throws {DeviceError} out-of-memory
 */
export async function probe(devices: readonly Backend[], parts: readonly DeviceBytes[]): Promise<void> {
  const taken: Buffer[] = [];
  try {
    for (const { name, bytes } of parts) {
      const backend = devices.find((b) => b.name === name)!;
      const { maxSize } = backend.bufferType;
      for (let left = bytes; left > 0; left -= maxSize)
        taken.push(allocBuffer(backend, Math.min(left, maxSize), "compute"));
    }
    await Promise.all(taken.map((b) => b.ready));
  } finally {
    for (const b of taken) b.dispose();
  }
}
