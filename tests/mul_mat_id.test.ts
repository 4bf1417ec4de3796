// MUL_MAT_ID gives the bits of MUL_MAT with the matrix of each id, for every type of weights, live count and thread.
import { describe, expect, test } from "vitest";
import { Flag } from "../assembly/abi.ts";
import { leaf } from "../ts/graph/tensor.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, isQuantized } from "../ts/types.ts";
import { BUILDS, Core, samples, stream } from "./core.ts";

const TYPES = [
  Type.F32,
  Type.F16,
  Type.BF16,
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.IQ4_NL,
  Type.MXFP4,
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_XS,
];
/** Rows of weights, matrices, ids for a token, tokens. */
const [M, X, N, T] = [11, 4, 3, 21];
const K = 256;

const idsOf = (tokens: number): Int32Array =>
  Int32Array.from({ length: N * tokens }, (_, i) => (7 * i + (i >> 2)) % X);
const ids = idsOf(T);

// Quantised where the core can; random bits with small scales where it only reads.
async function weights(type: Type, m = M): Promise<Uint8Array> {
  const core = await Core.load("simd");
  const next = stream(type + 1);
  const bytes = new Uint8Array(X * m * rowBytes(type, K));
  try {
    bytes.set(core.quantize(type, samples(X * m * K, next)));
  } catch {
    // every f16 at any place is finite and small
    for (let i = 0; i < bytes.length; i++) bytes[i] = 128 * (next() + 1) * (i % 2 === 1 ? 0.1 : 1);
  }
  return bytes;
}

async function products(type: Type, nThreads: number, build: "simd" | "relaxed"): Promise<Float32Array[]> {
  using engine = await createEngine({ nThreads, wasm: build });
  await engine.arrived;
  using g = engine.graph();
  const a = g.weight("a", type, [K, M, X]);
  const b = g.input("b", Type.F32, [K, N, T]);
  const i = g.input("ids", Type.I32, [N, T]);
  const chosen = g.mulMatId(a, b, i).asOutput();
  const nb1 = rowBytes(type, K);
  const each = Array.from({ length: X }, (_, x) =>
    g.mulMat(g.view(a, [K, M], { nb: [nb1], offset: x * M * nb1 }), g.reshape(b, [K, N * T])).asOutput(),
  );
  g.plan();
  a.write(await weights(type));
  b.write(samples(K * N * T, stream(5)));
  i.write(ids);
  await g.compute();
  const all = await Promise.all([chosen, ...each].map(async (y) => (await y.read()) as Float32Array));
  return all;
}

// The same of matrices with 24 rows, in file order or in quads.
async function laid(
  type: Type,
  build: "simd" | "relaxed",
  quads: boolean,
  tokens: number,
  nThreads: number,
): Promise<Uint32Array> {
  using engine = await createEngine({ nThreads, wasm: build });
  await engine.arrived;
  const a = leaf("a", type, [K, 24, X]);
  engine.allocate([a], "weights");
  a.write(await weights(type, 24));
  if (quads) engine.toQuads([a]);
  expect(a.flags & Flag.QUADS).toBe(quads ? Flag.QUADS : 0);
  using g = engine.graph();
  const b = g.input("b", Type.F32, [K, 1, tokens]);
  const i = g.input("ids", Type.I32, [N, tokens]);
  const y = g.mulMatId(a, b, i).asOutput();
  g.plan();
  b.write(samples(K * tokens, stream(6)));
  i.write(idsOf(tokens));
  await g.compute();
  return new Uint32Array(((await y.read()) as Float32Array).buffer);
}

describe.each(BUILDS.filter((b) => b !== "debug"))("mul_mat_id, %s", (build) => {
  test.each(TYPES.map((t) => [Type[t], t] as const))("%s: the bits of mul_mat", async (_, type) => {
    const [chosen, ...each] = await products(type, 1, build as "simd");
    const want = Array.from(ids, (id, c) => Array.from(each[id]!.slice(c * M, (c + 1) * M)));
    expect(Array.from(chosen!)).toEqual(want.flat());
    expect(want.flat().every(Number.isFinite)).toBe(true);
    expect((await products(type, 3, build as "simd"))[0]).toEqual(chosen);
  });

  test.each(TYPES.filter(isQuantized).map((t) => [Type[t], t] as const))(
    "%s in quads: the bits of file order, for one token and for more columns than go at a time",
    async (_, type) => {
      for (const tokens of [1, 90]) {
        const want = await laid(type, build as "simd", false, tokens, 1);
        expect(await laid(type, build as "simd", true, tokens, 1)).toEqual(want);
        expect(await laid(type, build as "simd", true, tokens, 2)).toEqual(want);
      }
    },
  );
});

test("only live tokens are computed, and ids outside the matrices end the run", async () => {
  using engine = await createEngine({ nThreads: 1 });
  using g = engine.graph();
  const a = g.input("a", Type.F32, [2, 3, 2]);
  const b = g.input("b", Type.F32, [2, 1, 4]);
  const i = g.input("ids", Type.I32, [2, 4]);
  g.live = g.input("live", Type.I32, [1]);
  const { live } = g;
  const y = g.mulMatId(a, b, i).asOutput();
  g.plan();
  a.write(Float32Array.from({ length: 12 }, (_, k) => k));
  b.write(Float32Array.from({ length: 8 }, (_, k) => k + 1));
  i.write(Int32Array.of(0, 1, 1, 0, 9, 9, 9, 9));
  live.write(Int32Array.of(2));
  await g.compute();
  const got = (await y.read()) as Float32Array;
  expect(Array.from(got.slice(0, 12))).toEqual([2, 8, 14, 20, 26, 32, 46, 60, 74, 4, 18, 32]);
  live.write(Int32Array.of(3));
  await expect(g.compute()).rejects.toMatchObject({ code: "trap" });
});
