// A file behind an address: one fetch, read once from its start to the last tensor.

import { DeviceError, FormatError } from "../../errors.ts";
import { MAX_HEADER_BYTES } from "../limits.ts";
import {
  type ByteSource,
  type LoadOptions,
  type Part,
  abortable,
  cutShort,
  Filling,
  inOrder,
  progressOf,
} from "../source.ts";

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * A source over the body of a response. What is read for the header is kept until the load, which starts with it and
 * goes on with the stream.
 */
export class UrlSource implements ByteSource {
  readonly name: string;
  #size: number | undefined;
  /** size the server announced; a body that ends earlier was cut */
  readonly #announced: number | undefined;
  #reader: Reader | undefined;
  /** bytes from the start of the body; the first #filled are valid */
  #head = new Uint8Array(0);
  #filled = 0;
  #spent = false;

  private constructor(name: string, size: number | undefined, reader: Reader) {
    this.name = name;
    this.#size = this.#announced = size;
    this.#reader = reader;
  }

  /**
   * @throws {DeviceError} io with address and status when the server says no or cannot be reached
   * @throws the reason of `signal`
   */
  static async open(url: URL, signal?: AbortSignal): Promise<UrlSource> {
    signal?.throwIfAborted();
    const name = nameOf(url);
    const response = await fetchBody(url, name, signal);
    if (!response.ok || response.body === null) {
      const status = `${response.status} ${response.statusText}`.trim();
      response.body?.cancel().catch(() => undefined);
      throw new DeviceError("io", `cannot fetch ${name}: status ${status}`, { actual: response.status });
    }
    return new UrlSource(name, lengthOf(response), response.body.getReader());
  }

  get size(): number | undefined {
    return this.#size;
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    signal?.throwIfAborted();
    if (this.#spent || offset + length > MAX_HEADER_BYTES) {
      throw new DeviceError("io", `${this.name}: a stream is read once, header first`, { offset });
    }
    const end = Math.min(offset + length, this.#size ?? Infinity);
    while (this.#filled < end) {
      const chunk = await this.#next(signal);
      if (chunk === undefined) break;
      this.#append(chunk);
    }
    return this.#head.subarray(offset, Math.min(end, this.#filled));
  }

  /** Begins with what the header read too much. */
  async load(parts: readonly Part[], options: LoadOptions = {}): Promise<void> {
    if (this.#spent) throw new DeviceError("io", `${this.name}: a stream is read once, all tensors together`);
    this.#spent = true;
    const sink = new Sink(parts, options);
    try {
      await sink.take(this.#head.subarray(0, this.#filled));
      this.#head = new Uint8Array(0);
      while (sink.part !== undefined) {
        options.signal?.throwIfAborted();
        const chunk = await this.#next(options.signal, sink);
        if (chunk === undefined) throw cutShort(this.name, sink.part, sink.found);
        await sink.take(chunk);
      }
      options.signal?.throwIfAborted();
    } finally {
      sink.end();
      await this.close();
    }
  }

  close(): Promise<void> {
    this.#spent = true;
    this.#head = new Uint8Array(0);
    const reader = this.#reader;
    this.#reader = undefined;
    // Ends the connection. Some hosts refuse it for a body that broke off, which is closed as it is.
    reader?.cancel().catch(() => undefined);
    return Promise.resolve();
  }

  /** The next chunk, undefined at the end of the body. A connection that breaks is a body cut short. */
  async #next(signal: AbortSignal | undefined, sink?: Sink): Promise<Uint8Array | undefined> {
    const reader = this.#reader;
    if (reader === undefined) throw new DeviceError("disposed", `${this.name} is closed`);
    let cause: unknown;
    try {
      const { value } = await abortable(reader.read(), signal);
      if (value !== undefined) return value;
    } catch (error) {
      await this.close();
      if (signal?.aborted === true) throw signal.reason;
      cause = error;
    }
    if (sink?.part !== undefined) throw cutShort(this.name, sink.part, sink.found, cause);
    if (cause !== undefined || this.#filled < (this.#announced ?? 0)) throw this.#cutInHeader(cause);
    this.#size = this.#filled;
    return undefined;
  }

  #cutInHeader(cause: unknown): FormatError {
    const [expected, actual] = [this.#announced, this.#filled];
    const text = `${this.name} ends after ${actual} of ${expected ?? "an unknown number of"} bytes, in the header`;
    return new FormatError("truncated", text, { expected, actual, offset: actual, cause });
  }

  #append(chunk: Uint8Array): void {
    const need = this.#filled + chunk.length;
    if (need > this.#head.length) {
      const grown = new Uint8Array(Math.max(need, 2 * this.#head.length));
      grown.set(this.#head.subarray(0, this.#filled));
      this.#head = grown;
    }
    this.#head.set(chunk, this.#filled);
    this.#filled = need;
  }
}

/** Deals the chunks of a stream out to the parts, and drops what lies between them. */
class Sink {
  readonly #parts: Part[];
  readonly #progress: (nBytes: number) => void;
  #next = 0;
  /** position in the file of the chunk to come */
  #position = 0;
  #filling: Filling | undefined;

  constructor(parts: readonly Part[], options: LoadOptions) {
    this.#parts = inOrder(parts);
    this.#progress = progressOf(parts, options);
    this.#open();
  }

  /** The part that waits for bytes; undefined when all are whole. */
  get part(): Part | undefined {
    return this.#filling?.part;
  }

  /** bytes of {@link part} placed so far */
  get found(): number {
    return this.#filling?.done ?? 0;
  }

  /**
   * Takes the next chunk:
   *
   *     #position        from              end
   *     | dropped        | to the part     |
   */
  async take(chunk: Uint8Array): Promise<void> {
    const end = this.#position + chunk.length;
    for (let f = this.#filling; f !== undefined && f.part.offset + f.done < end; f = this.#filling) {
      const from = f.part.offset + f.done - this.#position;
      const next = f.next(chunk.length - from);
      const place = next instanceof Promise ? await next : next;
      place.set(chunk.subarray(from, from + place.length));
      f.placed(place.length)?.();
      this.#progress(place.length);
      if (f.done === f.part.nBytes) this.#open();
    }
    this.#position = end;
  }

  /** Nothing follows. */
  end(): void {
    this.#filling?.end();
  }

  #open(): void {
    const part = this.#parts[this.#next++];
    this.#filling = part === undefined ? undefined : new Filling(part);
  }
}

/** The response, as soon as its head is there. From then on the body is given up by cancelling its reader. */
async function fetchBody(url: URL, name: string, signal: AbortSignal | undefined): Promise<Response> {
  const abort = new AbortController();
  // A blob: answers at once, and some hosts fall over when it is aborted after that.
  const init = url.protocol === "blob:" ? {} : { signal: abort.signal };
  try {
    return await abortable(fetch(url, init), signal);
  } catch (cause) {
    abort.abort();
    if (signal?.aborted === true) throw signal.reason;
    throw new DeviceError("io", `cannot fetch ${name}: ${reasonOf(cause)}`, { cause });
  }
}

/** The innermost message: fetch itself only says that it failed. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** Bytes of the body, where the header tells: with a content encoding it counts the packed ones. */
function lengthOf(response: Response): number | undefined {
  const encoding = response.headers.get("content-encoding") ?? "identity";
  const length = Number(response.headers.get("content-length") ?? NaN);
  return encoding === "identity" && Number.isSafeInteger(length) && length >= 0 ? length : undefined;
}

/** For messages: the address without what may be secret: user, password, query. */
function nameOf(url: URL): string {
  return url.protocol.startsWith("http") ? url.origin + url.pathname : url.href;
}
