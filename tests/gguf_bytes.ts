// Builds GGUF bytes field by field, wrong ones included: independent of the writer under test.
import { FormatError } from "../ts/errors.ts";
import type { Type } from "../ts/types.ts";

export class RawGguf {
  #bytes: number[] = [];

  u8(...values: number[]): this {
    this.#bytes.push(...values);
    return this;
  }

  u32(value: number): this {
    for (let i = 0; i < 4; i++) this.#bytes.push((value >>> (8 * i)) & 255);
    return this;
  }

  u64(value: bigint | number): this {
    for (let i = 0n; i < 8n; i++)
      this.#bytes.push(Number((BigInt.asUintN(64, BigInt(value)) >> (8n * i)) & 255n));
    return this;
  }

  /** Bytes of a text, without a length. */
  text(value: string): this {
    for (const byte of new TextEncoder().encode(value)) this.#bytes.push(byte);
    return this;
  }

  /** A length and a text. */
  str(value: string): this {
    return this.u64(new TextEncoder().encode(value).length).text(value);
  }

  /** Magic, version and counts. */
  start(nTensors: bigint | number, nKeys: bigint | number, version = 3): this {
    return this.text("GGUF").u32(version).u64(nTensors).u64(nKeys);
  }

  /** A key with a value of type u32. */
  keyU32(key: string, value: number): this {
    return this.str(key).u32(4).u32(value);
  }

  tensor(
    name: string,
    dims: readonly (bigint | number)[],
    type: Type | number,
    offset: bigint | number,
  ): this {
    this.str(name).u32(dims.length);
    for (const n of dims) this.u64(n);
    return this.u32(type).u64(offset);
  }

  /** Zeros up to a multiple of `alignment`. */
  pad(alignment = 32): this {
    while (this.#bytes.length % alignment !== 0) this.#bytes.push(0);
    return this;
  }

  zeros(n: number): this {
    for (let i = 0; i < n; i++) this.#bytes.push(0);
    return this;
  }

  get length(): number {
    return this.#bytes.length;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.#bytes);
  }
}

/** A file with one key. */
export function fileWithKeys(nKeys: number, build: (raw: RawGguf) => void): Uint8Array<ArrayBuffer> {
  const raw = new RawGguf().start(0, nKeys);
  build(raw);
  return raw.bytes();
}

/** A file of the given tensor infos and `nData` zeros of data. */
export function fileWithTensors(
  tensors: readonly (readonly [
    name: string,
    dims: readonly (bigint | number)[],
    type: number,
    offset: bigint | number,
  ])[],
  nData: number,
): Uint8Array<ArrayBuffer> {
  const raw = new RawGguf().start(tensors.length, 0);
  for (const tensor of tensors) raw.tensor(...tensor);
  return raw.pad().zeros(nData).bytes();
}

/** The error of a call that must refuse; fails the test when it does not. */
export function refusal(run: () => unknown): FormatError {
  try {
    run();
  } catch (error) {
    if (error instanceof FormatError) return error;
    throw error;
  }
  throw new Error("was accepted");
}
