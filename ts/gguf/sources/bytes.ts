// A file that is in memory already.

import { type ByteSource, type LoadOptions, type Part, loadPieces } from "../source.ts";

/** Copied bytes after which timers and signals get their turn. */
const YIELD_BYTES = 2 ** 25;

/** A source over bytes in memory. It reads them in place and changes nothing. */
export class BytesSource implements ByteSource {
  readonly name = "bytes";
  readonly #bytes: Uint8Array;
  #copied = 0;

  constructor(bytes: Uint8Array) {
    // Without the subclass: Node's Buffer has a slice of its own kind.
    this.#bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get size(): number {
    return this.#bytes.length;
  }

  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    if (signal?.aborted === true) return Promise.reject(signal.reason);
    return Promise.resolve(this.#bytes.subarray(offset, offset + length));
  }

  load(parts: readonly Part[], options: LoadOptions = {}): Promise<void> {
    return loadPieces(this.name, parts, options, (offset, target) => this.#copy(offset, target));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #copy(offset: number, target: Uint8Array): Promise<number> {
    const bytes = this.#bytes.subarray(offset, offset + target.length);
    target.set(bytes);
    this.#copied += bytes.length;
    if (this.#copied >= YIELD_BYTES) {
      this.#copied = 0;
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    return bytes.length;
  }
}
