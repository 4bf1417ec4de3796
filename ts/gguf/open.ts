// From whatever a caller has at hand to a source and its header.

import { builtinModule } from "../builtin.ts";
import { DeviceError, checkOptions } from "../errors.ts";
import { type GgufFile, readGguf } from "./reader.ts";
import type { ByteSource } from "./source.ts";
import { BlobSource } from "./sources/blob.ts";
import { BytesSource } from "./sources/bytes.ts";
import { FileSource, fileSystem } from "./sources/file.ts";
import { UrlSource } from "./sources/url.ts";

/** A FileSystemFileHandle, as far as it is used. */
export interface FileHandle {
  getFile(): Promise<Blob>;
}

/**
 * What can be opened: a path or a `http:`, `https:`, `file:` or `blob:` address, a descriptor, a Blob or File, a file
 * handle, bytes, or a source of one's own. In a browser a string is an address.
 */
export type SourceInput =
  string | URL | number | Blob | FileHandle | ArrayBufferLike | ArrayBufferView | ByteSource;

/** Options of {@link openSource} and {@link openGguf}. */
export interface OpenOptions {
  readonly signal?: AbortSignal | undefined;
}

/** An open file: its header, and the source its tensors come from. Close the source. */
export interface OpenGguf {
  readonly file: GgufFile;
  readonly source: ByteSource;
}

/**
 * Opens a source.
 *
 * @throws {DeviceError} no-source when the input is nothing that can be opened; io when it cannot be read
 * @throws {TypeError} for an unknown option
 * @throws the reason of `signal`
 */
export async function openSource(input: SourceInput, options: OpenOptions = {}): Promise<ByteSource> {
  checkOptions("openSource", options, ["signal"]);
  const { signal } = options;
  signal?.throwIfAborted();
  if (typeof input === "string") return openText(input, signal);
  if (typeof input === "number" && Number.isSafeInteger(input) && input >= 0)
    return FileSource.open(input, signal);
  if (input instanceof URL) return openUrl(input, signal);
  if (ArrayBuffer.isView(input))
    return new BytesSource(new Uint8Array(input.buffer, input.byteOffset, input.byteLength));
  if (isBuffer(input)) return new BytesSource(new Uint8Array(input));
  if (isObject(input) && "load" in input) return input as ByteSource;
  if (isObject(input) && "getFile" in input) return new BlobSource(await fileOf(input));
  if (isObject(input) && "slice" in input) return new BlobSource(input as Blob);
  throw noSource(input);
}

/**
 * Opens a GGUF file and reads its header; no tensor is read. On failure nothing stays open.
 *
 * @throws {FormatError} see readGguf
 * @throws see {@link openSource}
 */
export async function openGguf(input: SourceInput, options: OpenOptions = {}): Promise<OpenGguf> {
  checkOptions("openGguf", options, ["signal"]);
  const source = await openSource(input, options);
  try {
    return { file: await readGguf(source, options), source };
  } catch (error) {
    await source.close();
    throw error;
  }
}

function openText(text: string, signal: AbortSignal | undefined): Promise<ByteSource> {
  // "C:\models" and "model:7b.gguf" are paths.
  const isAddress = /^(https?|file|blob):|^[a-z][a-z0-9+.-]+:\/\//i.test(text);
  if (!isAddress && text !== "" && fileSystem() !== undefined) return FileSource.open(text, signal);
  const base = isAddress ? undefined : globalThis.location?.href;
  if (text === "" || !URL.canParse(text, base)) throw noSource(text);
  return openUrl(new URL(text, base), signal);
}

async function openUrl(url: URL, signal: AbortSignal | undefined): Promise<ByteSource> {
  if (url.protocol === "file:" && fileSystem() !== undefined) return FileSource.open(pathOf(url), signal);
  if (["http:", "https:", "blob:", "file:"].includes(url.protocol)) return UrlSource.open(url, signal);
  throw new DeviceError(
    "no-source",
    `${url.protocol} addresses cannot be opened; http:, https:, file: and blob: can`,
  );
}

function pathOf(url: URL): string {
  try {
    return builtinModule<{ fileURLToPath(url: URL): string }>("node:url")!.fileURLToPath(url);
  } catch (cause) {
    throw new DeviceError("no-source", `${url.href} names no file of this machine`, { cause });
  }
}

async function fileOf(handle: FileHandle): Promise<Blob> {
  try {
    return await handle.getFile();
  } catch (cause) {
    throw new DeviceError("io", "the file of this handle cannot be opened", { cause });
  }
}

function isObject(input: unknown): input is object {
  return typeof input === "object" && input !== null;
}

function isBuffer(input: unknown): input is ArrayBufferLike {
  if (input instanceof ArrayBuffer) return true;
  return typeof SharedArrayBuffer !== "undefined" && input instanceof SharedArrayBuffer;
}

function noSource(input: unknown): DeviceError {
  const value = typeof input === "string" ? JSON.stringify(input) : String(input);
  const what = isObject(input) ? `an object ${Object.prototype.toString.call(input)}` : value;
  const text = `expected a path, an address, a Blob, a file handle, a descriptor or bytes, got ${what}`;
  return new DeviceError("no-source", text, { actual: typeof input });
}
