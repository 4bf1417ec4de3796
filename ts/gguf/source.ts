// Where a file's bytes come from: the interface of all sources, and what their loads have in common.

import { FormatError, GraphError } from "../errors.ts";
import { PIECE_BYTES } from "./limits.ts";

/** A range of the file and the place its bytes go to. */
export interface Part {
  /** the tensor's name, for messages */
  readonly name: string;
  /** first byte, from the start of the file */
  readonly offset: number;
  readonly nBytes: number;
  /**
   * The place: `nBytes` long, shared memory or not. Asked for again before every piece, so that a view is never kept
   * across a growth of the memory; between the call and the end of its piece the memory may not be given back.
   */
  into(): Uint8Array;
  /**
   * A place for bytes from `done` on instead, where they do not go to the tensor's memory as they are: `nBytes`, or fewer.
   * One piece at a time is asked for and sent off when it is full; `done` is a multiple of 4 where the pieces are whole.
   */
  readonly stage?: ((done: number, nBytes: number) => Piece | Promise<Piece>) | undefined;
  /** called once all bytes are in their place; what it throws ends the load */
  readonly whole?: Work | undefined;
}

/** A place for some bytes of a part. */
export interface Piece {
  readonly bytes: Uint8Array;
  /** @returns what is still to be done with them: before the piece after the next is asked for */
  commit(): Work | void;
}

/** Something to be done while the next bytes are read. What it throws ends the load. */
export type Work = () => void;

/** Options of {@link ByteSource.load}. */
export interface LoadOptions {
  readonly signal?: AbortSignal | undefined;
  /** bytes of the parts placed so far, and of all parts */
  readonly onProgress?: ((loaded: number, total: number) => void) | undefined;
}

/** A file, wherever it is. Header first ({@link read}), then tensors ({@link load}), then {@link close}. */
export interface ByteSource {
  /** path, address or kind, for messages */
  readonly name: string;
  /** bytes of the file; undefined while a stream has not told */
  readonly size: number | undefined;
  /**
   * The bytes of a range, fewer at the end of the file. They may be a view of the source's own memory: do not write
   * to them, copy what you keep. A stream reads from its start only, up to a header's length.
   */
  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array>;
  /**
   * Puts the bytes of every part in its place, in the file's order, each byte once. A stream can do that once. After a
   * failure or an abort the source is closed and no byte is written any more.
   *
   * @throws {FormatError} truncated, with the tensor and the bytes expected and found
   * @throws {DeviceError} io
   * @throws the reason of the signal
   */
  load(parts: readonly Part[], options?: LoadOptions): Promise<void>;
  /** Gives back what is open. May be called twice. */
  close(): Promise<void>;
}

/** Gives out the place of a part bit by bit. The place itself is asked for before every piece. */
export class Filling {
  readonly part: Part;
  /** bytes placed so far */
  done = 0;
  #piece: Piece | undefined;
  #filled = 0;

  constructor(part: Part) {
    this.part = part;
  }

  /** Where the next bytes go: at most `nBytes`, at least one. */
  next(nBytes: number): Uint8Array | Promise<Uint8Array> {
    const { stage } = this.part;
    if (stage === undefined) return placeOf(this.part, this.done, nBytes);
    if (this.#piece !== undefined) return this.#rest(this.#piece, nBytes);
    return this.#open(stage(this.done, Math.min(PIECE_BYTES, this.part.nBytes - this.done)), nBytes);
  }

  /**
   * `nBytes` of what {@link next} gave have been filled.
   *
   * @returns what is to be done with them: that of a full piece and, with the last bytes, {@link Part.whole}
   */
  placed(nBytes: number): Work | undefined {
    this.done += nBytes;
    this.#filled += nBytes;
    const commit = this.#filled === this.#piece?.bytes.length ? this.end() : undefined;
    const whole = this.done === this.part.nBytes ? this.part.whole : undefined;
    if (commit === undefined || whole === undefined) return commit ?? whole;
    return () => {
      commit();
      whole();
    };
  }

  /** Sends off a piece, full or not. */
  end(): Work | undefined {
    const piece = this.#piece;
    this.#piece = undefined;
    return piece?.commit() ?? undefined;
  }

  async #open(piece: Piece | Promise<Piece>, nBytes: number): Promise<Uint8Array> {
    this.#piece = await piece;
    this.#filled = 0;
    return this.#rest(this.#piece, nBytes);
  }

  #rest({ bytes }: Piece, nBytes: number): Uint8Array {
    return bytes.subarray(this.#filled, this.#filled + nBytes);
  }
}

/** The place of a part from byte `done` on. */
function placeOf(part: Part, done: number, nBytes: number): Uint8Array {
  const place = part.into();
  if (place.length !== part.nBytes) {
    const text = `tensor "${part.name}": the place has ${place.length} bytes, the tensor ${part.nBytes}`;
    throw new GraphError("bad-data", text, {
      tensor: part.name,
      expected: part.nBytes,
      actual: place.length,
    });
  }
  return place.subarray(done, Math.min(done + nBytes, part.nBytes));
}

/** The parts that have bytes, in the file's order. */
export function inOrder(parts: readonly Part[]): Part[] {
  return parts.filter((part) => part.nBytes > 0).sort((a, b) => a.offset - b.offset);
}

/** The error for a file that ends inside a tensor. */
export function cutShort(source: string, part: Part, found: number, cause?: unknown): FormatError {
  const text = `tensor "${part.name}": ${source} ends after ${found} of its ${part.nBytes} bytes`;
  const offset = part.offset + found;
  return new FormatError("truncated", text, {
    tensor: part.name,
    expected: part.nBytes,
    actual: found,
    offset,
    cause,
  });
}

/** Counts bytes for `onProgress`. */
export function progressOf(parts: readonly Part[], options: LoadOptions): (nBytes: number) => void {
  const total = parts.reduce((sum, part) => sum + part.nBytes, 0);
  let loaded = 0;
  return (nBytes) => options.onProgress?.((loaded += nBytes), total);
}

/**
 * The load of every source that can read anywhere, piece by piece. What is to be done with a piece is done while the next
 * one is read.
 *
 * @param readInto fills the target as far as it can and returns how far; 0 at the end of the file
 */
export async function loadPieces(
  name: string,
  parts: readonly Part[],
  options: LoadOptions,
  readInto: (offset: number, target: Uint8Array, signal: AbortSignal | undefined) => Promise<number>,
): Promise<void> {
  const progress = progressOf(parts, options);
  let work: Work | undefined;
  for (const part of inOrder(parts)) {
    const filling = new Filling(part);
    try {
      while (filling.done < part.nBytes) {
        options.signal?.throwIfAborted();
        const place = filling.next(PIECE_BYTES);
        const target = place instanceof Promise ? await place : place;
        const reading = readInto(part.offset + filling.done, target, options.signal);
        const nBytes = await beside(reading, work);
        work = undefined;
        if (nBytes === 0) throw cutShort(name, part, filling.done);
        work = filling.placed(nBytes);
        progress(nBytes);
      }
    } finally {
      filling.end();
    }
  }
  options.signal?.throwIfAborted();
  work?.();
}

// Waits for a read that is under way in every case, and does something meanwhile.
async function beside<T>(reading: Promise<T>, work: Work | undefined): Promise<T> {
  try {
    work?.();
  } catch (error) {
    await reading.catch(() => undefined);
    throw error;
  }
  return reading;
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as it is aborted. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
