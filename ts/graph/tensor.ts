// A tensor: a handle with type, shape and origin. Holds no data; knows where its data lies once it has been placed.

import { Flag, Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import type { Operand } from "../ops/op.ts";
import {
  contiguous,
  isContiguous,
  nbytes,
  nelements,
  type Shape,
  shape4,
  str,
  type Strides,
} from "../shape.ts";
import { type Type, typeInfo, typeName } from "../types.ts";
import { decodeElements, type Elements, encodeElements } from "./elements.ts";

/** Memory of a backend as a tensor sees it: bytes at an offset. */
export interface Memory {
  write(offset: number, bytes: Uint8Array): void;
  /** a copy of `nBytes` bytes */
  read(offset: number, nBytes: number): Promise<Uint8Array>;
  /** copies as many bytes as `target` has */
  readInto(offset: number, target: Uint8Array): Promise<void>;
}

/** Elements of a tensor as it is read. */
export type TensorData = Float32Array | Int32Array | BigInt64Array | Uint8Array;

/** Where the data of a tensor lies. */
export interface Placement {
  readonly memory: Memory;
  /** bytes from the start of `memory` */
  readonly offset: number;
}

/** What a tensor is made from. */
export interface TensorInit {
  readonly op: Op;
  readonly type: Type;
  readonly ne: Shape;
  readonly nb: Strides;
  readonly src?: readonly (Tensor | undefined)[];
  readonly params?: readonly number[];
  readonly viewSrc?: Tensor | undefined;
  readonly viewOffs?: number;
  readonly name?: string;
  readonly flags?: number;
}

/**
 * One tensor of a graph. `ne` are elements per dimension, innermost first (the reverse of NumPy's shape), `nb` the
 * bytes between neighbours.
 */
export class Tensor implements Operand {
  readonly op: Op;
  readonly type: Type;
  readonly ne: Shape;
  readonly nb: Strides;
  readonly src: readonly (Tensor | undefined)[];
  /** raw parameter slots, i32 or the bits of f32 */
  readonly params: readonly number[];
  /** root tensor whose memory this one looks into; never itself a view */
  readonly viewSrc: Tensor | undefined;
  /** bytes from the start of the root */
  readonly viewOffs: number;
  name: string;
  /** bits of {@link Flag} */
  flags: number;
  #placement: Placement | undefined;
  /** its bytes outlast a run: known when the place was given, so that marking it later changes nothing */
  #kept = false;

  constructor(init: TensorInit) {
    this.op = init.op;
    this.type = init.type;
    this.ne = init.ne;
    this.nb = init.nb;
    this.src = init.src ?? [];
    this.params = init.params ?? [];
    this.viewSrc = init.viewSrc;
    this.viewOffs = init.viewOffs ?? 0;
    this.name = init.name ?? "";
    this.flags = init.flags ?? 0;
  }

  /** Bytes from the first to past the last element. */
  get nBytes(): number {
    return nbytes(this.type, this.ne, this.nb);
  }

  /** True for tensors that no operator computes. */
  get isLeaf(): boolean {
    return this.op === Op.NONE;
  }

  /** Root of the memory: itself, unless it is a view. */
  get root(): Tensor {
    return this.viewSrc ?? this;
  }

  /** Marks the tensor as written before runs: it has its own memory from the start of the run. Returns itself. */
  asInput(name?: string): this {
    this.flags |= Flag.INPUT;
    return name === undefined ? this : this.named(name);
  }

  /** Marks the tensor as read after runs: its memory is kept to the end. Returns itself. */
  asOutput(name?: string): this {
    this.flags |= Flag.OUTPUT;
    this.root.flags |= Flag.OUTPUT;
    return name === undefined ? this : this.named(name);
  }

  /** Names the tensor, for dumps and errors. Returns itself. */
  named(name: string): this {
    this.name = name;
    return this;
  }

  /** Where the data lies; undefined before the graph is planned. A view lies inside its root. */
  get placement(): Placement | undefined {
    const at = this.root.#placement;
    if (at === undefined || this.viewSrc === undefined) return at;
    return { memory: at.memory, offset: at.offset + this.viewOffs };
  }

  /** Gives the tensor its memory, or takes it away. For backends and loaders. */
  place(placement: Placement | undefined): void {
    this.#kept = (this.flags & (Flag.OUTPUT | Flag.EXTERNAL)) !== 0;
    this.#placement = placement;
  }

  /**
   * Writes all elements, row-major with ne[0] innermost: numbers for F32, F16, BF16 (rounded to nearest even) and
   * I32, or for every type a Uint8Array of exactly the raw bytes.
   *
   * @throws {GraphError} not-planned, or bad-data when length or kind do not fit
   */
  write(data: Elements): void {
    const { memory, offset } = this.#placed("write");
    if (this.#inQuads)
      throw new GraphError("bad-data", `${this.label()}: lies in quads of rows, cannot write`);
    if (!isContiguous(this.type, this.ne, this.nb)) {
      throw new GraphError("bad-data", `${this.label()}: cannot write to a view with gaps`);
    }
    memory.write(offset, encodeElements(this.label(), this.type, nelements(this.ne), data));
  }

  /**
   * A copy of all elements, row-major with ne[0] innermost: F32, F16 and BF16 as Float32Array, I32 as Int32Array, I64
   * as BigInt64Array, other types as their raw bytes.
   *
   * @throws {GraphError} not-planned; not-readable for a result that is not marked as output, because its memory may
   *   have been used again
   */
  async read(): Promise<TensorData> {
    return decodeElements(this.type, await this.readBytes());
  }

  /** {@link read} in the middle of a run, before anybody else may have used the memory. */
  async readNow(): Promise<TensorData> {
    return decodeElements(this.type, await this.#bytes());
  }

  /** A copy of all elements as raw bytes in order, without gaps. Throws as {@link read} does. */
  async readBytes(): Promise<Uint8Array> {
    this.#placed("read");
    if (this.#inQuads) throw new GraphError("not-readable", `${this.label()}: lies in quads of rows`);
    if (!this.root.#kept) {
      throw new GraphError(
        "not-readable",
        `${this.label()}: not an output, its memory may hold something else by now; mark it with asOutput() before planning`,
      );
    }
    return this.#bytes();
  }

  async #bytes(): Promise<Uint8Array> {
    const { memory, offset } = this.#placed("read");
    const bytes = await memory.read(offset, this.nBytes);
    return isContiguous(this.type, this.ne, this.nb) ? bytes : gather(this, bytes);
  }

  /** Name and shape, for messages. */
  label(): string {
    return `${this.name === "" ? Op[this.op]!.toLowerCase() : this.name} ${typeName(this.type)} ${str(this.ne)}`;
  }

  get #inQuads(): boolean {
    return (this.root.flags & Flag.QUADS) !== 0;
  }

  #placed(what: string): Placement {
    const at = this.placement;
    if (at !== undefined) return at;
    throw new GraphError("not-planned", `${this.label()}: cannot ${what} before the graph is planned`);
  }
}

// Elements of a strided view, packed. `bytes` starts at the first element.
function gather(t: Tensor, bytes: Uint8Array): Uint8Array {
  const { blockSize, typeSize } = typeInfo(t.type)!;
  const [ne0, ne1, ne2, ne3] = t.ne;
  const n0 = ne0 / blockSize;
  const out = new Uint8Array(n0 * typeSize * ne1 * ne2 * ne3);
  let to = 0;
  for (let row = 0; row < ne1 * ne2 * ne3; row++) {
    const i1 = row % ne1;
    const i2 = Math.floor(row / ne1) % ne2;
    const i3 = Math.floor(row / (ne1 * ne2));
    let from = i1 * t.nb[1] + i2 * t.nb[2] + i3 * t.nb[3];
    for (let i0 = 0; i0 < n0; i0++, from += t.nb[0], to += typeSize) {
      out.set(bytes.subarray(from, from + typeSize), to);
    }
  }
  return out;
}

/**
 * A leaf tensor, contiguous.
 *
 * @throws {GraphError} bad-type, bad-shape, too-large
 */
export function leaf(name: string, type: Type, ne: readonly number[]): Tensor {
  const info = typeInfo(type);
  if (info === undefined) throw new GraphError("bad-type", `${name}: ${typeName(type)} is no element type`);
  if (ne.length > 4 || !ne.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new GraphError("bad-shape", `${name}: shape ${str(ne)}, expected up to 4 counts, innermost first`, {
      actual: ne,
    });
  }
  const shape = shape4(ne);
  if (shape[0] % info.blockSize !== 0) {
    throw new GraphError(
      "bad-shape",
      `${name}: ne[0] is ${shape[0]}, expected a multiple of ${info.blockSize}, the block of ${info.name}`,
    );
  }
  if (!Number.isSafeInteger(nelements(shape) * info.typeSize)) {
    throw new GraphError("too-large", `${name}: ${info.name} ${str(shape)} has more than 2^53 bytes`, {
      tensor: name,
    });
  }
  return new Tensor({ op: Op.NONE, type, ne: shape, nb: contiguous(type, shape), name });
}
