// The reader, against hand-made bytes.
import { describe, expect, it } from "vitest";
import type { FormatError } from "../ts/errors.ts";
import { GgufType, type MetaValue, StringArray, parseGguf, writeGguf } from "../ts/gguf/index.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { RawGguf, fileWithKeys, fileWithTensors, refusal } from "./gguf_bytes.ts";

function refusalOf(bytes: Uint8Array): FormatError {
  return refusal(() => parseGguf(bytes));
}

const text = (value: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(value);

describe("gguf start", () => {
  it("says what bytes that are not GGUF look like", () => {
    const cases: [Uint8Array, string][] = [
      [text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"), "Git LFS pointer"],
      [text("  <!DOCTYPE html><html>404</html>"), "HTML"],
      [text("PK\x03\x04......"), "zip"],
      [new RawGguf().u64(72).text('{"w":{"dtype":"F32"}}').bytes(), "safetensors"],
      [new RawGguf().u8(0xef, 0xbb, 0xbf).start(0, 0).bytes(), "byte order mark"],
      [text('{"error":"not found"}'), "JSON"],
      [text("FUGG\0\0\0\0"), "reversed"],
      [Uint8Array.of(0x1f, 0x8b, 8, 0), "gzip"],
      [new Uint8Array(40), "zeros"],
      [text("hello world"), '"hello world"'],
      [Uint8Array.of(0xde, 0xad, 0xbe, 0xef), "de ad be ef"],
    ];
    for (const [bytes, words] of cases) {
      const error = refusalOf(bytes);
      expect(error.code).toBe("bad-magic");
      expect(error.message).toContain(words);
      expect(error.details.offset).toBe(0);
    }
  });

  it("tells a file cut inside its first bytes from one that is something else", () => {
    for (const start of ["", "G", "GGU", "GGUF"]) expect(refusalOf(text(start)).code).toBe("truncated");
    expect(refusalOf(text("GGX")).code).toBe("bad-magic");
  });

  it("reads versions 2 and 3 and names the others", () => {
    for (const version of [2, 3])
      expect(parseGguf(new RawGguf().start(0, 0, version).bytes()).version).toBe(version);
    for (const version of [0, 1, 4, 5, 2 ** 31 - 1, 2 ** 32 - 1]) {
      const error = refusalOf(new RawGguf().start(0, 0, version).bytes());
      expect([error.code, error.details.actual]).toEqual(["unsupported-version", version]);
    }
  });

  it("names the byte order of a big-endian file", () => {
    expect(refusalOf(new RawGguf().start(0, 0, 0x03000000).bytes()).message).toContain("big-endian");
  });

  it("refuses a version-1 file of 24 bytes without reading its counts as 64 bits", () => {
    expect(refusalOf(new RawGguf().text("GGUF").u32(1).u32(0).u32(1).u32(0).u32(4).bytes()).code).toBe(
      "unsupported-version",
    );
  });

  it("refuses counts that cannot fit, by size of the miss", () => {
    const code = (nTensors: bigint | number, nKeys: bigint | number): string =>
      refusalOf(new RawGguf().start(nTensors, nKeys).zeros(100).bytes()).code;
    for (const n of [2 ** 30, 2 ** 31, 2 ** 32 + 1, 2n ** 63n, 2n ** 64n - 1n]) {
      expect(code(n, 0)).toBe("limit");
      expect(code(0, n)).toBe("limit");
    }
    expect(code(6, 0)).toBe("truncated");
    expect(code(0, 9)).toBe("truncated");
  });

  it("refuses more keys or tensors than it reads, before it reads them", () => {
    const refused = (nTensors: number, nKeys: number): string =>
      refusal(() => parseGguf(new RawGguf().start(nTensors, nKeys).bytes(), 2 ** 23)).code;
    expect([refused(0, 2 ** 16 + 1), refused(2 ** 17 + 1, 0)]).toEqual(["limit", "limit"]);
  });
});

describe("gguf metadata", () => {
  const one = (build: (raw: RawGguf) => void): FormatError => refusalOf(fileWithKeys(1, build));

  it("keeps the value type, and 64-bit integers exactly", () => {
    const file = parseGguf(
      fileWithKeys(3, (raw) => {
        raw
          .str("u")
          .u32(10)
          .u64(2n ** 64n - 1n);
        raw
          .str("i")
          .u32(11)
          .u64(-(2n ** 63n));
        raw.str("b").u32(7).u8(1);
      }),
    );
    expect(file.metadata.get("u")).toEqual({ type: GgufType.UINT64, value: 2n ** 64n - 1n });
    expect(file.metadata.get("i")).toEqual({ type: GgufType.INT64, value: -(2n ** 63n) });
    expect(file.metadata.get("b")).toEqual({ type: GgufType.BOOL, value: true });
  });

  it("tells scores stored as u8 from scores stored as f32", () => {
    const scores = (element: number, size: number): MetaValue | undefined =>
      parseGguf(
        fileWithKeys(1, (raw) =>
          raw
            .str("s")
            .u32(9)
            .u32(element)
            .u64(3)
            .zeros(3 * size),
        ),
      ).metadata.get("s");
    expect(scores(0, 1)).toMatchObject({ elementType: GgufType.UINT8, value: new Uint8Array(3) });
    expect(scores(6, 4)).toMatchObject({ elementType: GgufType.FLOAT32, value: new Float32Array(3) });
  });

  it("finds a key named __proto__ and no key that is not there", () => {
    const { metadata } = parseGguf(
      fileWithKeys(2, (raw) => raw.keyU32("__proto__", 7).keyU32("constructor", 8)),
    );
    expect(metadata.get("__proto__")).toEqual({ type: GgufType.UINT32, value: 7 });
    expect([metadata.has("toString"), metadata.size, ({} as { polluted?: unknown }).polluted]).toEqual([
      false,
      2,
      undefined,
    ]);
  });

  it("refuses bad keys with their position", () => {
    expect(one((raw) => raw.str("").u32(4).u32(0)).code).toBe("bad-key");
    expect(one((raw) => raw.keyU32("a\0b", 1)).code).toBe("bad-key");
    expect(one((raw) => raw.u64(2).u8(0xc3, 0x28).u32(4).u32(1)).code).toBe("bad-key");
    expect(one((raw) => raw.keyU32("k".repeat(65536), 1)).code).toBe("bad-key");
    expect(one((raw) => raw.u64(64).text("abc")).code).toBe("truncated");
    expect(one((raw) => raw.u64(2n ** 32n + 3n).text("abc")).code).toBe("limit");
    const twice = refusalOf(fileWithKeys(2, (raw) => raw.keyU32("k", 1).keyU32("k", 2)));
    expect([twice.code, twice.details.key, twice.details.offset]).toEqual(["duplicate-key", "k", 24 + 17]);
  });

  it("accepts a key of 65535 bytes", () => {
    expect(parseGguf(fileWithKeys(1, (raw) => raw.keyU32("k".repeat(65535), 1))).metadata.size).toBe(1);
  });

  it("refuses lengths near 2^64, 2^63, 2^32 and 2^30 in a string of 3 bytes", () => {
    for (const n of [2n ** 64n - 1n, 2n ** 63n, 2n ** 32n + 3n, 2n ** 31n, 2n ** 30n]) {
      const error = one((raw) => raw.str("k").u32(8).u64(n).text("abc"));
      expect([error.code, error.details.key]).toEqual(["limit", "k"]);
      expect(error.message).toContain(String(n));
    }
    expect(one((raw) => raw.str("k").u32(8).u64(4).text("abc")).code).toBe("truncated");
    expect(
      one((raw) =>
        raw
          .str("k")
          .u32(8)
          .u64(2 ** 30 - 1)
          .text("abc"),
      ).code,
    ).toBe("truncated");
  });

  it("refuses array lengths whose bytes wrap in 32 or 64 bits", () => {
    const cases: [element: number, count: bigint][] = [
      [0, 2n ** 63n], [0, 2n ** 32n + 4n], [10, 2n ** 61n], [10, 2n ** 29n], [6, 2n ** 30n], [8, 2n ** 61n], [8, 2n ** 29n],
    ]; // prettier-ignore
    for (const [element, count] of cases) {
      expect(one((raw) => raw.str("k").u32(9).u32(element).u64(count).zeros(32)).code).toBe("limit");
    }
    expect(one((raw) => raw.str("k").u32(9).u32(10).u64(5).zeros(32)).code).toBe("truncated");
  });

  it("refuses unknown types, also of empty arrays", () => {
    for (const type of [13, 14, 255, 2 ** 31, 2 ** 32 - 1]) {
      expect(one((raw) => raw.str("k").u32(type).zeros(8)).code).toBe("bad-type");
      expect(one((raw) => raw.str("k").u32(9).u32(type).u64(0)).code).toBe("bad-type");
    }
  });

  it("refuses bools that are neither 0 nor 1, and says which byte", () => {
    expect(one((raw) => raw.str("k").u32(7).u8(2).zeros(9)).code).toBe("bad-value");
    const error = one((raw) => raw.str("k").u32(9).u32(7).u64(3).u8(0, 1, 255));
    expect([error.code, error.details.offset]).toEqual(["bad-value", 24 + 9 + 4 + 12 + 2]);
  });

  it("reads arrays nested four deep and refuses the fifth", () => {
    const nest = (depth: number) => (raw: RawGguf) => {
      raw.str("k").u32(9);
      for (let i = 1; i < depth; i++) raw.u32(9).u64(1);
      raw.u32(0).u64(2).u8(5, 6);
    };
    let value = parseGguf(fileWithKeys(1, nest(4))).metadata.get("k");
    for (let i = 0; i < 3; i++) {
      if (value?.type !== GgufType.ARRAY || value.elementType !== GgufType.ARRAY)
        throw new Error("not nested");
      value = value.value[0];
    }
    expect(value).toMatchObject({ elementType: GgufType.UINT8, value: Uint8Array.of(5, 6) });
    expect(one(nest(5)).code).toBe("nesting");
  });

  it("refuses arrays inside arrays without number", () => {
    const count = 2 ** 16 + 1;
    expect(
      one((raw) =>
        raw
          .str("k")
          .u32(9)
          .u32(9)
          .u64(count)
          .zeros(12 * count),
      ).code,
    ).toBe("limit");
  });

  it("keeps the bytes of strings that are not UTF-8, and a leading U+FEFF", () => {
    const { metadata } = parseGguf(
      fileWithKeys(3, (raw) => {
        raw.str("bad").u32(8).u64(3).u8(0x61, 0xff, 0x62);
        raw.str("bom").u32(8).str("\ufeffx");
        raw.str("list").u32(9).u32(8).u64(3).str("\ufeffé").u64(2).u8(0xe2, 0x96).str("");
      }),
    );
    expect(metadata.get("bad")).toEqual({
      type: GgufType.STRING,
      value: "a\ufffdb",
      bytes: Uint8Array.of(0x61, 0xff, 0x62),
    });
    expect(metadata.get("bom")).toEqual({ type: GgufType.STRING, value: "\ufeffx" });
    const list = metadata.get("list")?.value as StringArray;
    expect([...list]).toEqual(["\ufeffé", "\ufffd", ""]);
    expect(list.bytes(1)).toEqual(Uint8Array.of(0xe2, 0x96));
    expect([list.bytes(3), list.bytes(-1)]).toEqual([new Uint8Array(0), new Uint8Array(0)]);
  });

  it("keeps nothing of the bytes it was given", () => {
    const bytes = fileWithKeys(2, (raw) => {
      raw.str("n").u32(9).u32(4).u64(2).u32(1).u32(2);
      raw.str("s").u32(9).u32(8).u64(1).str("abc");
    });
    const { metadata } = parseGguf(bytes);
    bytes.fill(255);
    expect(metadata.get("n")?.value).toEqual(Uint32Array.of(1, 2));
    expect([...(metadata.get("s")?.value as StringArray)]).toEqual(["abc"]);
  });

  it("reads from shared memory and from a Node Buffer inside a pool", () => {
    const bytes = fileWithKeys(1, (raw) => raw.str("k").u32(8).str("é"));
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
    shared.set(bytes);
    for (const input of [shared, Buffer.from(bytes)]) {
      expect(parseGguf(input).metadata.get("k")?.value).toBe("é");
    }
  });

  it("reads a vocabulary of 150,000 strings as two typed arrays", () => {
    const tokens = StringArray.from(Array.from({ length: 150_000 }, (_, i) => `token ${i}`));
    const bytes = writeGguf(
      [["t", { type: GgufType.ARRAY, elementType: GgufType.STRING, value: tokens }]],
      [],
    );
    const read = parseGguf(bytes).metadata.get("t")?.value as StringArray;
    expect([read.length, read.text(0), read.text(149_999)]).toEqual([150_000, "token 0", "token 149999"]);
  });
});

describe("gguf alignment", () => {
  const withAlignment = (n: number): Uint8Array =>
    new RawGguf().start(0, 1).keyU32("general.alignment", n).bytes();

  it("must be a power of two from 8 on, of type u32", () => {
    for (const n of [8, 16, 32, 64, 32768, 2 ** 31]) expect(parseGguf(withAlignment(n)).alignment).toBe(n);
    for (const n of [0, 1, 2, 4, 3, 7, 12, 24, 33, 48, 2 ** 32 - 1]) {
      expect(refusalOf(withAlignment(n)).code).toBe("bad-alignment");
    }
    const u64 = fileWithKeys(1, (raw) => raw.str("general.alignment").u32(10).u64(32));
    const error = refusalOf(u64);
    expect([error.code, error.details.key]).toEqual(["bad-alignment", "general.alignment"]);
  });

  it("puts the data section past the end of a tiny file: truncated", () => {
    for (const n of [2 ** 20, 2 ** 30]) {
      const raw = new RawGguf()
        .start(1, 1)
        .keyU32("general.alignment", n)
        .tensor("w", [4], Type.F32, 0)
        .pad()
        .zeros(64);
      expect(refusalOf(raw.bytes()).code).toBe("truncated");
    }
  });
});

describe("gguf tensors", () => {
  const shape = (dims: readonly (bigint | number)[], type: number): FormatError =>
    refusalOf(fileWithTensors([["w", dims, type, 0]], 64));

  it("lists every live type with its size", () => {
    for (let type = 0; type < Type.COUNT; type++) {
      const info = typeInfo(type);
      if (info === undefined) {
        expect(shape([256], type).code).toBe("bad-type");
        continue;
      }
      const nBytes = 3 * info.typeSize;
      const { tensors } = parseGguf(fileWithTensors([["w", [info.blockSize, 3], type, 0]], nBytes));
      expect(tensors[0]).toMatchObject({ type, ne: [info.blockSize, 3, 1, 1], nDims: 2, nBytes });
      if (info.blockSize > 1) expect(shape([info.blockSize - 1], type).code).toBe("block-size");
      if (info.blockSize > 1) expect(shape([info.blockSize / 2, 2], type).code).toBe("block-size");
    }
    expect(shape([4], 2 ** 32 - 1).code).toBe("bad-type");
  });

  it("reads scalars, empty tensors and four dimensions", () => {
    const { tensors } = parseGguf(
      fileWithTensors([["s", [], Type.F32, 0], ["e", [5, 0], Type.F32, 32], ["d", [1, 2, 3, 1], Type.I8, 32]], 38),
    ); // prettier-ignore
    expect(tensors.map((t) => [t.ne, t.nDims, t.nBytes])).toEqual([
      [[1, 1, 1, 1], 0, 4],
      [[5, 0, 1, 1], 2, 0],
      [[1, 2, 3, 1], 4, 6],
    ]);
  });

  it("refuses products that wrap in 64 bits", () => {
    const dims: (readonly (bigint | number)[])[] = [
      [2n ** 63n - 1n, 2], [2n ** 62n, 4], [2n ** 16n, 2n ** 16n, 2n ** 16n, 2n ** 16n], [2n ** 32n, 2n ** 31n, 2],
      [2n ** 62n + 1n, 4], [0, 2n ** 62n, 4],
    ]; // prettier-ignore
    for (const ne of dims)
      for (const type of [Type.I8, Type.F32]) expect(shape(ne, type).code).toBe("overflow");
    expect(shape([2n ** 62n], Type.F32).code).toBe("overflow");
    expect(shape([2n ** 62n - 1n], Type.F32).code).toBe("overflow");
    expect(shape([2n ** 63n - 8n], Type.I8).code).toBe("overflow");
  });

  it("refuses sizes that only wrap in 32 bits or leave the safe integers", () => {
    expect(shape([2n ** 30n + 2n], Type.F32).code).toBe("limit");
    expect(shape([65536, 65537], Type.I8).code).toBe("limit");
    expect(shape([2n ** 31n], Type.I8).code).toBe("limit");
    expect(shape([2n ** 53n + 1n], Type.I8).code).toBe("limit");
    expect(shape([0, 2n ** 60n], Type.I8).code).toBe("limit");
    expect(shape([2 ** 20], Type.I8).code).toBe("truncated");
  });

  it("refuses dims below zero and more than four of them", () => {
    expect(shape([-1n], Type.F32).code).toBe("bad-dims");
    expect(shape([4, -(2n ** 63n)], Type.F32).code).toBe("bad-dims");
    for (const n of [5, 8]) expect(shape(new Array<number>(n).fill(1), Type.F32).code).toBe("bad-dims");
    for (const n of [255, 2 ** 32 - 1]) {
      const raw = new RawGguf().start(1, 0).str("w").u32(n).u64(4).u64(2).u32(0).u64(0).pad().zeros(32);
      expect(refusalOf(raw.bytes()).code).toBe("bad-dims");
    }
  });

  it("refuses bad names and accepts odd ones", () => {
    const name = (n: string): string => refusalOf(fileWithTensors([[n, [4], Type.F32, 0]], 16)).code;
    expect([name(""), name("a\0b"), name("n".repeat(65))]).toEqual(["bad-name", "bad-name", "bad-name"]);
    const two = fileWithTensors([["w", [4], Type.F32, 0], ["w", [4], Type.F32, 32]], 48); // prettier-ignore
    expect(refusalOf(two).code).toBe("duplicate-tensor");
    const odd = ["n".repeat(64), "__proto__", "toString", "名前"];
    const file = parseGguf(
      fileWithTensors(
        odd.map((n, i) => [n, [4], Type.F32, 32 * i]),
        112,
      ),
    );
    for (const n of odd) expect(file.tensorByName.get(n)?.name).toBe(n);
    expect(file.tensorByName.get("valueOf")).toBeUndefined();
  });

  it("refuses a name whose length is beyond 32 bits or the file", () => {
    const named = (n: bigint): string =>
      refusalOf(
        new RawGguf().start(1, 0).u64(n).text("w").u32(1).u64(4).u32(0).u64(0).pad().zeros(32).bytes(),
      ).code;
    expect([named(2n ** 32n + 1n), named(2n ** 31n), named(1000n)]).toEqual(["limit", "limit", "truncated"]);
  });

  it("accepts gaps, any order and a last tensor without its padding", () => {
    const file = parseGguf(fileWithTensors([["b", [4], Type.F32, 128], ["a", [4], Type.F32, 32]], 144)); // prettier-ignore
    expect(file.tensors.map((t) => [t.name, t.offset - file.dataOffset])).toEqual([["b", 128], ["a", 32]]); // prettier-ignore
  });

  it("refuses offsets that overlap, leave the alignment or the file, or wrap", () => {
    const second = (offset: bigint | number): string =>
      refusalOf(fileWithTensors([["a", [16], Type.F32, 0], ["b", [4], Type.F32, offset]], 96)).code; // prettier-ignore
    for (const offset of [
      0,
      32,
      68,
      128,
      2 ** 32,
      2 ** 32 + 64,
      2n ** 53n + 32n,
      2n ** 63n,
      2n ** 64n - 32n,
    ]) {
      expect(second(offset)).toBe("bad-offset");
    }
  });

  it("names the tensor that the file cuts, with bytes expected and found", () => {
    const whole = fileWithTensors([["a", [4], Type.F32, 0], ["b", [8], Type.F32, 32]], 64); // prettier-ignore
    const error = refusalOf(whole.subarray(0, whole.length - 1));
    expect([error.code, error.details.tensor]).toEqual(["truncated", "b"]);
    expect([error.details.expected, error.details.actual]).toEqual([32, 31]);
  });

  it("refuses two tensors whose sizes add up past 2^32 and past 2^64", () => {
    const two = (n: bigint): string =>
      refusalOf(fileWithTensors([["a", [n], Type.I8, 0], ["b", [n], Type.I8, 32]], 64)).code; // prettier-ignore
    expect([two(2n ** 31n), two(2n ** 63n - 2n ** 32n)]).toEqual(["limit", "limit"]);
  });
});
