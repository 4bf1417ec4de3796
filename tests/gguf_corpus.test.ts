// The reader against files of others: the shared corpora and real vocabularies.
import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { FormatError } from "../ts/errors.ts";
import { type GgufFile, type StringArray, ggufHeader, parseGguf } from "../ts/gguf/index.ts";
import { judgeAccept, judgeError, judgeFile } from "./corpus/judge.ts";
import { type Entry, nameOf, readManifest } from "./corpus/manifest.ts";
import { dataDir, describeWith, readData, readJson } from "./data.ts";
import { refusal } from "./gguf_bytes.ts";

describeWith("corpus", "gguf container corpus", () => {
  const entries = readManifest("container").filter((entry) => entry.file !== null);
  const bytesOf = (entry: Entry): Uint8Array => readData("corpus", entry.file!);

  it.each(entries.map((entry) => [nameOf(entry), entry] as const))("%s", async (_, entry) => {
    const bytes = bytesOf(entry);
    let file: GgufFile;
    try {
      file = parseGguf(bytes);
    } catch (error) {
      return expect(judgeError(entry.expect, error)).toBeUndefined();
    }
    const read = (t: { offset: number; nBytes: number }): Promise<Uint8Array> =>
      Promise.resolve(bytes.subarray(t.offset, t.offset + t.nBytes));
    expect(judgeAccept(entry.expect) ?? (await judgeFile(entry.expect, file, read))).toBeUndefined();
  });

  it("refuses without allocating in proportion to what a file declares", () => {
    for (const entry of entries.filter((e) => e.expect.action === "reject")) {
      const bytes = bytesOf(entry);
      const before = process.memoryUsage();
      try {
        parseGguf(bytes);
      } catch {
        // counted below
      }
      const after = process.memoryUsage();
      const grown = after.heapUsed - before.heapUsed + after.arrayBuffers - before.arrayBuffers;
      expect(grown, nameOf(entry)).toBeLessThan(4 * bytes.length + 2 ** 20);
    }
  });
});

describeWith("golden", "gguf golden files", () => {
  interface Golden {
    readonly with_data: boolean;
    readonly recommended?: "accept" | "reject" | "either";
    readonly n_kv?: number;
    readonly n_tensors?: number;
    readonly data_offset?: number;
    readonly alignment?: number;
    readonly version?: number;
  }
  const golden = Object.entries(readJson<{ [name: string]: Golden }>("golden", "gguf/expected.json"));

  it.each(golden)("%s", (name, want) => {
    const verdict = want.recommended ?? (want.with_data ? "accept" : "reject");
    const read = (): GgufFile => parseGguf(readData("golden", `gguf/${name}.gguf`));
    if (verdict === "reject") return void refusal(read);
    if (verdict === "either") return void expect(tryRead(read)).not.toBe("crashed");
    const { metadata, tensors, dataOffset, alignment, version } = read();
    const found = [metadata.size, tensors.length, dataOffset, alignment, version];
    if (!want.with_data) return;
    expect(found).toEqual([want.n_kv, want.n_tensors, want.data_offset, want.alignment, want.version]);
  });

  function tryRead(read: () => GgufFile): string {
    try {
      read();
      return "accepted";
    } catch (error) {
      return error instanceof FormatError ? "refused" : "crashed";
    }
  }
});

describeWith("vocab", "gguf vocabularies", () => {
  it("reads every key of real files and rewrites them to the same header", () => {
    for (const name of readdirSync(dataDir("vocab")).filter((n) => n.endsWith(".gguf"))) {
      const bytes = readData("vocab", name);
      const file = parseGguf(bytes);
      const tokens = file.metadata.get("tokenizer.ggml.tokens");
      expect((tokens?.value as StringArray).length, name).toBeGreaterThan(1000);
      const version = file.version === 2 ? 2 : 3;
      const again = ggufHeader(file.metadata, [], { version }).bytes;
      expect(Buffer.compare(again, bytes.subarray(0, file.dataOffset)), name).toBe(0);
    }
  });
});
