// Products, attention and sorting on a GPU against double precision: every type of weights and cells, odd sizes, batches,
// windows into large matrices, rows split among workgroups.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Op, SRC_LIVE } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { flashAttnExtDef } from "../ts/ops/flash_attn_ext.ts";
import { mulMatDef, WEIGHTS } from "../ts/ops/mul_mat.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import type { GpuBackend } from "../ts/webgpu/backend.ts";
import {
  ATTENTIONS,
  type Attention,
  type AttentionData,
  attend,
  BATCHES,
  spansOf,
} from "./cases/flash_attn_ext.ts";
import { multiply, type Product, PRODUCTS } from "./cases/mul_mat.ts";
import { Core, nmse, samples, stream, weights } from "./core.ts";
import { describeGpu } from "./gpu_describe.ts";
import { GpuEngines } from "./gpu_engines.ts";

/** Builds one node over inputs, runs it, reads the result. */
async function compute(
  engine: Engine,
  data: ReadonlyMap<string, readonly [type: Type, ne: readonly number[], bytes: Uint8Array]>,
  node: (g: Graph, x: (name: string) => Tensor) => Tensor,
): Promise<Float32Array | Int32Array> {
  using g = engine.graph();
  const leafs = new Map(
    [...data].map(([name, [type, ne]]) => [
      name,
      name === "a" ? g.weight(name, type, ne) : g.input(name, type, ne),
    ]),
  );
  const y = node(g, (name) => leafs.get(name)!).asOutput();
  g.plan();
  for (const [name, [, , bytes]] of data) leafs.get(name)!.write(bytes);
  await g.compute();
  return (await y.read()) as Float32Array;
}

const raw = (a: Float32Array | Int32Array): Uint8Array =>
  new Uint8Array(a.buffer, a.byteOffset, a.byteLength);

interface Factors {
  readonly k: number;
  readonly a: readonly [Type, readonly number[], Uint8Array];
  readonly b: readonly [Type, readonly number[], Uint8Array];
  readonly want: Float64Array;
}

function factors(core: Core, type: Type, p: Product): Factors {
  const { blockSize } = typeInfo(type)!;
  const k = Math.ceil(p.k / blockSize) * blockSize;
  const [a2, a3, r2, r3] = p.batch ?? [1, 1, 1, 1];
  const next = stream(p.m + 100 * p.n + type);
  core.reset();
  const n = k * p.m * a2 * a3;
  const bytes = weights(core, type, n, next);
  const x = samples(k * p.n * a2 * r2 * a3 * r3, next);
  return {
    k,
    a: [type, [k, p.m, a2, a3], bytes],
    b: [Type.F32, [k, p.n, a2 * r2, a3 * r3], raw(x)],
    want: multiply(p, k, core.dequantize(type, bytes, n), x),
  };
}

async function product(engine: Engine, { a, b }: Factors, live?: number): Promise<Float32Array> {
  const data: Cells["data"] = new Map();
  data.set("a", a).set("b", b);
  if (live !== undefined) data.set("live", [Type.I32, [1], raw(Int32Array.of(live))]);
  const y = await compute(engine, data, (g, x) => {
    const src: (Tensor | undefined)[] = [x("a"), x("b")];
    if (live !== undefined) src[SRC_LIVE] = x("live");
    return g.node(Op.MUL_MAT, mulMatDef, src);
  });
  return y as Float32Array;
}

interface Cells {
  readonly data: Map<string, readonly [Type, readonly number[], Uint8Array]>;
  readonly exact: AttentionData;
}

// What no token may see is NaN (0xff bytes) in the cache.
function cellsOf(core: Core, a: Attention): Cells {
  core.reset();
  const next = stream(a.d + a.tokens);
  const size = a.size ?? 1;
  const data: Cells["data"] = new Map();
  const cache = (name: string, d: number): Float32Array => {
    const n = d * a.cells * a.kvHeads;
    const bytes = core
      .quantize(
        a.type,
        samples(n, next).map((x) => x * size),
      )
      .slice();
    const values = core.dequantize(a.type, bytes, n);
    const row = rowBytes(a.type, d);
    const live = a.p0 === undefined ? a.cells : a.p0 + a.tokens;
    for (let h = 0; h < a.kvHeads; h++) bytes.fill(0xff, (h * a.cells + live) * row, (h + 1) * a.cells * row);
    data.set(name, [a.type, [d, a.cells, a.kvHeads], bytes]);
    return values;
  };
  const q = samples(a.d * a.tokens * a.heads, next).map((x) => 2 * x * size);
  data.set("q", [Type.F32, [a.d, a.tokens, a.heads], raw(q)]);
  const [k, v] = [cache("k", a.d), cache("v", a.dv)];
  const mask = a.mask ? maskOf(a, next) : undefined;
  const sinks = a.sinks ? samples(a.heads, next).map((x) => 3 * x) : undefined;
  if (mask) data.set("mask", [Type.F32, [a.cells, a.tokens], raw(mask)]);
  if (sinks) data.set("sinks", [Type.F32, [a.heads], raw(sinks)]);
  if (a.p0 !== undefined) data.set("length", [Type.I32, [2], raw(Int32Array.of(a.p0 + a.tokens, a.p0))]);
  if (a.texts) data.set("spans", [Type.I32, [2, a.tokens], raw(Int32Array.from(spansOf(a).flat()))]);
  return { data, exact: { q, k, v, mask, sinks, scale: Math.fround(1 / Math.sqrt(a.d)) } };
}

// A third hidden at random, and everything in the first row.
function maskOf(a: Attention, next: () => number): Float32Array {
  const mask = samples(a.cells * a.tokens, next).map((x) => (x < -0.3 ? -Infinity : x));
  return mask.fill(-Infinity, 0, a.cells);
}

async function attention(engine: Engine, a: Attention, { data, exact }: Cells): Promise<Float32Array> {
  const { maxBias = 0, softcap = 0, window = 0, twoSided = false } = a;
  const y = await compute(engine, data, (g, x) => {
    const src = ["q", "k", "v", "mask", "sinks", "length", "spans"].map(x);
    return g.node(Op.FLASH_ATTN_EXT, flashAttnExtDef, src, {
      scale: exact.scale,
      maxBias,
      softcap,
      window,
      twoSided,
    });
  });
  return y as Float32Array;
}

const BASE = { d: 64, dv: 64, tokens: 1, heads: 4, kvHeads: 2, cells: 2000, type: Type.F16 };
/** One token and many cells: several workgroups share a row. */
const LONG: readonly Attention[] = [
  { ...BASE, title: "a long cache", p0: 1500 },
  {
    ...BASE,
    title: "a long cache, one head of 31 and 33",
    d: 31,
    dv: 33,
    heads: 1,
    kvHeads: 1,
    p0: 1999,
    type: Type.F32,
  },
  { ...BASE, title: "a long cache of few live cells, sinks", p0: 3, sinks: true },
  {
    ...BASE,
    title: "a long cache, heads of 576 and 512",
    d: 576,
    dv: 512,
    heads: 5,
    kvHeads: 1,
    p0: 700,
    tokens: 2,
  },
];

await describeGpu("on a GPU", () => {
  const engines = new GpuEngines();
  let core: Core;
  let engine: Engine;
  let backend: GpuBackend;

  beforeAll(async () => {
    core = await Core.load("simd");
    ({ engine, backend } = await engines.open());
  });

  afterAll(() => {
    expect(backend.gpu.failure).toBeUndefined();
    engines.dispose();
  });

  describe("mul_mat", () => {
    test.each(WEIGHTS.map((t) => [Type[t], t] as const))("%s, a column and a tile", async (_, type) => {
      for (const p of [
        { m: 17, n: 1, k: 99 },
        { m: 33, n: 34, k: 129 },
      ]) {
        const f = factors(core, type, p);
        expect(nmse(await product(engine, f), f.want), JSON.stringify(p)).toBeLessThan(1e-11);
      }
    });

    test.each([Type.F16, Type.Q4_0].map((t) => [Type[t], t] as const))(
      "%s, few columns, many, and batches",
      async (_, type) => {
        for (const p of PRODUCTS) {
          const f = factors(core, type, p);
          expect(nmse(await product(engine, f), f.want), JSON.stringify(p)).toBeLessThan(1e-11);
        }
      },
    );

    test("rows that do not fit into a binding are read through windows", async () => {
      const { engine: small } = await engines.open({ maxBinding: 16384 });
      for (const n of [1, 6]) {
        const f = factors(core, Type.Q8_0, { m: 301, n, k: 128 });
        expect(nmse(await product(small, f), f.want)).toBeLessThan(1e-11);
      }
    });

    test("columns behind the live ones are left out", async () => {
      const f = factors(core, Type.F32, { m: 9, n: 5, k: 64 });
      const y = await product(engine, f, 2);
      expect(nmse(y.slice(0, 18), f.want.slice(0, 18))).toBeLessThan(1e-11);
    });
  });

  describe("flash_attn_ext", () => {
    const all = [...ATTENTIONS, ...BATCHES].filter((_, i) => i % 2 === 1);
    test.each([...all, ...LONG].map((a) => [a.title, a] as const))("%s", async (_, a) => {
      const cells = cellsOf(core, a);
      expect(nmse(await attention(engine, a, cells), attend(a, cells.exact))).toBeLessThan(1e-10);
    });
  });

  describe("sorting", () => {
    test.each([1, 63, 64, 65, 257, 1000, 4097])("rows of %i, with ties and NaN", async (n) => {
      const next = stream(n);
      const x = samples(3 * n, next).map((v) => (v > 0.9 ? NaN : Math.round(8 * v)));
      const data = new Map([["x", [Type.F32, [n, 3], raw(x)] as const]]);
      const rank = (v: number, descending: boolean): number =>
        Number.isNaN(v) ? Infinity : descending ? -v : v;
      const order = (descending: boolean): number[] =>
        [0, 1, 2].flatMap((r) => {
          const key = (i: number): number => rank(x[r * n + i]!, descending);
          return Array.from({ length: n }, (_, i) => i).sort((i, j) =>
            key(i) === key(j) ? i - j : key(i) - key(j),
          );
        });
      const k = Math.min(n, 40);
      const down = order(true);
      expect([...(await compute(engine, data, (g, at) => g.argsort(at("x"), "asc")))]).toEqual(order(false));
      expect([...(await compute(engine, data, (g, at) => g.argsort(at("x"), "desc")))]).toEqual(down);
      expect([...(await compute(engine, data, (g, at) => g.topK(at("x"), k)))]).toEqual(
        [0, 1, 2].flatMap((r) => down.slice(r * n, r * n + k)),
      );
      expect([...(await compute(engine, data, (g, at) => g.argmax(at("x"))))]).toEqual(
        [0, 1, 2].map((r) => down[r * n]),
      );
    });
  });
});
