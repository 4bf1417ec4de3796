// The wasm core without an engine: memory, a bump allocator and hand-written node records, for tests of kernels.
import { readFileSync } from "node:fs";
import {
  NODE_BYTES,
  NODE_DATA,
  NODE_FLAGS,
  NODE_NB,
  NODE_NE,
  NODE_OP,
  NODE_PARAMS,
  NODE_SCRATCH,
  NODE_SCRATCH_DATA,
  NODE_SRC,
  NODE_TYPE,
  Op,
} from "../assembly/abi.ts";
import type { Operand } from "../ts/ops/op.ts";
import { type Strides, contiguous, nbytes, nelements, rowBytes, shape4 } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";

const START = 1 << 20;
/** Scratch of a quantizer. */
const SEARCH_BYTES = 640;
/** Bytes on both sides of a node's scratch that no kernel may write, and what they hold. */
const GUARD_BYTES = 4096;
const GUARD = 0xa5;

interface Exports {
  run(records: number, first: number, last: number, nth: number): number;
  quantizeRow(type: number, px: number, py: number, n: number, pq: number, ps: number): number;
  dequantizeRow(type: number, px: number, py: number, n: number): number;
  quadScratch(rowBytes: number): number;
  toQuads(type: number, p: number, rowBytes: number, nRows: number, ps: number): number;
  fromQuads(type: number, p: number, rowBytes: number, nRows: number, ps: number): number;
  probeDot(): number;
}

/** A tensor in the core's memory: its record and its data. */
export interface Stored extends Operand {
  readonly record: number;
  readonly data: number;
}

/** What a node is made of. */
export interface NodeSpec {
  readonly op: Op;
  readonly src: readonly (Stored | undefined)[];
  readonly params?: readonly number[];
  readonly scratch?: number;
}

/** One instance with memory of its own. */
export class Core {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  readonly #view: DataView;
  readonly #exports: Exports;
  #top = START;

  private constructor(memory: WebAssembly.Memory, exports: Exports) {
    const buffer = memory.buffer as unknown as SharedArrayBuffer;
    this.bytes = new Uint8Array(buffer);
    this.#view = new DataView(buffer);
    this.#exports = exports;
  }

  /** @param build "simd", "relaxed" or "debug" */
  static async load(build = "simd", pages = 1024): Promise<Core> {
    const memory = new WebAssembly.Memory({ initial: pages, maximum: 65536, shared: true });
    const module = await WebAssembly.compile(
      readFileSync(new URL(`../build/${build}.wasm`, import.meta.url)),
    );
    const abort = (): never => {
      throw new Error("abort");
    };
    const { exports } = await WebAssembly.instantiate(module, { env: { memory, abort } });
    return new Core(memory, exports as unknown as Exports);
  }

  /** Lets products use what this engine's dot can do beyond the specification; 0 = nothing. */
  probeDot(): number {
    return this.#exports.probeDot();
  }

  /** Forgets everything allocated. */
  reset(): void {
    this.#top = START;
  }

  alloc(bytes: number): number {
    const p = this.#top;
    this.#top = Math.ceil((p + bytes) / 64) * 64;
    if (this.#top > this.bytes.length) throw new Error("test memory is full");
    return p;
  }

  /** Copies bytes in. */
  put(data: ArrayBufferView): number {
    const p = this.alloc(data.byteLength);
    this.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), p);
    return p;
  }

  /** `n` f32 from an address. */
  floats(p: number, n: number): Float32Array {
    return new Float32Array(this.bytes.slice(p, p + 4 * n).buffer);
  }

  /** f32 to a row of `type`; `importance` of each column, where given. */
  quantize(type: Type, x: Float32Array, importance?: Float32Array): Uint8Array {
    const size = nbytes(type, shape4([x.length]), contiguous(type, shape4([x.length])));
    const py = this.alloc(size);
    const pq = importance === undefined ? 0 : this.put(importance);
    if (!this.#exports.quantizeRow(type, this.put(x), py, x.length, pq, this.alloc(SEARCH_BYTES)))
      throw new Error(`quantizeRow(${Type[type]})`);
    return this.bytes.slice(py, py + size);
  }

  /** A row of `type` to f32. */
  dequantize(type: Type, row: Uint8Array, n: number): Float32Array {
    const py = this.alloc(4 * n);
    if (!this.#exports.dequantizeRow(type, this.put(row), py, n))
      throw new Error(`dequantizeRow(${Type[type]})`);
    return this.floats(py, n);
  }

  /** Rows at p to quads in place; false when they stay as they are. */
  toQuads(type: Type, p: number, rowBytes: number, nRows: number): boolean {
    const ps = this.alloc(this.#exports.quadScratch(rowBytes));
    return this.#exports.toQuads(type, p, rowBytes, nRows, ps) !== 0;
  }

  /** And back. */
  fromQuads(type: Type, p: number, rowBytes: number, nRows: number): boolean {
    const ps = this.alloc(this.#exports.quadScratch(rowBytes));
    return this.#exports.fromQuads(type, p, rowBytes, nRows, ps) !== 0;
  }

  /** Sets the flags of a record. */
  setFlags(t: Stored, flags: number): void {
    this.#view.setInt32(t.record + NODE_FLAGS, flags, true);
  }

  /** A leaf with its own data, or a view of data that is there already. */
  leaf(type: Type, dims: readonly number[], data?: ArrayBufferView | number, nb?: Strides): Stored {
    return this.#record({ op: Op.NONE, src: [] }, type, dims, data, nb);
  }

  /**
   * Runs one node on one thread and returns its record. What is not computed stays NaN; what is written beside the scratch is an
   * error.
   */
  compute(node: NodeSpec, type: Type, dims: readonly number[]): Stored {
    const r = this.#record(node, type, dims);
    this.bytes.fill(0xff, r.data, r.data + nbytes(type, r.ne, r.nb));
    const status = this.#exports.run(r.record, 0, 1, 1);
    if (status !== 0) throw new Error(`status ${status}`);
    if (node.scratch)
      this.#checkGuards(this.#view.getUint32(r.record + NODE_SCRATCH_DATA, true), node.scratch);
    return r;
  }

  /** All elements of a contiguous f32 record. */
  read(r: Stored): Float32Array {
    return this.floats(r.data, nelements(r.ne));
  }

  #checkGuards(scratch: number, size: number): void {
    for (const p of [scratch - GUARD_BYTES, scratch + size]) {
      const at = this.bytes.subarray(p, p + GUARD_BYTES).findIndex((byte) => byte !== GUARD);
      if (at >= 0)
        throw new Error(`a scratch of ${size} bytes was left: byte ${p + at - scratch} is written`);
    }
  }

  #record(
    node: NodeSpec,
    type: Type,
    dims: readonly number[],
    data?: ArrayBufferView | number,
    nb?: Strides,
  ): Stored {
    const ne = shape4(dims);
    const strides = nb ?? contiguous(type, ne);
    const p = this.alloc(NODE_BYTES);
    this.bytes.fill(0, p, p + NODE_BYTES);
    const at =
      typeof data === "number" ? data : data ? this.put(data) : this.alloc(nbytes(type, ne, strides));
    const set = (offset: number, value: number): void => this.#view.setInt32(p + offset, value, true);
    set(NODE_OP, node.op);
    set(NODE_TYPE, type);
    set(NODE_DATA, at);
    ne.forEach((n, i) => set(NODE_NE + 4 * i, n));
    strides.forEach((n, i) => set(NODE_NB + 4 * i, n));
    node.src.forEach((s, i) => set(NODE_SRC + 4 * i, s?.record ?? 0));
    node.params?.forEach((v, i) => set(NODE_PARAMS + 4 * i, v));
    if (node.scratch) {
      this.#view.setFloat64(p + NODE_SCRATCH, node.scratch, true);
      const guarded = this.alloc(node.scratch + 2 * GUARD_BYTES);
      const scratch = guarded + GUARD_BYTES;
      this.bytes.fill(GUARD, guarded, scratch + node.scratch + GUARD_BYTES);
      this.bytes.fill(0xff, scratch, scratch + node.scratch);
      set(NODE_SCRATCH_DATA, scratch);
    }
    return { type, ne, nb: strides, record: p, data: at };
  }
}

/** A stream of numbers between -1 and 1, the same for the same seed. */
export function stream(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** `n` numbers of a stream as f32. */
export function samples(n: number, next: () => number): Float32Array {
  return Float32Array.from({ length: n }, next);
}

/** Sum of squared differences over the sum of squares of y. */
export function nmse(x: ArrayLike<number>, y: ArrayLike<number>): number {
  let error = 0;
  let size = 0;
  for (let i = 0; i < y.length; i++) {
    error += (x[i]! - y[i]!) ** 2;
    size += y[i]! ** 2;
  }
  return size === 0 ? error : error / size;
}

/** Builds this engine can run: "relaxed" where relaxed SIMD is not behind a flag. */
export const BUILDS: readonly string[] = ["simd", "relaxed"].filter((name) =>
  WebAssembly.validate(readFileSync(new URL(`../build/${name}.wasm`, import.meta.url))),
);

// Where the f16 scales of super-blocks stand.
const SCALES: { readonly [type: number]: readonly number[] } = {
  [Type.Q2_K]: [80, 82],
  [Type.Q3_K]: [108],
  [Type.Q4_K]: [0, 2],
  [Type.Q5_K]: [0, 2],
  [Type.Q6_K]: [208],
  [Type.IQ4_XS]: [0],
};

/** Rows of weights: random numbers quantised, or random bits with sensible scales. */
export function weights(core: Core, type: Type, n: number, next: () => number): Uint8Array {
  if (SCALES[type] === undefined) return core.quantize(type, samples(n, next));
  const { typeSize } = typeInfo(type)!;
  const bytes = Uint8Array.from({ length: rowBytes(type, n) }, () => 128 * (next() + 1));
  for (let at = 0; at < bytes.length; at += typeSize) {
    for (const offset of SCALES[type])
      bytes.set(core.quantize(Type.F16, Float32Array.of(next() / 100)), at + offset);
  }
  return bytes;
}
