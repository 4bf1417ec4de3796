// A file by path or descriptor (Node, Deno, Bun): read straight into the place, shared memory included.

import { builtinModule } from "../../builtin.ts";
import { DeviceError } from "../../errors.ts";
import { PIECE_BYTES } from "../limits.ts";
import { type ByteSource, type LoadOptions, type Part, loadPieces } from "../source.ts";

type Callback<T> = (error: Error | null, result: T) => void;

interface Stats {
  readonly size: number;
  isFile(): boolean;
}

/** What is used of node:fs. Callbacks: the promise forms tie a descriptor to an object that closes it when collected. */
interface FileSystem {
  open(path: string, flags: string, done: Callback<number>): void;
  fstat(fd: number, done: Callback<Stats>): void;
  read(
    fd: number,
    into: Uint8Array,
    at: number,
    nBytes: number,
    position: number,
    done: Callback<number>,
  ): void;
  close(fd: number, done: (error: Error | null) => void): void;
}

/** The host's file system, where it has one. */
export function fileSystem(): FileSystem | undefined {
  return builtinModule<FileSystem>("node:fs");
}

/** A source over a file. Positions are explicit, so a descriptor may have other users. */
export class FileSource implements ByteSource {
  readonly name: string;
  readonly size: number;
  readonly #fs: FileSystem;
  /** undefined once closed */
  #fd: number | undefined;
  /** a descriptor of the caller's stays open */
  readonly #owned: boolean;

  private constructor(fs: FileSystem, name: string, size: number, fd: number, owned: boolean) {
    this.#fs = fs;
    this.name = name;
    this.size = size;
    this.#fd = fd;
    this.#owned = owned;
  }

  /**
   * Opens a path, or takes a descriptor that is open.
   *
   * @throws {DeviceError} io when there is no such file or it is no regular file; unsupported without a file system
   */
  static async open(path: string | number, signal?: AbortSignal): Promise<FileSource> {
    signal?.throwIfAborted();
    const fs = fileSystem();
    if (fs === undefined) throw new DeviceError("unsupported", `file ${path}: this host has no file system`);
    const owned = typeof path === "string";
    const name = owned ? path : `file descriptor ${path}`;
    const fd = owned ? await call<number>(name, "open", (done) => fs.open(path, "r", done)) : path;
    try {
      const stats = await call<Stats>(name, "open", (done) => fs.fstat(fd, done));
      if (!stats.isFile()) throw new DeviceError("io", `${name} is no regular file`);
      signal?.throwIfAborted();
      return new FileSource(fs, name, stats.size, fd, owned);
    } catch (error) {
      if (owned)
        await call(name, "close", (done: Callback<unknown>) => fs.close(fd, (e) => done(e, undefined)));
      throw error;
    }
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, this.size - offset)));
    let done = 0;
    // A read may come short of what is there.
    while (done < bytes.length) {
      signal?.throwIfAborted();
      const n = await this.#readInto(offset + done, bytes.subarray(done, done + PIECE_BYTES));
      if (n === 0) break;
      done += n;
    }
    signal?.throwIfAborted();
    return bytes.subarray(0, done);
  }

  async load(parts: readonly Part[], options: LoadOptions = {}): Promise<void> {
    try {
      await loadPieces(this.name, parts, options, (offset, target) => this.#readInto(offset, target));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd === undefined || !this.#owned) return;
    await call(this.name, "close", (done: Callback<unknown>) =>
      this.#fs.close(fd, (error) => done(error, undefined)),
    );
  }

  /** One read call, waited for in every case: after an abort nothing may still write into the place. */
  #readInto(offset: number, target: Uint8Array): Promise<number> {
    const fd = this.#fd;
    if (fd === undefined) throw new DeviceError("disposed", `${this.name} is closed`);
    return call(this.name, "read", (done: Callback<number>) => {
      this.#fs.read(fd, target, 0, target.length, offset, done);
    });
  }
}

/** A call of the file system as a promise; what it reports becomes an error that names the file. */
function call<T>(name: string, what: string, start: (done: Callback<T>) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const refuse = (error: unknown): void => reject(ioError(name, what, error as Error));
    try {
      start((error, result) => (error === null ? resolve(result) : refuse(error)));
    } catch (error) {
      // A path or descriptor that the host does not even try.
      refuse(error);
    }
  });
}

function ioError(name: string, what: string, cause: Error): DeviceError {
  const { code } = cause as { readonly code?: unknown };
  const reason = code === "ENOENT" ? "there is no such file" : cause.message;
  return new DeviceError("io", `cannot ${what} ${name}: ${reason}`, { cause });
}
