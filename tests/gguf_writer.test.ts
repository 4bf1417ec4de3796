// The writer: what it writes the reader reads back, and nothing it writes the reader refuses.
import { describe, expect, it } from "vitest";
import {
  GgufType,
  type MetaValue,
  StringArray,
  ggufChunks,
  ggufHeader,
  parseGguf,
  writeGguf,
} from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";
import { refusal } from "./gguf_bytes.ts";

describe("gguf writer", () => {
  const metadata: [string, MetaValue][] = [
    ["general.architecture", { type: GgufType.STRING, value: "demo" }],
    ["raw", { type: GgufType.STRING, value: "\ufffd", bytes: Uint8Array.of(0xff) }],
    ["list", { type: GgufType.ARRAY, elementType: GgufType.STRING, value: StringArray.from(["a", Uint8Array.of(0xff), ""]) }],
    ["f", { type: GgufType.FLOAT32, value: Math.fround(0.1) }],
    ["nan", { type: GgufType.FLOAT64, value: NaN }],
    ["big", { type: GgufType.UINT64, value: 2n ** 64n - 1n }],
    ["bools", { type: GgufType.ARRAY, elementType: GgufType.BOOL, value: Uint8Array.of(0, 1) }],
    ["i64", { type: GgufType.ARRAY, elementType: GgufType.INT64, value: BigInt64Array.of(-1n, 2n ** 62n) }],
  ]; // prettier-ignore
  const data = Uint8Array.from({ length: 68 }, (_, i) => i);
  const tensors = [
    { name: "q", type: Type.Q8_0, ne: [32, 2], data },
    { name: "s", type: Type.F32, ne: [], data: () => [data.subarray(0, 1), data.subarray(1, 4)] },
    { name: "t", type: Type.F16, ne: [3, 1, 1, 1], data: data.subarray(0, 6) },
  ];

  it("writes what the reader reads back, byte for byte", () => {
    for (const alignment of [8, 32, 64]) {
      const all: [string, MetaValue][] = [
        ...metadata,
        ["general.alignment", { type: GgufType.UINT32, value: alignment }],
      ];
      const bytes = writeGguf(all, tensors);
      const file = parseGguf(bytes);
      expect([...file.metadata]).toEqual(all);
      expect(file.tensors.map((t) => [t.name, t.type, t.nDims, t.nBytes])).toEqual([
        ["q", Type.Q8_0, 2, 68],
        ["s", Type.F32, 0, 4],
        ["t", Type.F16, 1, 6],
      ]);
      expect(file.tensors.every((t) => t.offset % alignment === 0)).toBe(true);
      expect(bytes.length % alignment).toBe(0);
      for (const [i, t] of file.tensors.entries()) {
        expect(bytes.subarray(t.offset, t.offset + t.nBytes)).toEqual(data.subarray(0, [68, 4, 6][i]));
      }
    }
  });

  it("rewrites a file that it read to the same bytes", () => {
    const bytes = writeGguf(metadata, tensors, { version: 2 });
    const file = parseGguf(bytes);
    const again = file.tensors.map((t) => ({ ...t, data: bytes.subarray(t.offset, t.offset + t.nBytes) }));
    expect(writeGguf(file.metadata, again, { version: 2 })).toEqual(bytes);
  });

  it("gives the header alone, for data that is written later", () => {
    const header = ggufHeader(metadata, tensors);
    const whole = writeGguf(metadata, tensors);
    expect(header.bytes).toEqual(whole.subarray(0, header.bytes.length));
    expect([header.fileSize, header.nBytes, header.offsets[0]]).toEqual([
      whole.length,
      [68, 4, 6],
      header.bytes.length,
    ]);
  });

  it("holds no more than a tensor's own chunk", () => {
    const piece = new Uint8Array(2 ** 16);
    const big = {
      name: "big",
      type: Type.I8,
      ne: [2 ** 16, 64],
      data: () => new Array<Uint8Array>(64).fill(piece),
    };
    let largest = 0;
    let total = 0;
    for (const chunk of ggufChunks([], [big])) {
      largest = Math.max(largest, chunk.length);
      total += chunk.length;
    }
    expect([largest, total]).toEqual([2 ** 16, ggufHeader([], [big]).fileSize]);
  });

  it("writes nothing that the reader refuses", () => {
    const w = { name: "w", type: Type.F32, ne: [4], data: new Uint8Array(16) };
    const u32 = (value: number): MetaValue => ({ type: GgufType.UINT32, value });
    const code = (...args: Parameters<typeof writeGguf>): string => refusal(() => writeGguf(...args)).code;
    expect(code([["", u32(1)]], [])).toBe("bad-key");
    expect(code([["k", u32(1)], ["k", u32(1)]], [])).toBe("duplicate-key"); // prettier-ignore
    expect(code([["general.alignment", u32(0)]], [w])).toBe("bad-alignment");
    expect(code([["general.alignment", u32(4)]], [w])).toBe("bad-alignment");
    expect(code([["general.alignment", u32(48)]], [w])).toBe("bad-alignment");
    expect(code([], [w, w])).toBe("duplicate-tensor");
    expect(code([], [{ ...w, name: "n".repeat(65) }])).toBe("bad-name");
    expect(code([], [{ ...w, ne: [1, 1, 1, 1, 4] }])).toBe("bad-dims");
    expect(code([], [{ ...w, type: Type.Q8_0 }])).toBe("block-size");
    expect(code([], [{ ...w, type: 4 as number as Type }])).toBe("bad-type");
    expect(code([], [{ ...w, data: new Uint8Array(15) }])).toBe("truncated");
    expect(code([], [{ ...w, ne: [1.5] }])).toBe("bad-dims");
    expect(code([], [{ ...w, ne: [-1] }])).toBe("bad-dims");
    expect(() => writeGguf([], [w], { vresion: 2 } as object)).toThrow(TypeError);
  });

  it("writes no value that its type does not hold", () => {
    const code = (type: GgufType, value: unknown): string => {
      const bad = { type, value } as MetaValue;
      return refusal(() => writeGguf([["k", bad]], [])).code;
    };
    const ints = [
      [GgufType.UINT8, 256], [GgufType.UINT8, -1], [GgufType.UINT8, 1.5], [GgufType.INT8, 128], [GgufType.UINT16, 65536],
      [GgufType.INT16, -32769], [GgufType.UINT32, -1], [GgufType.UINT32, NaN], [GgufType.INT32, 2 ** 31],
      [GgufType.UINT64, 2n ** 64n], [GgufType.UINT64, -1n], [GgufType.INT64, 2n ** 63n],
    ] as const; // prettier-ignore
    for (const [type, value] of ints) expect(code(type, value), String(value)).toBe("bad-value");
    expect(code(GgufType.UINT64, 5)).toBe("bad-type");
    expect(code(GgufType.UINT32, 5n)).toBe("bad-type");
    expect(code(GgufType.BOOL, 1)).toBe("bad-type");
    expect(code(GgufType.FLOAT32, "1")).toBe("bad-type");
    expect(code(99 as GgufType, 1)).toBe("bad-type");
    const held: MetaValue[] = [
      { type: GgufType.UINT8, value: 255 },
      { type: GgufType.INT32, value: -(2 ** 31) },
      { type: GgufType.UINT64, value: 2n ** 64n - 1n },
      { type: GgufType.FLOAT32, value: -Infinity },
    ];
    for (const value of held) {
      expect(parseGguf(writeGguf([["k", value]], [])).metadata.get("k")).toEqual(value);
    }
  });
});
