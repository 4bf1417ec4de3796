// Byte sources: each gives the same bytes, says what is wrong, obeys its signal and leaves nothing open.
import { execFileSync } from "node:child_process";
import {
  closeSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { DeviceError, type FormatError, GraphError } from "../ts/errors.ts";
import {
  type ByteSource,
  type Part,
  type SourceInput,
  openGguf,
  openSource,
  writeGguf,
} from "../ts/gguf/index.ts";
import { loadPieces } from "../ts/gguf/source.ts";
import { Type } from "../ts/types.ts";
import {
  LARGE,
  MB,
  TOTAL,
  type TestServer,
  bytes,
  data,
  expectAll,
  failure,
  partsOf,
  plain,
  same,
  shared,
  startServer,
} from "./gguf_sample.ts";

let folder: string;
let path: string;
let server: TestServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gguf-"));
  path = join(folder, "model:7b é.gguf");
  writeFileSync(path, bytes);
  server = await startServer();
});

afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

/** Descriptors this process has open on a file of the sample's size. */
function openFiles(): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      const stats = fstatSync(Number(fd));
      return stats.isFile() && stats.size === bytes.length;
    } catch {
      return false;
    }
  }).length;
}

/** Every kind of input, opened anew by each test. */
const inputs: [string, () => SourceInput][] = [
  ["a path", () => path],
  ["a file: URL", () => pathToFileURL(path)],
  ["a file: address", () => pathToFileURL(path).href],
  ["a Uint8Array", () => bytes],
  ["an ArrayBuffer", () => bytes.slice().buffer],
  ["a SharedArrayBuffer", () => {
    const copy = shared(bytes.length);
    copy.set(bytes);
    return copy.buffer;
  }],
  ["a Node Buffer inside a larger one", () => Buffer.concat([Buffer.alloc(7), bytes]).subarray(7)],
  ["a Blob", () => new Blob([bytes.slice(0, 100), bytes.slice(100)])],
  ["a file handle", () => ({ getFile: () => Promise.resolve(new File([bytes.slice()], "model.gguf")) })],
  ["an address", () => `${server.base}/model.gguf`],
  ["a URL", () => new URL(`${server.base}/model.gguf`)],
  ["a blob: address", () => URL.createObjectURL(new Blob([bytes.slice()]))],
]; // prettier-ignore

/** One of each kind of source, for what takes longer. */
const kinds = inputs.filter(([name]) =>
  ["a path", "a Uint8Array", "a SharedArrayBuffer", "a Blob", "an address"].includes(name),
);

describe("every source", () => {
  it.each(inputs)("gives header and tensors: %s", async (_, input) => {
    for (const make of [plain, shared]) {
      const opened = await openGguf(input());
      expect(opened.file.tensors.map((t) => t.name)).toEqual(["first", "large", "last"]);
      expect([opened.file.fileSize, opened.source.size]).toEqual([bytes.length, bytes.length]);
      const { parts, places } = partsOf(opened, make);
      await opened.source.load(parts);
      expectAll(places);
      await opened.source.close();
      await opened.source.close();
    }
  });

  it.each(kinds)(
    "says of each part when all its bytes are there, and stops when that fails: %s",
    async (_, input) => {
      const opened = await openGguf(input());
      const { parts, places } = partsOf(opened, plain);
      const seen: string[] = [];
      const whole = (name: string) => (): void => {
        seen.push(name);
        expectAll(new Map([...places].map(([n, place]) => [n, seen.includes(n) ? place : data.get(n)!])));
        if (name === "large") throw new RangeError("enough");
      };
      const telling = parts.map((part) => ({ ...part, whole: whole(part.name) }));
      expect(await failure(opened.source.load(telling))).toEqual(new RangeError("enough"));
      expect(seen).toEqual(["first", "large"]);
      await opened.source.close();
    },
  );

  it.each(kinds)(
    "fills one of two windows while the other is emptied, each part whole after all its pieces: %s",
    async (_, input) => {
      const opened = await openGguf(input());
      const { parts, places } = partsOf(opened, plain);
      const windows = [new Uint8Array(MB - 1), new Uint8Array(MB - 1)];
      let turn = 0;
      const seen: string[] = [];
      const staged = parts.map((part) => ({
        ...part,
        stage: (done: number, nBytes: number) => {
          const bytes = windows[(turn = 1 - turn)]!.subarray(0, nBytes);
          return { bytes, commit: () => () => places.get(part.name)!.set(bytes, done) };
        },
        whole: () => {
          seen.push(part.name);
          expect(same(places.get(part.name)!, data.get(part.name)!)).toBe(true);
        },
      }));
      await opened.source.load(staged);
      expect(seen).toEqual(["first", "large", "last"]);
      expectAll(places);
      await opened.source.close();
    },
  );

  it.each(kinds)(
    "goes through the file once, in its order, whatever the order of the parts: %s",
    async (_, input) => {
      const opened = await openGguf(input());
      const { parts, places } = partsOf(opened, plain);
      const order: string[] = [];
      const noting = parts.toReversed().map((part) => ({ ...part, into: () => {
      if (order.at(-1) !== part.name) order.push(part.name);
      return part.into();
    } })); // prettier-ignore
      const progress: [number, number][] = [];
      await opened.source.load(noting, { onProgress: (loaded, total) => progress.push([loaded, total]) });
      expectAll(places);
      expect(order).toEqual(["first", "large", "last"]);
      expect(progress.at(-1)).toEqual([TOTAL, TOTAL]);
      expect(progress.every(([loaded], i) => i === 0 || loaded > progress[i - 1]![0])).toBe(true);
      expect(progress.length).toBeGreaterThanOrEqual(3);
      await opened.source.close();
    },
  );

  it.each(kinds)("stops at an abort with its reason and writes nothing more: %s", async (_, input) => {
    const opened = await openGguf(input());
    const { parts, places } = partsOf(opened, plain);
    const controller = new AbortController();
    const reason = new Error("enough");
    const onProgress = (loaded: number): void => {
      if (loaded > MB / 64) controller.abort(reason);
    };
    const loading = opened.source.load(parts, { signal: controller.signal, onProgress });
    expect(await failure(loading)).toBe(reason);
    for (const place of places.values()) place.fill(7);
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (const place of places.values()) expect(same(place, plain(place.length).fill(7))).toBe(true);
    await opened.source.close();
  });

  it.each(inputs)("refuses at once when the signal is aborted already: %s", async (_, input) => {
    const reason = new Error("never");
    expect(await failure(openGguf(input(), { signal: AbortSignal.abort(reason) }))).toBe(reason);
  });

  it.each(kinds)("asks for its place again for every piece: %s", async (_, input) => {
    const { file, source } = await openGguf(input());
    const memory = new WebAssembly.Memory({ initial: 300, maximum: 400 });
    const { name, offset, nBytes } = file.tensorByName.get("large")!;
    const part: Part = { name, offset, nBytes, into: () => new Uint8Array(memory.buffer, 64, nBytes) };
    // Memory that grows between two pieces leaves every older view without memory.
    let grown = 0;
    await source.load([part], { onProgress: () => void (grown++ < 2 && memory.grow(1)) });
    expect(same(part.into(), bytes.subarray(offset, offset + nBytes))).toBe(true);
    await source.close();
  });

  it.each(kinds)("refuses a place of another length: %s", async (_, input) => {
    const { file, source } = await openGguf(input());
    const { name, offset, nBytes } = file.tensorByName.get("first")!;
    const error = await failure(source.load([{ name, offset, nBytes, into: () => new Uint8Array(33) }]));
    expect([error instanceof GraphError, (error as GraphError).code]).toEqual([true, "bad-data"]);
  });
});

describe("openSource", () => {
  it("refuses what cannot be opened", async () => {
    const wrong = [
      undefined,
      null,
      {},
      true,
      1.5,
      -1,
      "",
      "ftp://host/model.gguf",
      "http://",
      5n,
      "file://host/x",
      "file:///a%2Fb",
    ];
    for (const input of wrong) {
      const error = await failure(openSource(input as unknown as SourceInput));
      expect([String(input), (error as DeviceError).code]).toEqual([String(input), "no-source"]);
    }
  });

  it("says which handle does not give its file", async () => {
    const handle = { getFile: () => Promise.reject(new DOMException("gone", "NotFoundError")) };
    const error = await failure(openSource(handle as unknown as SourceInput));
    expect([error instanceof DeviceError, (error as DeviceError).code]).toEqual([true, "io"]);
  });

  it("refuses a misspelt option", async () => {
    const options = { sginal: undefined } as object;
    expect(await failure(openSource(bytes, options))).toBeInstanceOf(TypeError);
    expect(await failure(openGguf(bytes, options))).toBeInstanceOf(TypeError);
  });

  it("takes a source of one's own", async () => {
    const source: ByteSource = await openSource(bytes);
    expect(await openSource(source)).toBe(source);
  });

  it("writes nothing to the console", async () => {
    const spies = (["log", "warn", "error", "info"] as const).map((name) => vi.spyOn(console, name));
    for (const [, input] of inputs) await (await openGguf(input())).source.close();
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
    vi.restoreAllMocks();
  });
});

describe("a read beside work that fails", () => {
  it.each(["ends well", "fails"])(
    "is waited for, and the work's error is the load's: the read %s",
    async (how) => {
      const log: string[] = [];
      const part = (name: string, whole: () => void): Part => ({
        name,
        offset: 0,
        nBytes: 1,
        into: () => new Uint8Array(1),
        whole,
      });
      const parts = [
        part("first", () => {
          log.push("work");
          throw new RangeError("enough");
        }),
        part("second", () => log.push("never")),
      ];
      const read = async (): Promise<number> => {
        if (log.push("read") === 1) return 1;
        await new Promise((resolve) => setTimeout(resolve, 5));
        log.push("end of read");
        if (how === "fails") throw new Error("closed");
        return 1;
      };
      expect(await failure(loadPieces("here", parts, {}, read))).toEqual(new RangeError("enough"));
      expect(log).toEqual(["read", "read", "work", "end of read"]);
    },
  );
});

describe("a file", () => {
  it("is named when it is not there, is a folder, or has an impossible name", async () => {
    for (const wrong of [join(folder, "none.gguf"), folder, `${path}\0`, 2 ** 31 - 1]) {
      const error = (await failure(openGguf(wrong))) as DeviceError;
      expect([error instanceof DeviceError, error.code]).toEqual([true, "io"]);
      expect(error.message).toContain(String(wrong));
    }
  });

  it("is closed after use, after an abort, and when its header is bad", async () => {
    const before = openFiles();
    const opened = await openGguf(path);
    expect(openFiles()).toBe(before + 1);
    await opened.source.close();
    await failure(
      (await openGguf(path)).source.load(partsOf(opened, plain).parts, { signal: AbortSignal.abort() }),
    );
    const bad = join(folder, "bad.gguf");
    writeFileSync(bad, "x".repeat(bytes.length));
    expect(((await failure(openGguf(bad))) as FormatError).code).toBe("bad-magic");
    expect(openFiles()).toBe(before);
  });

  it("that a caller opened stays open, with its position where it was", async () => {
    const fd = openSync(path, "r");
    const opened = await openGguf(fd);
    const { parts, places } = partsOf(opened, plain);
    await opened.source.load(parts);
    await opened.source.close();
    expectAll(places);
    expect(fstatSync(fd).size).toBe(bytes.length);
    closeSync(fd);
  });

  it("that has shrunk since its header was read is truncated, by tensor and bytes", async () => {
    const shrinking = join(folder, "shrinking.gguf");
    writeFileSync(shrinking, bytes);
    const opened = await openGguf(shrinking);
    truncateSync(shrinking, opened.file.tensorByName.get("large")!.offset + 1000);
    const error = (await failure(opened.source.load(partsOf(opened, plain).parts))) as FormatError;
    expect([error.code, error.details.tensor]).toEqual(["truncated", "large"]);
    expect([error.details.expected, error.details.actual]).toEqual([LARGE, 1000]);
  });

  it("cannot be read once it is closed", async () => {
    const { source } = await openGguf(path);
    await source.close();
    expect(((await failure(source.read(0, 4))) as DeviceError).code).toBe("disposed");
  });

  it("that is no regular file is refused", async () => {
    const error = (await failure(openGguf("/dev/null"))) as DeviceError;
    expect([error.code, error.message]).toEqual(["io", "/dev/null is no regular file"]);
  });

  it("of 5 GiB is opened without reading it", async () => {
    const sparse = join(folder, "sparse.gguf");
    const tail = Uint8Array.from({ length: 32 }, (_, i) => i);
    const header = writeGguf([], [{ name: "tail", type: Type.F32, ne: [8], data: tail }]);
    writeFileSync(sparse, header);
    truncateSync(sparse, 5 * 2 ** 30);
    const before = process.memoryUsage().arrayBuffers;
    const { file, source } = await openGguf(sparse);
    expect(file.fileSize).toBe(5 * 2 ** 30);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 * MB);
    await source.close();
    rmSync(sparse);
  });
});

describe("a process", () => {
  it("ends by itself after a load that was aborted", () => {
    const script = `
      import { openGguf } from ${JSON.stringify(join(import.meta.dirname, "../build/gguf_exit.mjs"))};
      const { source, file } = await openGguf(${JSON.stringify(path)});
      const { name, offset, nBytes } = file.tensors[1];
      const place = new Uint8Array(nBytes);
      await source.load([{ name, offset, nBytes, into: () => place }], { signal: AbortSignal.abort() }).catch(() => {});
    `;
    execFileSync("npx", [
      "esbuild",
      "ts/gguf/index.ts",
      "--bundle",
      "--format=esm",
      "--outfile=build/gguf_exit.mjs",
      "--log-level=warning",
    ]);
    expect(() =>
      execFileSync(process.execPath, ["--input-type=module", "-e", script], { timeout: 20_000 }),
    ).not.toThrow();
  });
});
