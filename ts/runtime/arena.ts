// Linear memory as an arena: regions with a kind, views that survive growth, and the account of all bytes.

import { Region, REGION_HIGHEST, REGION_UNIT } from "../../assembly/abi.ts";
import { DeviceError } from "../errors.ts";
import type { DeviceUse } from "./backend.ts";
import type { Exports, WasmMemory } from "./instance.ts";
import { PAGE } from "./options.ts";

/** Bytes of linear memory by use. `total` is the sum of the others and the size of the memory. */
export interface ArenaReport {
  /** static data and control block */
  readonly control: number;
  /** node records of planned graphs */
  readonly records: number;
  readonly weights: number;
  readonly kv: number;
  /** buffers of planned graphs */
  readonly compute: number;
  readonly scratch: number;
  readonly free: number;
  readonly total: number;
}

/** Bytes of linear memory by use, and of the devices beside it. */
export interface MemoryReport extends ArenaReport {
  /** those that the engine made and has not given back; empty when the CPU computes alone */
  readonly devices: readonly DeviceReport[];
}

/** Bytes of a device by use. `total` is the sum of the others. */
export interface DeviceReport extends DeviceUse {
  /** as in {@link Engine.backends} */
  readonly name: string;
  readonly total: number;
}

/** Linear memory and who owns which part of it. Addresses are bytes from its start. */
export class Arena {
  readonly memory: WasmMemory;
  /** bytes the memory can grow to */
  readonly maxBytes: number;
  readonly #core: Exports;
  #buffer: ArrayBufferLike | undefined;
  #u8!: Uint8Array;
  #i32!: Int32Array;
  #u32!: Uint32Array;
  #f32!: Float32Array;
  #f64!: Float64Array;

  constructor(memory: WasmMemory, maxBytes: number, core: Exports) {
    this.memory = memory;
    this.maxBytes = maxBytes;
    this.#core = core;
    core.regionInit();
  }

  /** The whole memory as bytes. Ask again after anything that may grow it. */
  get u8(): Uint8Array {
    this.#refresh();
    return this.#u8;
  }

  get i32(): Int32Array {
    this.#refresh();
    return this.#i32;
  }

  get u32(): Uint32Array {
    this.#refresh();
    return this.#u32;
  }

  get f32(): Float32Array {
    this.#refresh();
    return this.#f32;
  }

  get f64(): Float64Array {
    this.#refresh();
    return this.#f64;
  }

  /**
   * Takes a region of `nBytes`, growing memory once when no gap is large enough. Aligned to 64 bytes. Not cleared.
   *
   * @returns its address
   * @throws {DeviceError} out-of-memory with both sizes
   */
  alloc(nBytes: number, kind: Region): number {
    this.ensure(nBytes);
    const at = this.#core.regionAlloc(nBytes, kind);
    if (at >= 0) return at;
    throw new DeviceError("out-of-memory", `arena: no room for a region of ${nBytes} bytes`, {
      expected: nBytes,
      actual: this.report().free,
    });
  }

  /** End of all regions there ever were: memory from here on is zero. */
  get highest(): number {
    return this.u32[REGION_HIGHEST / 4]! * REGION_UNIT;
  }

  /** Bytes held by regions. */
  get usedBytes(): number {
    return this.memory.buffer.byteLength - this.#core.regionBytes(Region.FREE);
  }

  /** Bytes that a region of `nBytes` takes. */
  regionBytes(nBytes: number): number {
    return Math.max(1, Math.ceil(nBytes / REGION_UNIT)) * REGION_UNIT;
  }

  /**
   * Keeps `nBytes` for later, which nobody touches meanwhile: when they are given back, memory that was fresh still is.
   *
   * @returns what gives them back; may be called twice
   */
  hold(nBytes: number): () => void {
    if (nBytes <= 0) return () => undefined;
    const fresh = this.highest;
    const at = this.alloc(nBytes, Region.SCRATCH);
    const { highest } = this;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.free(at);
      // The region was the last one: nobody has been beyond what was the end before it.
      if (this.highest === highest) this.u32[REGION_HIGHEST / 4] = fresh / REGION_UNIT;
    };
  }

  /** Gives a region back. */
  free(address: number): void {
    this.#core.regionFree(address);
  }

  /**
   * Grows memory so that `nBytes` fit in one piece; does nothing when they do.
   *
   * @throws {DeviceError} out-of-memory with both sizes
   */
  ensure(nBytes: number): void {
    const shortfall = this.#core.regionShortfall(nBytes);
    if (shortfall <= 0) return;
    const total = this.memory.buffer.byteLength;
    try {
      if (total + shortfall > this.maxBytes) throw new RangeError("beyond the limit");
      this.memory.grow(Math.ceil(shortfall / PAGE));
    } catch (cause) {
      throw new DeviceError(
        "out-of-memory",
        `arena: ${nBytes} bytes do not fit: memory has ${total} bytes and cannot grow by ${shortfall}`,
        { expected: nBytes, actual: total, cause },
      );
    }
  }

  /** Bytes by use, exact. */
  report(): ArenaReport {
    const of = (kind: Region): number => this.#core.regionBytes(kind);
    return {
      control: of(Region.CONTROL),
      records: of(Region.RECORDS),
      weights: of(Region.WEIGHTS),
      kv: of(Region.KV),
      compute: of(Region.COMPUTE),
      scratch: of(Region.SCRATCH),
      free: of(Region.FREE),
      total: this.memory.buffer.byteLength,
    };
  }

  // Growth detaches the views of plain memory and leaves those of shared memory short.
  #refresh(): void {
    const { buffer } = this.memory;
    if (buffer === this.#buffer) return;
    this.#buffer = buffer;
    this.#u8 = new Uint8Array(buffer);
    this.#i32 = new Int32Array(buffer);
    this.#u32 = new Uint32Array(buffer);
    this.#f32 = new Float32Array(buffer);
    this.#f64 = new Float64Array(buffer);
  }
}
