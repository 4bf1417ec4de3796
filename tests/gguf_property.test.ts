// Properties of reader and writer over random files, whole, cut and damaged.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FormatError } from "../ts/errors.ts";
import {
  type GgufFile,
  GgufType,
  type MetaArray,
  type MetaValue,
  StringArray,
  type TensorData,
  parseGguf,
  writeGguf,
} from "../ts/gguf/index.ts";
import { Parser } from "../ts/gguf/reader.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { inconsistency, misbehaviour } from "./gguf_consistent.ts";

// The same files in every run; FUZZ_SEED gives others.
fc.configureGlobal({ seed: Number(process.env.FUZZ_SEED ?? 1) });

const raw = fc.uint8Array({ maxLength: 12 });
const T = GgufType;

const scalar: fc.Arbitrary<MetaValue> = fc.oneof(
  fc.integer({ min: 0, max: 255 }).map((value) => ({ type: T.UINT8, value })),
  fc.integer({ min: -128, max: 127 }).map((value) => ({ type: T.INT8, value })),
  fc.integer({ min: 0, max: 65535 }).map((value) => ({ type: T.UINT16, value })),
  fc.integer({ min: -32768, max: 32767 }).map((value) => ({ type: T.INT16, value })),
  fc.integer({ min: 0, max: 2 ** 32 - 1 }).map((value) => ({ type: T.UINT32, value })),
  fc.integer().map((value) => ({ type: T.INT32, value })),
  fc.float().map((value) => ({ type: T.FLOAT32, value })),
  fc.boolean().map((value) => ({ type: T.BOOL, value })),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((value) => ({ type: T.UINT64, value })),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((value) => ({ type: T.INT64, value })),
  fc.double().map((value) => ({ type: T.FLOAT64, value })),
); // prettier-ignore

const string: fc.Arbitrary<MetaValue> = raw.map((bytes) => {
  const value = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const valid = Buffer.compare(Buffer.from(value), bytes) === 0;
  return valid ? { type: T.STRING, value } : { type: T.STRING, value, bytes };
});

const flat: fc.Arbitrary<MetaArray> = fc.oneof(
  fc.uint8Array({ maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.UINT8, value })),
  fc.int16Array({ maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.INT16, value })),
  fc.float32Array({ maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.FLOAT32, value })),
  fc.float64Array({ maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.FLOAT64, value })),
  fc.bigInt64Array({ maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.INT64, value })),
  fc.uint8Array({ max: 1, maxLength: 9 }).map((value) => ({ type: T.ARRAY, elementType: T.BOOL, value })),
  fc.array(raw, { maxLength: 9 }).map((s) => ({ type: T.ARRAY, elementType: T.STRING, value: StringArray.from(s) })),
); // prettier-ignore

const nested: fc.Arbitrary<MetaValue> = fc
  .array(flat, { maxLength: 3 })
  .map((value) => ({ type: T.ARRAY, elementType: T.ARRAY, value }));

const key = fc.string({ minLength: 1, maxLength: 12, unit: "binary" }).filter((k) => !k.includes("\0"));
const metadata = fc.uniqueArray(fc.tuple(key, fc.oneof(scalar, string, flat, nested)), {
  maxLength: 8,
  selector: ([k]) => k,
});

const liveTypes = Array.from({ length: Type.COUNT }, (_, type) => type as Type).filter(
  (t) => typeInfo(t) !== undefined,
);

const tensor: fc.Arbitrary<TensorData> = fc
  .record({
    name: key.filter((k) => Buffer.byteLength(k) <= 64),
    type: fc.constantFrom(...liveTypes),
    blocks: fc.integer({ min: 0, max: 3 }),
    rest: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 3 }),
    fill: fc.integer({ min: 0, max: 255 }),
  })
  .map(({ name, type, blocks, rest, fill }) => {
    const { blockSize, typeSize } = typeInfo(type)!;
    const ne = [blocks * blockSize, ...rest];
    const nBytes = blocks * typeSize * rest.reduce((product, n) => product * n, 1);
    return { name, type, ne, nDims: ne.length, data: new Uint8Array(nBytes).fill(fill) };
  });

interface Made {
  readonly entries: [string, MetaValue][];
  readonly tensors: TensorData[];
  readonly bytes: Uint8Array;
}

const made: fc.Arbitrary<Made> = fc
  .record({
    entries: metadata,
    tensors: fc.uniqueArray(tensor, { maxLength: 5, selector: (t) => t.name }),
    alignment: fc.constantFrom(undefined, 8, 32, 64),
  })
  .map(({ entries, tensors, alignment }) => {
    const all = entries.filter(([k]) => k !== "general.alignment");
    if (alignment !== undefined) all.push(["general.alignment", { type: T.UINT32, value: alignment }]);
    return { entries: all, tensors, bytes: writeGguf(all, tensors) };
  });

/** The same for equal files, NaN included. */
function contents(file: GgufFile, bytes: Uint8Array): unknown {
  return {
    metadata: [...file.metadata].map(([k, v]) => [k, plainOf(v)]),
    tensors: file.tensors.map((t) => [
      t.name,
      t.type,
      t.ne.slice(0, t.nDims),
      hex(bytes, t.offset, t.nBytes),
    ]),
  };
}

function plainOf(value: MetaValue): unknown {
  if (value.type !== T.ARRAY) return value;
  if (value.elementType === T.ARRAY) return value.value.map(plainOf);
  if (value.elementType === T.STRING) return [value.elementType, hex(value.value.encoded)];
  return [
    value.elementType,
    hex(new Uint8Array(value.value.buffer, value.value.byteOffset, value.value.byteLength)),
  ];
}

function hex(bytes: Uint8Array, at = 0, n = bytes.length): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + at, n).toString("hex");
}

/** Reads a header whose bytes come in windows, each `more` longer than the last step needs. */
function readInWindows(bytes: Uint8Array, more: readonly number[]): GgufFile {
  const parser = new Parser("windows");
  let end = 1;
  for (let i = 0; ; i++) {
    const underrun = parser.advance(bytes.subarray(parser.pos, end), parser.pos, bytes.length);
    if (underrun === undefined) return parser.finish();
    expect(underrun.need).toBeGreaterThan(end);
    end = Math.min(underrun.need + (more[i % more.length] ?? 0), bytes.length);
  }
}

describe("gguf properties", () => {
  it("what is written is read back", () => {
    fc.assert(
      fc.property(made, ({ entries, tensors, bytes }) => {
        const file = parseGguf(bytes);
        expect(contents(file, bytes)).toEqual({
          metadata: entries.map(([k, v]) => [k, plainOf(v)]),
          tensors: tensors.map((t) => [t.name, t.type, t.ne, hex(t.data as Uint8Array)]),
        });
        expect(inconsistency(file, bytes.length)).toBeUndefined();
      }),
    );
  });

  it("a file cut anywhere is refused as truncated, unless only padding is gone", () => {
    fc.assert(
      fc.property(made, fc.nat(), ({ bytes }, seed) => {
        const cut = seed % bytes.length;
        const whole = parseGguf(bytes);
        const end = Math.max(whole.dataOffset, ...whole.tensors.map((t) => t.offset + t.nBytes));
        if (cut >= end) return expect(parseGguf(bytes.subarray(0, cut)).tensors).toEqual(whole.tensors);
        const offsets = whole.tensors.map((t) => t.offset);
        // A cut before the start of a later tensor leaves that start past the end.
        const codes = offsets.some((offset) => offset > cut) ? ["truncated", "bad-offset"] : ["truncated"];
        expect(() => parseGguf(bytes.subarray(0, cut))).toThrow(FormatError);
        expect(codes).toContain(codeOf(bytes.subarray(0, cut)));
      }),
    );
  });

  it("damaged bytes are refused cleanly or accepted consistently", () => {
    const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(made, damage, ({ bytes }, changes) => {
        const broken = bytes.slice();
        for (const [at, value] of changes) broken[at % broken.length] = value;
        expect(misbehaviour(broken)).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  it("a header that comes in pieces reads as one that is there", () => {
    fc.assert(
      fc.property(made, fc.array(fc.nat({ max: 40 }), { minLength: 1, maxLength: 5 }), ({ bytes }, more) => {
        expect(contents(readInWindows(bytes, more), bytes)).toEqual(contents(parseGguf(bytes), bytes));
      }),
    );
  });
});

function codeOf(bytes: Uint8Array): string | undefined {
  try {
    parseGguf(bytes);
  } catch (error) {
    return (error as FormatError).code;
  }
  return undefined;
}
