// A file behind an address: one request, clear errors, no connection left behind.
import type { ServerResponse } from "node:http";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { DeviceError, type FormatError } from "../ts/errors.ts";
import { openGguf, openSource, writeGguf } from "../ts/gguf/index.ts";
import {
  type Answer,
  LARGE,
  MB,
  type TestServer,
  bytes,
  expectAll,
  failure,
  partsOf,
  plain,
  serveAll,
  startServer,
} from "./gguf_sample.ts";

let server: TestServer;
beforeAll(async () => void (server = await startServer()));
afterAll(() => server.close());

describe("an address", () => {
  const url = (): string => `${server.base}/models/model.gguf?token=secret`;

  it("is asked for once", async () => {
    let requests = 0;
    server.answer = (request, response) => {
      requests++;
      serveAll(request, response);
    };
    const opened = await openGguf(url());
    const { parts, places } = partsOf(opened, plain);
    await opened.source.load(parts);
    expectAll(places);
    expect(requests).toBe(1);
    const again = (await failure(opened.source.load(parts))) as DeviceError;
    expect(again.code).toBe("io");
  });

  it("works without a length", async () => {
    server.answer = (_, response) => {
      response.writeHead(200);
      response.end(bytes);
    };
    const opened = await openGguf(url());
    expect([opened.source.size, opened.file.fileSize]).toEqual([undefined, undefined]);
    const { parts, places } = partsOf(opened, plain);
    await opened.source.load(parts);
    expectAll(places);
  });

  it("works with a packed body, whose length says nothing", async () => {
    server.answer = (_, response) => {
      const packed = gzipSync(bytes, { level: 1 });
      response.writeHead(200, { "content-encoding": "gzip", "content-length": packed.length });
      response.end(packed);
    };
    const opened = await openGguf(url());
    expect(opened.source.size).toBeUndefined();
    const { parts, places } = partsOf(opened, plain);
    await opened.source.load(parts);
    expectAll(places);
  });

  it("works where the header comes in many small chunks", async () => {
    const strings = Array.from({ length: 3000 }, (_, i) => `key ${i}`);
    const header = writeGguf(
      strings.map((key) => [key, { type: 8, value: "x".repeat(100) }] as const),
      [],
    );
    server.answer = (_, response) => {
      response.writeHead(200);
      for (let at = 0; at < header.length; at += 5000) response.write(header.subarray(at, at + 5000));
      response.end();
    };
    const { file, source } = await openGguf(url());
    expect([file.metadata.size, source.size]).toEqual([3000, header.length]);
    await source.close();
  });

  it("is named with its status, without its query", async () => {
    server.answer = (_, response) => response.writeHead(404).end("not here");
    const error = (await failure(openGguf(url()))) as DeviceError;
    expect([error.code, error.details.actual]).toEqual(["io", 404]);
    expect(error.message).toContain(`${server.base}/models/model.gguf`);
    expect(error.message).toContain("404");
    expect(error.message).not.toContain("secret");
  });

  it("that answers with a web page is named as such", async () => {
    server.answer = (_, response) =>
      response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><p>Sign in");
    const error = (await failure(openGguf(url()))) as FormatError;
    expect(error.code).toBe("bad-magic");
    expect(error.message).toContain("HTML");
    expect(error.message).toContain(`${server.base}/models/model.gguf`);
  });

  it("that cannot be reached is named", async () => {
    const gone = await startServer();
    gone.close();
    const error = (await failure(openGguf(`${gone.base}/model.gguf`))) as DeviceError;
    expect([error instanceof DeviceError, error.code]).toEqual([true, "io"]);
    expect(error.message).toContain(`${gone.base}/model.gguf`);
  });

  const cuts: [string, (response: ServerResponse, end: number) => void][] = [
    ["ends early without a length", (response, end) => void response.writeHead(200).end(bytes.subarray(0, end))],
    ["breaks off", (response, end) => {
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, end), () => setTimeout(() => response.destroy(), 20));
    }],
  ]; // prettier-ignore

  it.each(cuts)("whose body %s is truncated, by tensor and bytes", async (_, cut) => {
    let end = bytes.length;
    server.answer = (_request, response) => cut(response, end);
    const { file, source } = await openGguf(bytes);
    await source.close();
    end = file.tensorByName.get("large")!.offset + 2 * MB;
    const opened = await openGguf(url());
    const error = (await failure(opened.source.load(partsOf(opened, plain).parts))) as FormatError;
    expect([error.code, error.details.tensor, error.details.expected]).toEqual(["truncated", "large", LARGE]);
    expect(error.details.actual).toBe(2 * MB);
  });

  it.each(cuts)("whose body %s inside the header is truncated", async (_, cut) => {
    server.answer = (_request, response) => cut(response, 30);
    expect(((await failure(openGguf(url()))) as FormatError).code).toBe("truncated");
  });

  it("heals by itself: cut off, then 404, then whole", async () => {
    server.answer = (_, response) => {
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, 5 * MB), () => setTimeout(() => response.destroy(), 20));
    };
    const broken = await openGguf(url());
    await failure(broken.source.load(partsOf(broken, plain).parts));
    server.answer = (_, response) => response.writeHead(404).end();
    await failure(openGguf(url()));
    server.answer = serveAll;
    const opened = await openGguf(url());
    const { parts, places } = partsOf(opened, plain);
    await opened.source.load(parts);
    expectAll(places);
  });

  it("gives up its connection when aborted, also while the server says nothing", async () => {
    server.aborted = 0;
    const reason = new Error("enough");
    const silent: Answer[] = [
      () => undefined,
      (_, response) => void response.writeHead(200, { "content-length": 1000 }).write("GGUF"),
    ];
    for (const answer of silent) {
      server.answer = answer;
      const controller = new AbortController();
      const opening = failure(openGguf(url(), { signal: controller.signal }));
      setTimeout(() => controller.abort(reason), 50);
      expect(await opening).toBe(reason);
    }
    await vi.waitFor(() => expect(server.aborted).toBe(2));
  });

  it("gives up its connection when closed before the load", async () => {
    server.aborted = 0;
    server.answer = (_, response) => {
      response.writeHead(200, { "content-length": bytes.length });
      response.write(bytes.subarray(0, MB));
    };
    const { source } = await openGguf(url());
    await source.close();
    await vi.waitFor(() => expect(server.aborted).toBe(1));
    expect(((await failure(source.read(0, 4))) as DeviceError).code).toBe("io");
  });

  it("reads a stream from its start only", async () => {
    server.answer = serveAll;
    const source = await openSource(url());
    expect(await source.read(0, 4)).toEqual(bytes.slice(0, 4));
    expect(await source.read(4, 8)).toEqual(bytes.slice(4, 12));
    expect(((await failure(source.read(2 ** 40, 4))) as DeviceError).code).toBe("io");
    await source.close();
  });
});
