// A GGUF file of 17 MB with a server for it, and what the tests of sources have in common.
import { type IncomingMessage, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";
import { type OpenGguf, type Part, writeGguf } from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";

export const MB = 2 ** 20;

/** Bytes of the large tensor. */
export const LARGE = 17 * MB;

const first = Uint8Array.from({ length: 34 }, (_, i) => i + 1);
const last = Uint8Array.from({ length: 12 }, (_, i) => 255 - i);
const large = new Uint8Array(LARGE);
for (let i = 0; i < LARGE; i++) large[i] = (i * 31) >> 5;

export const data: ReadonlyMap<string, Uint8Array> = new Map([["first", first], ["large", large], ["last", last]]); // prettier-ignore

/** Bytes of the three tensors. */
export const TOTAL = first.length + large.length + last.length;

/** The file: 17 MB of f32 between two small tensors, that is three pieces of a file and many chunks of a stream. */
export const bytes = writeGguf([], [
  { name: "first", type: Type.Q8_0, ne: [32], data: first },
  { name: "large", type: Type.F32, ne: [MB / 4, 17], data: large },
  { name: "last", type: Type.F32, ne: [3], data: last },
]); // prettier-ignore

/** Parts for all tensors, into memory made by `make`. */
export function partsOf(
  { file }: OpenGguf,
  make: (nBytes: number) => Uint8Array,
): { parts: Part[]; places: Map<string, Uint8Array> } {
  const places = new Map(file.tensors.map((t) => [t.name, make(t.nBytes)]));
  const parts = file.tensors.map(({ name, offset, nBytes }) => ({
    name,
    offset,
    nBytes,
    into: () => places.get(name)!,
  }));
  return { parts, places };
}

/** Memory of one's own. */
export function plain(nBytes: number): Uint8Array {
  return new Uint8Array(nBytes);
}

/** Shared memory. */
export function shared(nBytes: number): Uint8Array<SharedArrayBuffer> {
  return new Uint8Array(new SharedArrayBuffer(nBytes));
}

/** True when two byte ranges hold the same. */
export function same(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(Buffer.from(a.buffer, a.byteOffset, a.length), b) === 0;
}

/** Every place holds its tensor. */
export function expectAll(places: ReadonlyMap<string, Uint8Array>): void {
  for (const [name, expected] of data) expect(same(places.get(name)!, expected), name).toBe(true);
}

/** What a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("did not fail");
}

/** What the server does with a request. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** The whole file, with its length. */
export const serveAll: Answer = (_, response) => {
  response.writeHead(200, { "content-length": bytes.length });
  response.end(bytes);
};

/** A server on this machine. */
export interface TestServer {
  readonly base: string;
  answer: Answer;
  /** responses that were given up before they were whole */
  aborted: number;
  close(): void;
}

export async function startServer(): Promise<TestServer> {
  const server = createServer((request, response) => {
    response.on("close", () => void (self.aborted += response.writableFinished ? 0 : 1));
    self.answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const self: TestServer = {
    base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    answer: serveAll,
    aborted: 0,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return self;
}
