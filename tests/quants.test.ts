// Storage types: byte equality with golden vectors, every 16-bit float, error bounds, values that are not finite.
import { beforeAll, describe, expect, test } from "vitest";
import { parseGguf } from "../ts/gguf/index.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { nelements } from "../ts/shape.ts";
import { Type, typeInfo, typeOf } from "../ts/types.ts";
import { BUILDS, Core, samples, stream } from "./core.ts";
import { describeWith, readData } from "./data.ts";

let core: Core;

beforeAll(async () => {
  core = await Core.load();
});

interface GoldenCase {
  readonly name: string;
  readonly op: string;
  readonly type: Type;
  readonly how: string | undefined;
  readonly n: number;
  readonly src: Uint8Array;
  readonly dst: Uint8Array;
  readonly importance: Float32Array | undefined;
}

function goldenCases(): GoldenCase[] {
  const bytes = readData("golden", "ops/quant.gguf");
  const { tensorByName, metadata } = parseGguf(bytes);
  const text = (key: string): string => String(metadata.get(key)!.value);
  const data = (name: string): Uint8Array => {
    const t = tensorByName.get(name)!;
    return bytes.slice(t.offset, t.offset + t.nBytes);
  };
  return [...tensorByName.keys()]
    .filter((key) => key.endsWith("/src0"))
    .map((key) => {
      const name = key.slice(0, -5);
      const { qtype, how } = JSON.parse(text(`${name}.params`)) as {
        qtype: string;
        how?: string;
      };
      const type = typeOf(qtype)!;
      const op = text(`${name}.op`);
      const dst = tensorByName.get(`${name}/dst`)!;
      const matrix = `${name}/imatrix`;
      const importance = tensorByName.has(matrix) ? new Float32Array(data(matrix).buffer) : undefined;
      return {
        name,
        op,
        type,
        how,
        n: nelements(dst.ne),
        src: data(key),
        dst: data(`${name}/dst`),
        importance,
      };
    });
}

const BYTE_EXACT = [
  Type.F16,
  Type.BF16,
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.Q8_1,
  Type.Q8_K,
  Type.MXFP4,
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_XS,
];
const DECODED = [...BYTE_EXACT, Type.IQ4_NL];

describeWith("golden", "golden vectors", () => {
  const cases = goldenCases();
  const named = (some: GoldenCase[]): [string, GoldenCase][] => some.map((c) => [c.name, c]);

  test.each(named(cases.filter((c) => c.op === "QUANTIZE" && BYTE_EXACT.includes(c.type))))(
    "%s: bytes equal",
    (_, c) => {
      const x = new Float32Array(c.src.buffer);
      expect(core.quantize(c.type, x, c.importance)).toEqual(c.dst);
    },
  );

  test.each(named(cases.filter((c) => c.op === "DEQUANTIZE" && DECODED.includes(c.type))))(
    "%s: bits equal",
    (_, c) => {
      expect(core.dequantize(c.type, c.src, c.n)).toEqual(new Float32Array(c.dst.buffer));
    },
  );
});

// The value of a 16-bit float by its definition.
function f16Value(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const e = (h >> 10) & 31;
  const m = h & 1023;
  if (e === 31) return m === 0 ? sign * Infinity : NaN;
  return e === 0 ? sign * m * 2 ** -24 : sign * (1 + m / 1024) * 2 ** (e - 15);
}

function bf16Value(h: number): number {
  return new Float32Array(Uint32Array.of(h * 65536).buffer)[0]!;
}

describe("16-bit floats", () => {
  const codes = Uint16Array.from({ length: 65536 }, (_, i) => i);
  const bytes = new Uint8Array(codes.buffer);

  test.each([
    ["F16", Type.F16, f16Value, 0x7e00],
    ["BF16", Type.BF16, bf16Value, undefined],
  ] as const)("all codes of %s decode to their value and encode to themselves", (_, type, value, nan) => {
    // one less than all of them: the last ones go one by one
    const n = 65535;
    const y = core.dequantize(type, bytes, n);
    const back = new Uint16Array(core.quantize(type, y).buffer);
    for (let h = 0; h < n; h++) {
      expect(y[h]).toBe(value(h));
      if (!Number.isNaN(y[h])) expect(back[h]).toBe(h);
      else if (nan !== undefined) expect(back[h]! & 0x7fff).toBe(nan);
      else expect(back[h]).toBe(h | 0x40);
    }
  });

  test("halfway values go to the even code, in rows of any length", () => {
    for (const n of [1, 3, 7, 8, 9, 31, 33]) {
      const x = Float32Array.from({ length: n }, (_, i) => 1 + (2 * i + 1) / 2048);
      const y = new Uint16Array(core.quantize(Type.F16, x).buffer);
      expect([...y]).toEqual(Array.from(x, (_, i) => 0x3c00 + i + (i % 2)));
    }
  });

  test("F16 overflows at 65520 and underflows below half of its smallest number", () => {
    const x = Float32Array.of(
      65504,
      65519.99609375,
      65520,
      -1e9,
      2 ** -24,
      2 ** -25,
      2 ** -25 * 1.0000001,
      -(2 ** -26),
    );
    const y = new Uint16Array(core.quantize(Type.F16, x).buffer);
    expect([...y]).toEqual([0x7bff, 0x7bff, 0x7c00, 0xfc00, 1, 0, 1, 0x8000]);
  });
});

// Scale and minimum are rounded to f16.
const F16_STEPS = 2 ** -10;

// Largest error of a value before that, as a share of the largest magnitude in its block.
const ERRORS: readonly (readonly [Type, number])[] = [
  [Type.Q4_0, 1 / 8],
  [Type.Q4_1, 1 / 15],
  [Type.Q5_0, 1 / 16],
  [Type.Q5_1, 1 / 31],
  [Type.Q8_0, 0.5 / 127],
  [Type.Q8_1, 0.5 / 127],
  [Type.Q8_K, 1 / 127],
  [Type.IQ4_NL, 0.2],
  [Type.MXFP4, 0.25],
  [Type.Q2_K, 0.6],
  [Type.Q3_K, 0.35],
  [Type.Q4_K, 0.15],
  [Type.Q5_K, 0.08],
  [Type.Q6_K, 0.05],
  [Type.IQ4_XS, 0.2],
];
/** Types of which importance makes other blocks. */
const WEIGHED: readonly Type[] = [
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_NL,
  Type.IQ4_XS,
];

describe("block types", () => {
  test.each(ERRORS.map(([t, e]) => [Type[t], t, e] as const))(
    "%s loses no more than its step",
    (_, type, share) => {
      const { blockSize } = typeInfo(type)!;
      for (const size of [0.1, 1, 1000]) {
        const x = samples(9 * blockSize, stream(type)).map((v) => v * size);
        const y = core.dequantize(type, core.quantize(type, x), x.length);
        for (let b = 0; b < x.length; b += blockSize) {
          const top = Math.max(...x.subarray(b, b + blockSize).map(Math.abs));
          for (let i = b; i < b + blockSize; i++)
            expect(Math.abs(x[i]! - y[i]!)).toBeLessThanOrEqual((share + F16_STEPS) * top);
        }
      }
    },
  );

  test.each(ERRORS.map(([t]) => [Type[t], t] as const))(
    "%s keeps zeros, and only NaN comes of a NaN",
    (_, type) => {
      const { blockSize } = typeInfo(type)!;
      const x = new Float32Array(3 * blockSize);
      const zero = core.dequantize(type, core.quantize(type, x), x.length);
      expect(zero.every((v) => v === 0)).toBe(true);
      if (type === Type.MXFP4) return; // has no NaN
      x[blockSize + 5] = NaN;
      const y = core.dequantize(type, core.quantize(type, x), x.length);
      y.forEach((v, i) => expect(Number.isNaN(v)).toBe(i >= blockSize && i < 2 * blockSize));
    },
  );

  test.each(ERRORS.map(([t]) => [Type[t], t] as const))("%s takes any bits without a trap", (_, type) => {
    const bits = Uint32Array.from({ length: 4096 }, () => (stream(type)() + 1) * 2 ** 31);
    const x = new Float32Array(bits.buffer).fill(Infinity, 0, 3).fill(-1e-45, 300, 600);
    core.dequantize(type, core.quantize(type, x), x.length);
  });
});

describe.each(BUILDS)("activations, %s build", (build) => {
  /** The floats just below, at and above k + 1/2. */
  function aroundHalf(k: number): number[] {
    const bits = new Int32Array(Float32Array.of(k + 0.5).buffer)[0]!;
    return [...new Float32Array(Int32Array.of(bits - 1, bits, bits + 1).buffer)];
  }

  test("codes of Q8_0 and Q8_1 are rounded half away from zero, to the last bit", async () => {
    const own = await Core.load(build);
    for (let k = 0; k < 127; k++) {
      const some = aroundHalf(k);
      const x = new Float32Array(32).fill(127, 31); // the scale is 1
      x.set([...some, ...some.map((v) => -v)]);
      const want = Int8Array.from(x, (v) => Math.sign(v) * Math.floor(Math.abs(v) + 0.5));
      expect(new Int8Array(own.quantize(Type.Q8_0, x).slice(2).buffer)).toEqual(want);
      expect(new Int8Array(own.quantize(Type.Q8_1, x).slice(4).buffer)).toEqual(want);
    }
  });

  test.each([
    ["an infinity", 1 / 0],
    ["a negative infinity", -1 / 0],
    ["a NaN", 0 / 0],
    ["nothing but zeros", 0],
  ])("a block with %s has codes of 0", async (_, v) => {
    const own = await Core.load(build);
    const x = new Float32Array(256);
    if (v !== 0) x.fill(3).fill(v, 200, 201);
    expect(own.quantize(Type.Q8_0, x.slice(192, 224)).slice(2)).toEqual(new Uint8Array(32));
    expect(own.quantize(Type.Q8_K, x).slice(4)).toEqual(new Uint8Array(288));
  });

  test("the scale of Q8_K has the sign of the first of the largest", async () => {
    const own = await Core.load(build);
    for (const [first, second] of [
      [3, 4],
      [5, 200],
      [251, 252],
    ] as const) {
      for (const sign of [1, -1]) {
        const x = new Float32Array(256).fill(0.5);
        x[first] = 2 * sign;
        x[second] = -2 * sign;
        const y = own.quantize(Type.Q8_K, x);
        expect(new Int8Array(y.buffer)[4 + first]).toBe(-127);
        expect(new Int8Array(y.buffer)[4 + second]).toBe(127);
      }
    }
  });
});

test("casts by search give the same bytes on one thread and on three, from F32 and F16", async () => {
  const x = samples(256 * 7, stream(5));
  const cast = async (nThreads: number, from: Type, type: Type, weighed: boolean): Promise<Uint8Array> => {
    using engine = await createEngine({ nThreads });
    await engine.arrived;
    using g = engine.graph();
    const src = g.input("x", from, [256, 7]);
    const importance = weighed ? g.input("importance", Type.F32, [256]) : undefined;
    const y = g.cast(src, type, importance).asOutput();
    g.plan();
    src.write(from === Type.F32 ? x : core.quantize(from, x));
    importance?.write(x.subarray(0, 256).map(Math.abs));
    await g.compute();
    return y.readBytes();
  };
  for (const type of [Type.Q2_K, Type.Q6_K, Type.IQ4_XS]) {
    for (const weighed of [false, true]) {
      const once = await cast(1, Type.F32, type, weighed);
      expect(await cast(3, Type.F32, type, weighed)).toEqual(once);
      const row = x.subarray(0, 256);
      const alone = core.quantize(type, row, weighed ? row.map(Math.abs) : undefined);
      expect(once.subarray(0, alone.length)).toEqual(alone);
    }
    const halves = core.dequantize(Type.F16, core.quantize(Type.F16, x), x.length);
    expect(await cast(2, Type.F16, type, false)).toEqual(core.quantize(type, halves));
  }
});

describe("importance of columns", () => {
  const n = 1024;
  const x = samples(n, stream(11)).map((v, i) => v * (i % 7 === 0 ? 3 : 1));
  // a few columns matter far more than others
  const importance = Float32Array.from({ length: n }, (_, i) => (i % 16 === 5 ? 40 : 0.5 + (i % 3)));
  const loss = (y: Float32Array): number =>
    y.reduce((sum, v, i) => sum + importance[i]! * (v - x[i]!) ** 2, 0);

  test.each(WEIGHED.map((t) => [Type[t], t] as const))("%s: the weighed error is less", (_, type) => {
    const plain = core.dequantize(type, core.quantize(type, x), n);
    const weighed = core.dequantize(type, core.quantize(type, x, importance), n);
    expect(loss(weighed)).toBeLessThan(loss(plain));
  });

  test.each(WEIGHED.map((t) => [Type[t], t] as const))(
    "%s: zeros stay zeros, only NaN comes of a NaN, nothing traps",
    (_, type) => {
      const { blockSize } = typeInfo(type)!;
      const y = new Float32Array(3 * blockSize);
      const ones = new Float32Array(3 * blockSize).fill(1);
      const zero = core.dequantize(type, core.quantize(type, y, ones), y.length);
      expect(zero.every((v) => v === 0)).toBe(true);
      y[blockSize + 5] = NaN;
      const bad = core.dequantize(type, core.quantize(type, y, ones), y.length);
      expect(bad.subarray(blockSize, 2 * blockSize).every(Number.isNaN)).toBe(true);
      const bits = Uint32Array.from({ length: 1024 }, () => (stream(type)() + 1) * 2 ** 31);
      core.quantize(type, new Float32Array(bits.buffer).fill(Infinity, 0, 3), new Float32Array(1024));
    },
  );
});
