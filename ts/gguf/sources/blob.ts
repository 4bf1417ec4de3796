// A Blob or File: sliced, so that never more than a piece of it is in memory.

import { DeviceError } from "../../errors.ts";
import { type ByteSource, type LoadOptions, type Part, abortable, loadPieces } from "../source.ts";

/** A source over a Blob or File. Costs one copy of a piece at a time. */
export class BlobSource implements ByteSource {
  readonly name: string;
  readonly #blob: Blob;

  constructor(blob: Blob) {
    this.#blob = blob;
    const { name } = blob as { readonly name?: unknown };
    this.name = typeof name === "string" && name !== "" ? name : "blob";
  }

  get size(): number {
    return this.#blob.size;
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const slice = this.#blob.slice(offset, Math.min(offset + length, this.size));
    try {
      return new Uint8Array(await abortable(slice.arrayBuffer(), signal));
    } catch (cause) {
      if (signal?.aborted === true) throw signal.reason;
      // A File is a promise of bytes: the file behind it may have been changed or removed.
      throw new DeviceError("io", `${this.name}: cannot read bytes ${offset} to ${offset + length}`, {
        offset,
        cause,
      });
    }
  }

  load(parts: readonly Part[], options: LoadOptions = {}): Promise<void> {
    return loadPieces(this.name, parts, options, async (offset, target, signal) => {
      const bytes = await this.read(offset, target.length, signal);
      target.set(bytes);
      return bytes.length;
    });
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
