// A file server on the loopback address whose first path segment chooses the headers, for pages under test.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";

/** Headers by mode; a page of mode `m` has the address `/m/page.html`. */
export const MODES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  plain: {},
  isolated: { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" },
  /** a policy that does not even allow wasm */
  closed: { "content-security-policy": "default-src 'self'" },
  /** the least policy that does, isolated; blob workers are blocked */
  strict: {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "content-security-policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'",
  },
};

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".json": "application/json",
};

/** A running server. */
export interface Server {
  /** `http://127.0.0.1:port` */
  readonly origin: string;
  close(): Promise<void>;
}

/** Serves `files` (path below the mode -> text, or path of a file on disk as a URL) in every mode, on a free port. */
export async function startServer(files: ReadonlyMap<string, string | URL>): Promise<Server> {
  const server = createServer((request, response) => {
    const [, mode = "", ...rest] = new URL(request.url ?? "/", "http://localhost").pathname.split("/");
    const path = rest.join("/");
    const file = files.get(path);
    const headers = MODES[mode];
    if (file === undefined || headers === undefined) {
      response.writeHead(mode === "favicon.ico" ? 204 : 404).end();
      return;
    }
    const send = (body: string | Uint8Array): void => {
      response.writeHead(200, {
        ...headers,
        "content-type": TYPES[extname(path)] ?? "application/octet-stream",
        "cache-control": "no-store",
      });
      response.end(body);
    };
    if (typeof file === "string") send(file);
    else readFile(file).then(send, (error: unknown) => response.destroy(error as Error));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
