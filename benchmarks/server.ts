// A file server on the loopback address with the headers that let a page share memory.
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".wasm": "application/wasm",
};
const HEADERS = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-embedder-policy": "require-corp",
  "cross-origin-resource-policy": "cross-origin",
  "cache-control": "no-store",
};

/** Serves folders by the first segment of the path; `/` is an empty page that loads `script`. */
export async function serve(
  folders: Readonly<Record<string, string>>,
  script: string,
): Promise<{ readonly origin: string; close(): void }> {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname);
    if (path === "/") {
      response.writeHead(200, { ...HEADERS, "content-type": "text/html" });
      response.end(`<!doctype html><title>bench</title><script type="module" src="${script}"></script>`);
      return;
    }
    const [, first = "", ...rest] = path.split("/");
    const file = join(folders[first] ?? "/nowhere", normalize(`/${rest.join("/")}`));
    const size = statSync(file, { throwIfNoEntry: false })?.size;
    if (size === undefined) return void response.writeHead(404).end();
    const [, from, to] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? "") ?? [];
    const start = Number(from ?? 0);
    const end = to === undefined || to === "" ? size - 1 : Number(to);
    response.writeHead(from === undefined ? 200 : 206, {
      ...HEADERS,
      "content-type": TYPES[extname(file)] ?? "application/octet-stream",
      "content-length": end - start + 1,
      "accept-ranges": "bytes",
      ...(from === undefined ? {} : { "content-range": `bytes ${start}-${end}/${size}` }),
    });
    if (request.method === "HEAD") response.end();
    else createReadStream(file, { start, end, highWaterMark: 1 << 20 }).pipe(response);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => void server.close(),
  };
}
