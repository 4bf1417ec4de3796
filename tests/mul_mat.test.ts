// MUL_MAT against double precision: every type, as rows and as panels, alone and in a batch, by one thread and three.
import { describe, expect, test } from "vitest";
import { CTRL_VECTORS, CTRL_WIDE, Op, SRC_LIVE } from "../assembly/abi.ts";
import { dotType, mulMatDef } from "../ts/ops/mul_mat.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { type Strides } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { PRODUCTS, type Product, multiply } from "./cases/mul_mat.ts";
import { BUILDS, Core, type Stored, nmse, samples, stream, weights } from "./core.ts";

const FLOATS = [Type.F32, Type.F16, Type.BF16];
const BLOCKS = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.IQ4_NL, Type.MXFP4];
const SUPER_BLOCKS = [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_XS];
// The activations as the kernel gets them.
function partner(type: Type): Type {
  return typeInfo(type)!.blockSize === 1 ? Type.F32 : dotType(type);
}

interface Operands {
  readonly a: Stored;
  readonly b: Stored;
  readonly k: number;
  readonly values: { readonly a: Float32Array; readonly b: Float32Array };
}

function operands(core: Core, type: Type, p: Product): Operands {
  const { blockSize } = typeInfo(type)!;
  const k = Math.ceil(p.k / blockSize) * blockSize;
  const [a2, a3, r2, r3] = p.batch ?? [1, 1, 1, 1];
  const next = stream(p.m + 100 * p.n + type);
  const bytes = weights(core, type, k * p.m * a2 * a3, next);
  const n = k * p.n * a2 * r2 * a3 * r3;
  const x = core.quantize(partner(type), samples(n, next));
  return {
    a: core.leaf(type, [k, p.m, a2, a3], bytes),
    b: core.leaf(partner(type), [k, p.n, a2 * r2, a3 * r3], x),
    k,
    values: { a: core.dequantize(type, bytes, k * p.m * a2 * a3), b: core.dequantize(partner(type), x, n) },
  };
}

function product(core: Core, a: Stored, b: Stored, live?: Stored): Stored {
  const ne = [a.ne[1], b.ne[1], b.ne[2], b.ne[3]];
  const src: (Stored | undefined)[] = [a, b];
  if (live) src[SRC_LIVE] = live;
  const { ne: inferred } = mulMatDef.infer([a, b]);
  expect(inferred).toEqual(ne);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne: inferred, nb: [4, 0, 0, 0] }, [a, b], 1);
  return core.compute({ op: Op.MUL_MAT, src, scratch }, Type.F32, ne);
}

// Column i of b by itself.
function column(core: Core, b: Stored, i: number): Stored {
  return core.leaf(b.type, [b.ne[0]], b.data + i * b.nb[1]);
}

describe.each(BUILDS)("mul_mat, %s", (build) => {
  test.each([...FLOATS, ...BLOCKS, ...SUPER_BLOCKS].map((t) => [Type[t], t] as const))(
    "%s is the product of the decoded values for odd sizes",
    async (_, type) => {
      const core = await Core.load(build);
      // The sums of Q8_1 blocks are rounded to f16.
      const limit = dotType(type) === Type.Q8_1 ? 1e-4 : 1e-11;
      for (const p of PRODUCTS) {
        core.reset();
        const { a, b, k, values } = operands(core, type, p);
        expect(
          nmse(core.read(product(core, a, b)), multiply(p, k, values.a, values.b)),
          JSON.stringify(p),
        ).toBeLessThan(limit);
      }
    },
  );

  test.each([...FLOATS, ...BLOCKS, ...SUPER_BLOCKS].map((t) => [Type[t], t] as const))(
    "%s gives the same bits for a column alone and in a batch",
    async (_, type) => {
      const core = await Core.load(build);
      for (const p of PRODUCTS.filter((q) => q.n > 1 && !q.batch)) {
        core.reset();
        const { a, b } = operands(core, type, p);
        const all = core.read(product(core, a, b));
        for (let i = 0; i < p.n; i++) {
          expect(core.read(product(core, a, column(core, b, i)))).toEqual(all.slice(i * p.m, (i + 1) * p.m));
        }
      }
    },
  );

  test("rows of no weights give zeros", async () => {
    const core = await Core.load(build);
    for (const type of [...FLOATS, ...BLOCKS, ...SUPER_BLOCKS]) {
      for (const n of [1, 5]) {
        core.reset();
        const { a, b } = operands(core, type, { m: 3, n, k: 0 });
        expect([...core.read(product(core, a, b))]).toEqual(Array(3 * n).fill(0));
      }
    }
  });

  test.each([Type.F32, Type.Q4_0, Type.Q8_0, Type.Q4_K].map((t) => [Type[t], t] as const))(
    "%s gives the same bits for columns alone and among more than are spread out at a time",
    async (_, type) => {
      const core = await Core.load(build);
      for (const [m, n, k] of [
        [9, 261, 256],
        [9, 133, 8448],
      ] as const) {
        core.reset();
        const { a, b } = operands(core, type, { m, n, k });
        for (const wider of [0, 1]) {
          core.bytes[CTRL_VECTORS] = wider;
          const all = core.read(product(core, a, b));
          for (const i of [0, 5, 63, 64, 122, 124, 131, n - 1]) {
            expect(core.read(product(core, a, column(core, b, i)))).toEqual(all.slice(i * m, (i + 1) * m));
          }
        }
      }
    },
  );

  test("columns in groups of six, for engines with a dot of one instruction, have the bits of groups of four", async () => {
    const [four, six] = [await Core.load(build), await Core.load(build)];
    const [UNKNOWN, UNSIGNED] = [0, 1]; // as probeDot() would have it, whatever this engine's dot is
    for (const type of [Type.Q4_0, Type.Q5_0, Type.MXFP4]) {
      for (const [m, n, k] of [12, 13, 14, 15, 16, 17, 64, 261].map(
        (columns) => [11, columns, 96] as const,
      )) {
        const results = [four, six].map((core, i) => {
          core.reset();
          core.bytes[CTRL_WIDE] = [UNKNOWN, UNSIGNED][i]!;
          const { a, b } = operands(core, type, { m, n, k });
          return core.read(product(core, a, b));
        });
        expect(results[1], `${Type[type]}, ${n} columns`).toEqual(results[0]);
      }
    }
  });

  test("an element of Q4_0 and Q8_0 is the f32 sum, in block order, of exact integer sums times scales", async () => {
    const core = await Core.load(build);
    core.probeDot(); // where it takes signed bytes: sums of pairs cannot hold a pair of -128 times -128
    const next = stream(5);
    for (const type of [Type.Q4_0, Type.Q8_0]) {
      for (const [nb, n] of [
        [1, 1],
        [3, 1],
        [4, 1],
        [9, 1],
        [9, 4],
        [64, 5],
      ] as const) {
        core.reset();
        const a = extremes(type, nb, next);
        const b = Array.from({ length: n }, () => extremes(Type.Q8_0, nb, next));
        const y = product(
          core,
          core.leaf(type, [32 * nb], a.bytes),
          core.leaf(Type.Q8_0, [32 * nb, n], Uint8Array.from(b.flatMap((x) => [...x.bytes]))),
        );
        expect(core.read(y)).toEqual(Float32Array.from(b, (x) => blockDot(a, x)));
      }
    }
  });

  test("infinite, NaN and subnormal scales go through as arithmetic says", async () => {
    const core = await Core.load(build);
    const one = core.leaf(
      Type.Q8_0,
      [32],
      blocksOf(Type.Q8_0, [0x3c00], () => 1),
    );
    for (const type of [Type.Q4_0, Type.Q8_0]) {
      const dot = (d: number): number =>
        core.read(
          product(
            core,
            core.leaf(
              type,
              [32],
              blocksOf(type, [d], () => 1),
            ),
            one,
          ),
        )[0]!;
      expect(dot(0x7c00)).toBe(Infinity);
      expect(dot(0xfc00)).toBe(-Infinity);
      expect(dot(0x7e00)).toBeNaN();
      expect(dot(0x0001)).toBe(32 * 2 ** -24);
      expect(dot(0x83ff)).toBe(-32 * 1023 * 2 ** -24);
    }
  });

  test("a NaN in an f32 activation reaches every row, whatever the weights", async () => {
    const core = await Core.load(build);
    const x = samples(96, stream(3));
    x[40] = NaN;
    for (const type of [Type.Q4_0, Type.Q5_1, Type.Q8_0]) {
      const a = core.leaf(type, [96, 3], weights(core, type, 288, stream(4)));
      const b = core.leaf(dotType(type), [96], core.quantize(dotType(type), x));
      expect([...core.read(product(core, a, b))]).toEqual([NaN, NaN, NaN]);
    }
  });

  test("only live columns are computed", async () => {
    const core = await Core.load(build);
    for (const type of [Type.F32, Type.Q8_0, Type.Q4_K]) {
      for (const live of [0, 1, 3, 5, 9, 12]) {
        const { a, b } = operands(core, type, { m: 9, n: 9, k: 64 });
        const count = core.leaf(Type.I32, [1], Int32Array.of(live));
        const all = core.read(product(core, a, b));
        const n = 9 * Math.min(live, 9);
        const some = core.read(product(core, a, b, count));
        expect(some.slice(0, n)).toEqual(all.slice(0, n));
        expect(some.slice(n).every(Number.isNaN)).toBe(true);
      }
    }
  });

  test("rows may have gaps and columns may lie in any order", async () => {
    const core = await Core.load(build);
    for (const type of [Type.F32, Type.F16, Type.Q8_0]) {
      const { a, b } = operands(core, type, { m: 12, n: 12, k: 64 });
      const all = core.read(product(core, a, b));
      const every = (r: Stored, step: number, count: number): Stored =>
        core.leaf(r.type, [64, count], r.data, [r.nb[0], r.nb[1] * step, r.nb[2], r.nb[3]] as Strides);
      for (const n of [2, 6]) {
        const y = core.read(product(core, every(a, 3, 4), every(b, 2, n)));
        for (let c = 0; c < n; c++) {
          for (let r = 0; r < 4; r++) expect(y[c * 4 + r]).toBe(all[2 * c * 12 + 3 * r]);
        }
      }
    }
  });
});

test("both builds give the same bits for weights in blocks", async () => {
  const results = await Promise.all(
    BUILDS.map(async (build) => {
      const core = await Core.load(build);
      return [...BLOCKS, ...SUPER_BLOCKS].flatMap((type) => {
        core.reset();
        const { a, b } = operands(core, type, { m: 9, n: 5, k: 520 });
        return [...core.read(product(core, a, b))];
      });
    }),
  );
  for (const r of results) expect(r).toEqual(results[0]);
});

test("three threads give the bits of one", async () => {
  const out: Float32Array[] = [];
  for (const nThreads of [1, 3]) {
    using engine = await createEngine({ nThreads });
    await engine.arrived;
    const core = await Core.load();
    for (const type of [Type.F32, Type.F16, Type.Q4_0, Type.Q5_1, Type.Q6_K]) {
      for (const n of [1, 2, 7]) {
        using g = engine.graph();
        const a = g.input("a", type, [512, 21]);
        const b = g.input("b", Type.F32, [512, n]);
        const y = g.mulMat(a, b).asOutput("y");
        g.plan();
        a.write(weights(core, type, 512 * 21, stream(7)));
        b.write(samples(512 * n, stream(8)));
        await g.compute();
        out.push((await y.read()) as Float32Array);
      }
    }
  }
  const half = out.length / 2;
  for (let i = 0; i < half; i++) expect(out[half + i]).toEqual(out[i]);
});

interface Blocks {
  readonly bytes: Uint8Array;
  readonly scales: readonly number[];
  /** codes less the zero point */
  readonly codes: readonly number[];
}

const half = new Float32Array(1);

function f16(h: number): number {
  const e = (h >> 10) & 31;
  const size = e === 0 ? (h & 1023) * 2 ** -24 : (1 + (h & 1023) / 1024) * 2 ** (e - 15);
  half[0] = h & 0x8000 ? -size : size;
  return half[0];
}

// A row of blocks with given scales; code(i) is what the weight counts as.
function blocksOf(type: Type, scales: readonly number[], code: (i: number) => number): Uint8Array {
  const { typeSize } = typeInfo(type)!;
  const bytes = new Uint8Array(typeSize * scales.length);
  scales.forEach((d, b) => {
    const at = b * typeSize;
    bytes[at] = d & 255;
    bytes[at + 1] = d >> 8;
    for (let j = 0; j < 32; j++) {
      const q = code(32 * b + j);
      if (type === Type.Q8_0) bytes[at + 2 + j] = q & 255;
      else bytes[at + 2 + (j % 16)]! |= (q + 8) << (j < 16 ? 0 : 4);
    }
  });
  return bytes;
}

// Codes that reach both ends of their range, -128 included.
function extremes(type: Type, nb: number, next: () => number): Blocks {
  const top = type === Type.Q8_0 ? 128 : 8;
  const codes = Array.from({ length: 32 * nb }, (_, i) => {
    const q = Math.floor(next() * 1.5 * top);
    return i < 32 ? -top : Math.max(-top, Math.min(top - 1, q));
  });
  const scales = Array.from({ length: nb }, () => 0x2000 + Math.floor((next() + 1) * 0x800));
  return { bytes: blocksOf(type, scales, (i) => codes[i]!), scales: scales.map(f16), codes };
}

function blockDot(a: Blocks, b: Blocks): number {
  let sum = 0;
  a.scales.forEach((d, i) => {
    let dot = 0;
    for (let j = 32 * i; j < 32 * i + 32; j++) dot += a.codes[j]! * b.codes[j]!;
    sum = Math.fround(sum + Math.fround(Math.fround(dot) * Math.fround(d * b.scales[i]!)));
  });
  return sum;
}
