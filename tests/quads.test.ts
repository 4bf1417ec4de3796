// Weights in quads against the same weights in file order: the layout and back, products and rows, in both builds.
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { CTRL_VECTORS, Flag, Op } from "../assembly/abi.ts";
import { quadLeafs } from "../ts/graph/quads.ts";
import { type Tensor, leaf } from "../ts/graph/tensor.ts";
import { loadModel } from "../ts/llm/index.ts";
import { dotType, mulMatDef } from "../ts/ops/mul_mat.ts";
import type { CpuBuffer } from "../ts/runtime/cpu.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import type { QuadWindows } from "../ts/runtime/quads.ts";
import { rowBytes } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { BUILDS, Core, type Stored, samples, stream } from "./core.ts";
import { dataDir, describeWith } from "./data.ts";

// Bytes of a block where f16 scales stand.
const SCALES: readonly (readonly [Type, readonly number[]])[] = [
  [Type.Q4_0, [0]],
  [Type.Q4_1, [0, 2]],
  [Type.Q5_0, [0]],
  [Type.Q5_1, [0, 2]],
  [Type.Q8_0, [0]],
  [Type.IQ4_NL, [0]],
  [Type.MXFP4, []],
  [Type.Q2_K, [80, 82]],
  [Type.Q3_K, [108]],
  [Type.Q4_K, [0, 2]],
  [Type.Q5_K, [0, 2]],
  [Type.Q6_K, [208]],
  [Type.IQ4_XS, [0]],
];
const TYPES = SCALES.map(([t]) => [Type[t], t] as const);
const SCALES_AT = new Map(SCALES);

// Random bits; scales of every exponent that can be stored, subnormal ones and both zeros included; of MXFP4 those that make
// a normal f32, and 0 for blocks of zeros of both signs.
function weights(type: Type, k: number, m: number, seed: number): Uint8Array {
  const next = stream(seed);
  const { typeSize } = typeInfo(type)!;
  const bytes = Uint8Array.from({ length: rowBytes(type, k) * m }, () => 128 * (next() + 1));
  for (let at = 0, i = 0; at < bytes.length; at += typeSize) {
    for (const offset of SCALES_AT.get(type)!) {
      const exponent = i++ % 21;
      const mantissa = i % 7 === 0 ? 0 : Math.floor(512 * (next() + 1));
      const h = (next() < 0 ? 0x8000 : 0) | (exponent << 10) | mantissa;
      bytes[at + offset] = h & 255;
      bytes[at + offset + 1] = h >> 8;
    }
    if (type === Type.MXFP4 && bytes[at]! < 50) {
      bytes[at] = 0;
      for (let i = 1; i < 17; i++) bytes[at + i]! &= 0x88;
    }
    if (type === Type.MXFP4 && bytes[at]! > 250) bytes[at]! -= 249;
  }
  return bytes;
}

// The same rows in quads. Throws when they cannot be.
function quads(core: Core, type: Type, k: number, m: number, bytes: Uint8Array): Stored {
  const t = core.leaf(type, [k, m], bytes);
  if (!core.toQuads(type, t.data, rowBytes(type, k), m)) throw new Error("not put in quads");
  core.setFlags(t, Flag.QUADS);
  return t;
}

function product(core: Core, a: Stored, b: Stored): Float32Array {
  const { ne } = mulMatDef.infer([a, b]);
  const scratch = mulMatDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, [a, b], 1);
  return core.read(core.compute({ op: Op.MUL_MAT, src: [a, b], scratch }, Type.F32, ne));
}

// Activations, with a block of zeros and one of large values.
function activations(core: Core, type: Type, k: number, n: number): Stored {
  const x = samples(k * n, stream(k + n));
  x.fill(0, 0, 16);
  for (let i = 32; i < Math.min(64, x.length); i++) x[i]! *= 1000;
  return core.leaf(dotType(type), [k, n], core.quantize(dotType(type), x));
}

// Scales of 1; all other bytes as `fill` says.
function extremes(type: Type, k: number, m: number, fill: () => number): Uint8Array {
  const bytes = Uint8Array.from({ length: rowBytes(type, k) * m }, fill);
  for (let at = 0; at < bytes.length; at += typeInfo(type)!.typeSize) {
    for (const offset of SCALES_AT.get(type)!) bytes.set([0, 0x3c], at + offset);
    if (type === Type.MXFP4) bytes[at] = 128;
  }
  return bytes;
}

// One column of k activations, scales of 1; sums of 16 where they belong to it.
function column(type: Type, k: number, fill: () => number): Uint8Array {
  const bytes = new Uint8Array(rowBytes(type, k));
  const { blockSize, typeSize } = typeInfo(type)!;
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += typeSize) {
    if (type === Type.Q8_K) view.setFloat32(at, 1, true);
    else view.setUint16(at, 0x3c00, true);
    if (type === Type.Q8_1) view.setUint16(at + 2, 0x3c00, true);
    const first = at + { [Type.Q8_0]: 2, [Type.Q8_1]: 4, [Type.Q8_K]: 4 }[type as Type.Q8_0]!;
    const sums = new Int16Array(16);
    for (let i = 0; i < blockSize; i++) {
      const x = fill();
      view.setInt8(first + i, x);
      sums[i >> 4]! += x;
    }
    if (type === Type.Q8_K) sums.forEach((x, i) => view.setInt16(first + blockSize + 2 * i, x, true));
  }
  return bytes;
}

function bits(x: Float32Array): Uint32Array {
  return new Uint32Array(x.buffer, x.byteOffset, x.length);
}

describe.each(BUILDS)("quads, %s", (build) => {
  test.each(TYPES)("%s goes to quads and back, byte for byte", async (_, type) => {
    const core = await Core.load(build);
    for (const [blocks, rows] of [
      [1, 8],
      [3, 16],
      [5, 72],
    ] as const) {
      core.reset();
      const k = blocks * typeInfo(type)!.blockSize;
      const bytes = weights(type, k, rows, blocks);
      const p = core.put(bytes);
      const guard = core.put(new Uint8Array(64).fill(0xa5));
      expect(core.toQuads(type, p, rowBytes(type, k), rows)).toBe(true);
      expect(core.bytes.slice(p, p + bytes.length)).not.toEqual(bytes);
      expect(core.fromQuads(type, p, rowBytes(type, k), rows)).toBe(true);
      expect(core.bytes.slice(p, p + bytes.length)).toEqual(bytes);
      expect(core.bytes.slice(guard, guard + 64).every((b) => b === 0xa5)).toBe(true);
    }
  });

  test("every f16 that can be lifted comes back, and no other is taken", async () => {
    const core = await Core.load(build);
    for (let h = 0; h < 0x10000; h += 61) {
      core.reset();
      const row = weights(Type.Q4_0, 32, 8, 1);
      row[90] = h & 255;
      row[91] = h >> 8;
      const p = core.put(row);
      const fits = (h & 0x7c00) <= 0x5000;
      expect(core.toQuads(Type.Q4_0, p, 18, 8)).toBe(fits);
      if (fits) core.fromQuads(Type.Q4_0, p, 18, 8);
      expect(core.bytes.slice(p, p + row.length)).toEqual(row);
    }
  });

  test("every exponent of MXFP4 but 1 comes back, 0 from blocks of zeros only", async () => {
    const core = await Core.load(build);
    for (let e = 0; e < 256; e++) {
      for (const code of [0x80, 0x08, 0x10, 0x07]) {
        core.reset();
        const row = new Uint8Array(8 * 17).fill(code);
        for (let r = 0; r < 8; r++) row[17 * r] = r === 6 ? e : 127;
        const p = core.put(row);
        const fits = e > 1 || (e === 0 && (code & 0x77) === 0);
        expect(core.toQuads(Type.MXFP4, p, 17, 8)).toBe(fits);
        if (fits) core.fromQuads(Type.MXFP4, p, 17, 8);
        expect(core.bytes.slice(p, p + row.length)).toEqual(row);
      }
    }
  });

  test("odd row counts, other types and scales of 64 and above stay as they are", async () => {
    const core = await Core.load(build);
    for (const [type, at] of [
      [Type.Q4_0, 7 * 18],
      [Type.Q4_K, 2 * 144 + 2],
      [Type.Q6_K, 3 * 210 + 208],
    ] as const) {
      const { blockSize, typeSize } = typeInfo(type)!;
      const p = core.put(weights(type, blockSize, 8, 2));
      for (const h of [0x5400, 0x7c00, 0xfe00]) {
        core.bytes[p + at] = h & 255;
        core.bytes[p + at + 1] = h >> 8;
        const before = core.bytes.slice(p, p + 8 * typeSize);
        expect(core.toQuads(type, p, typeSize, 8)).toBe(false);
        expect(core.bytes.slice(p, p + 8 * typeSize)).toEqual(before);
      }
    }
    for (const rows of [1, 3, 4, 31, 33, 36]) {
      const p = core.put(weights(Type.Q8_0, 32, rows, 3));
      expect(core.toQuads(Type.Q8_0, p, 34, rows)).toBe(false);
    }
    expect(core.toQuads(Type.F16, core.put(new Uint8Array(128)), 16, 8)).toBe(false);
  });

  test.each(TYPES)("%s products have the bits of file order for any number of columns", async (_, type) => {
    const core = await Core.load(build);
    for (const [blocks, m] of [
      [1, 8],
      [3, 24],
      [5, 32],
      [9, 40],
    ] as const) {
      for (const n of [1, 2, 3, 4, 5, 33]) {
        core.reset();
        const k = blocks * typeInfo(type)!.blockSize;
        const bytes = weights(type, k, m, 10 * m + n);
        const b = activations(core, type, k, n);
        const want = product(core, core.leaf(type, [k, m], bytes), b);
        const got = product(core, quads(core, type, k, m, bytes), b);
        expect(want.some((x) => x !== 0 && Number.isFinite(x))).toBe(true);
        expect(bits(got), `m ${m}, n ${n}, k ${k}`).toEqual(bits(want));
      }
    }
  });

  test.each(TYPES)(
    "%s has the same bits before the engine's dot is probed and after, when it may take any byte",
    async (_, type) => {
      const [core, wide] = [await Core.load(build), await Core.load(build)];
      wide.probeDot();
      for (const [blocks, m, n] of [
        [1, 8, 1],
        [3, 24, 2],
        [5, 72, 5],
        [9, 40, 33],
      ] as const) {
        const k = typeInfo(type)!.blockSize * blocks;
        const results = [core, wide].map((one) => {
          one.reset();
          const a = quads(one, type, k, m, weights(type, k, m, n));
          return bits(product(one, a, activations(one, type, k, n)));
        });
        expect(results[1]).toEqual(results[0]);
      }
    },
  );

  test.each(TYPES)("%s sums codes and activations at both ends of their ranges exactly", async (_, type) => {
    const [core, exact] = [await Core.load(build), await Core.load("simd")];
    const [k, m] = [2 * typeInfo(type)!.blockSize, 8];
    const next = stream(7);
    const either = (a: number, b: number) => () => (next() < 0 ? a : b);
    // 0x44: what is left of a level of IQ4_NL less 15 times its code is largest
    for (const codes of [() => 0xff, () => 0x77, () => 0x44, () => 0, either(0, 0xff)]) {
      for (const x of [() => 127, () => -127, () => -128, either(-128, 127), either(-128, 0)]) {
        const bytes = extremes(type, k, m, codes);
        const columns = column(dotType(type), k, x);
        const [got, want] = [core, exact].map((one) => {
          one.reset();
          const a = one === core ? quads(one, type, k, m, bytes) : one.leaf(type, [k, m], bytes);
          return bits(product(one, a, one.leaf(dotType(type), [k, 1], columns)));
        });
        expect(got).toEqual(want);
      }
    }
  });

  test.each(TYPES)(
    "%s sums both ends exactly for many columns, in registers of either width",
    async (_, type) => {
      const [core, exact] = [await Core.load(build), await Core.load("simd")];
      const [k, m, n] = [2 * typeInfo(type)!.blockSize, 8, 29];
      const next = stream(8);
      const either = (a: number, b: number) => () => (next() < 0 ? a : b);
      const ends = [() => 127, () => -127, () => -128, either(-128, 127), either(-128, 0)];
      for (const codes of [() => 0xff, () => 0x77, () => 0, either(0, 0xff)]) {
        const bytes = extremes(type, k, m, codes);
        const columns = Array.from({ length: n }, (_, i) => column(dotType(type), k, ends[i % ends.length]!));
        const x = Uint8Array.from(columns.flatMap((c) => [...c]));
        exact.reset();
        const want = product(exact, exact.leaf(type, [k, m], bytes), exact.leaf(dotType(type), [k, n], x));
        for (const wider of [0, 1]) {
          for (const lay of [quads, (one: Core) => one.leaf(type, [k, m], bytes)]) {
            core.reset();
            core.bytes[CTRL_VECTORS] = wider;
            const got = product(core, lay(core, type, k, m, bytes), core.leaf(dotType(type), [k, n], x));
            expect(bits(got)).toEqual(bits(want));
          }
        }
      }
    },
  );

  test.each(TYPES)("get_rows of %s has the bits of file order", async (_, type) => {
    const core = await Core.load(build);
    const k = 3 * typeInfo(type)!.blockSize;
    const bytes = weights(type, k, 24, 5);
    const ids = core.leaf(Type.I32, [8], Int32Array.of(23, 0, 14, 5, 1, 8, 19, 18));
    const rows = (table: Stored): Uint32Array =>
      bits(core.read(core.compute({ op: Op.GET_ROWS, src: [table, ids] }, Type.F32, [k, 8])));
    const want = rows(core.leaf(type, [k, 24], bytes));
    expect(rows(quads(core, type, k, 24, bytes))).toEqual(want);
  });
});

test("both builds lay the same bytes and give the same bits", async () => {
  const results = await Promise.all(
    BUILDS.map(async (build) => {
      const core = await Core.load(build);
      return TYPES.flatMap(([, type]) => {
        core.reset();
        const k = 3 * typeInfo(type)!.blockSize;
        const a = quads(core, type, k, 8, weights(type, k, 8, 6));
        const laid = core.bytes.slice(a.data, a.data + 8 * rowBytes(type, k));
        return [laid, ...[1, 5].map((n) => bits(product(core, a, activations(core, type, k, n))))];
      });
    }),
  );
  for (const r of results) expect(r).toEqual(results[0]);
});

// A leaf with random rows in an engine's memory.
function weightOf(engine: Engine, type: Type, k: number, m: number): Tensor {
  const w = leaf("w", type, [k, m]);
  engine.allocate([w], "weights");
  w.write(weights(type, k, m, 9));
  return w;
}

test.each([
  ["one pair of quads", 1],
  ["several pairs", 700],
] as const)(
  "rows on their way lie as they do when put in quads in place, through windows of %s",
  async (_, room) => {
    using engine = await createEngine({ nThreads: 1 });
    const rows = 24;
    for (const [, type] of TYPES) {
      const k = typeInfo(type)!.blockSize;
      const w = weightOf(engine, type, k, rows);
      const file = weights(type, k, rows, 9);
      engine.toQuads([w]);
      const t = leaf("t", type, [k, rows]);
      engine.allocate([t], "weights");
      const windows = engine.quadWindows([t], room);
      send(windows, t, file);
      windows.free();
      expect(t.flags & Flag.QUADS).toBe(Flag.QUADS);
      expect(bytesOf(engine, t)).toEqual(bytesOf(engine, w));
    }
  },
);

test("a scale of 64 in the last rows takes those before it back to file order", async () => {
  using engine = await createEngine({ nThreads: 1 });
  const { arena } = engine;
  for (const last of [23, 15, 0]) {
    const t = leaf("t", Type.Q8_0, [96, 24]);
    engine.allocate([t], "weights");
    const file = weights(Type.Q8_0, 96, 24, 4);
    file.set([0, 0x54], last * rowBytes(Type.Q8_0, 96));
    const used = arena.usedBytes;
    const windows = engine.quadWindows([t], 1);
    send(windows, t, file);
    expect(arena.usedBytes).toBe(used + windows.nBytes);
    windows.free();
    windows.free();
    expect(arena.usedBytes).toBe(used);
    expect(t.flags & Flag.QUADS).toBe(0);
    expect(bytesOf(engine, t)).toEqual(file);
  }
});

// As a load does: each piece is laid out when the next one is filled already.
function send(windows: QuadWindows, t: Tensor, file: Uint8Array): void {
  let work = (): void => undefined;
  for (let done = 0; done < file.length;) {
    const { bytes, commit } = windows.piece(t, done, file.length - done);
    bytes.set(file.subarray(done, done + bytes.length));
    work();
    work = commit();
    done += bytes.length;
  }
  work();
  windows.whole(t);
}

function bytesOf(engine: Engine, t: Tensor): Uint8Array {
  const at = (t.placement!.memory as CpuBuffer).address + t.placement!.offset;
  return engine.arena.u8.slice(at, at + t.nBytes);
}

test("views at whole pairs of quads are products of their rows, by one thread and three", async () => {
  const results: Uint32Array[] = [];
  for (const [nThreads, laid] of [
    [1, false],
    [1, true],
    [3, true],
  ] as const) {
    using engine = await createEngine({ nThreads });
    await engine.arrived;
    const w = weightOf(engine, Type.Q5_0, 96, 40);
    if (laid) engine.toQuads([w]);
    expect(w.flags & Flag.QUADS).toBe(laid ? Flag.QUADS : 0);
    for (const n of [1, 3, 6]) {
      using g = engine.graph();
      const x = g.input("x", Type.F32, [96, n]);
      const part = g.view(w, [96, 24], { nb: [w.nb[1]], offset: 8 * w.nb[1] });
      const y = [g.mulMat(w, x).asOutput("all"), g.mulMat(part, x).asOutput("part")];
      g.plan();
      x.write(samples(96 * n, stream(n)));
      await g.compute();
      results.push(...(await Promise.all(y.map(async (t) => bits((await t.read()) as Float32Array)))));
    }
  }
  for (let i = 0; i < 12; i++) expect(results[6 + i]).toEqual(results[i % 6]);
});

test("a leaf in quads is refused where file order is read", async () => {
  using engine = await createEngine({ nThreads: 1 });
  const w = weightOf(engine, Type.Q8_0, 32, 16);
  engine.toQuads([w]);
  const refused = (build: (g: ReturnType<Engine["graph"]>) => Tensor): void => {
    using g = engine.graph();
    build(g).asOutput("y");
    expect(() => g.plan()).toThrow(expect.objectContaining({ code: "bad-source" }));
  };
  const nb = [w.nb[1]];
  refused((g) => g.cast(w, Type.F32));
  refused((g) => g.mulMat(g.view(w, [32, 8], { nb, offset: 4 * w.nb[1] }), g.input("x", Type.F32, [32, 1])));
  refused((g) => g.mulMat(g.view(w, [32, 12], { nb }), g.input("x", Type.F32, [32, 1])));
  refused((g) => {
    const every = g.view(w, [32, 8], { nb: [2 * w.nb[1]] });
    return g.mulMat(every, g.input("x", Type.F32, [32, 1]));
  });
  refused((g) => {
    const ids = g.input("ids", Type.I32, [1, 1]);
    return g.mulMatId(g.reshape(w, [32, 4, 4]), g.input("x", Type.F32, [32, 1, 1]), ids);
  });
  expect(() => w.write(weights(Type.Q8_0, 32, 16, 9))).toThrow(/quads/);
  await expect(w.readBytes()).rejects.toThrow(/quads/);
});

test("only leafs that nothing else reads, of whole pairs of quads, are chosen", async () => {
  using engine = await createEngine({ nThreads: 1 });
  using g = engine.graph();
  const w = (name: string, m: number, type = Type.Q8_0): Tensor => leaf(name, type, [32, m]);
  const [plain, odd, f16, cast, cut, table] = [
    w("p", 8),
    w("o", 12),
    w("h", 8, Type.F16),
    w("c", 8),
    w("v", 16),
    w("t", 8),
  ];
  const x = g.input("x", Type.F32, [32, 1]);
  for (const a of [plain, odd, f16, cast, table]) g.mulMat(a, x).asOutput();
  g.getRows(table, g.input("ids", Type.I32, [2])).asOutput();
  g.cast(cast, Type.F32).asOutput();
  g.mulMat(g.view(cut, [32, 8], { nb: [cut.nb[1]], offset: 4 * cut.nb[1] }), x).asOutput();
  expect([...quadLeafs([g.program()])].map((t) => t.name).sort()).toEqual(["p", "t"]);
});

describeWith("models", "a model in quads", () => {
  test.each(["q4_0", "q8_0"])("%s computes the logits of file order", async (type) => {
    const path = join(dataDir("models"), `stories260K/stories260K-${type}.gguf`);
    const run = async (layout: "quads" | "file"): Promise<unknown> => {
      using model = await loadModel(path, { layout, nThreads: 1, nCtx: 64 });
      const { meanNll } = await model.evaluate("Once upon a time, there was a little girl.");
      const { tokens, text } = await model.complete("Once upon a time", { maxTokens: 24, temperature: 0 });
      return { meanNll, tokens, text };
    };
    expect(await run("quads")).toEqual(await run("file"));
  });

  test("matrices and the embedding lie in quads unless file order is asked for", async () => {
    const path = join(dataDir("models"), "stories260K/stories260K-q8_0.gguf");
    using engine = await createEngine({ nThreads: 1 });
    const allocate = vi.spyOn(engine, "allocate");
    const laid = (): string[] => {
      const weights = allocate.mock.calls.flatMap(([leafs, use]) => (use === "weights" ? leafs : []));
      return weights.filter((t) => (t.flags & Flag.QUADS) !== 0).map((t) => t.name);
    };
    using inFile = await loadModel(path, { engine, layout: "file", nCtx: 8 });
    expect(laid()).toEqual([]);
    using inQuads = await loadModel(path, { engine, nCtx: 8 });
    expect(laid()).toEqual(expect.arrayContaining(["token_embd.weight", "blk.0.attn_q.weight"]));
    expect(laid()).not.toContain("output_norm.weight");
    expect(inQuads.nCtx).toBe(inFile.nCtx);
  });

  test("a layout of another name is refused", async () => {
    const layout = "rows" as "file";
    await expect(loadModel(new Uint8Array(0), { layout })).rejects.toThrow(/layout/);
  });
});
