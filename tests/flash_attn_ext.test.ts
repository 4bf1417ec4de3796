// FLASH_ATTN_EXT against double precision: masks, sinks, windows, cell types, batches and single tokens, threads.
import { describe, expect, test } from "vitest";
import { Op, SRC_LIVE } from "../assembly/abi.ts";
import { flashAttnExtDef } from "../ts/ops/flash_attn_ext.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { type Shape, rowBytes } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import {
  ATTENTIONS,
  type Attention,
  type AttentionData,
  attend,
  BATCHES,
  spansOf,
} from "./cases/flash_attn_ext.ts";
import { BUILDS, Core, type Stored, nmse, samples, stream } from "./core.ts";

const CELLS = [
  Type.F32,
  Type.F16,
  Type.BF16,
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.IQ4_NL,
];

interface Operands {
  readonly q: Stored;
  readonly k: Stored;
  readonly v: Stored;
  readonly mask?: Stored | undefined;
  readonly sinks?: Stored | undefined;
  readonly data: AttentionData;
}

// What no token may see is NaN (0xff bytes) in the cache.
function operands(core: Core, a: Attention): Operands {
  const next = stream(a.d + a.tokens);
  const size = a.size ?? 1;
  const cache = (d: number): [Stored, Float32Array] => {
    const bytes = core.quantize(
      a.type,
      samples(d * a.cells * a.kvHeads, next).map((x) => x * size),
    );
    const values = core.dequantize(a.type, bytes, d * a.cells * a.kvHeads);
    const row = rowBytes(a.type, d);
    const live = a.p0 === undefined ? a.cells : a.p0 + a.tokens;
    for (let h = 0; h < a.kvHeads; h++) bytes.fill(0xff, (h * a.cells + live) * row, (h + 1) * a.cells * row);
    return [core.leaf(a.type, [d, a.cells, a.kvHeads], bytes), values];
  };
  const q = samples(a.d * a.tokens * a.heads, next).map((x) => 2 * x * size);
  const [k, kValues] = cache(a.d);
  const [v, vValues] = cache(a.dv);
  const mask = a.mask ? maskOf(a, next) : undefined;
  const sinks = a.sinks ? samples(a.heads, next).map((x) => 3 * x) : undefined;
  const half = mask && core.quantize(Type.F16, mask);
  return {
    q: core.leaf(Type.F32, [a.d, a.tokens, a.heads], q),
    k,
    v,
    mask: half && core.leaf(Type.F16, [a.cells, a.tokens], half),
    sinks: sinks && core.leaf(Type.F32, [a.heads], sinks),
    data: {
      q,
      k: kValues,
      v: vValues,
      mask: half && core.dequantize(Type.F16, half, mask!.length),
      sinks,
      scale: Math.fround(1 / Math.sqrt(a.d)),
    },
  };
}

// A third hidden at random, and everything in the first row.
function maskOf(a: Attention, next: () => number): Float32Array {
  const mask = samples(a.cells * a.tokens, next).map((x) => (x < -0.3 ? -Infinity : x));
  return mask.fill(-Infinity, 0, a.cells);
}

interface Run {
  readonly q: Stored;
  readonly length?: readonly number[] | undefined;
  readonly live?: number;
  readonly scratch?: number;
}

function attention(core: Core, a: Attention, x: Operands, { q, length, live }: Run): Float32Array {
  const src = [q, x.k, x.v, x.mask, x.sinks, length && core.leaf(Type.I32, [2], Int32Array.from(length))];
  if (a.texts) src.push(core.leaf(Type.I32, [2, a.tokens], Int32Array.from(spansOf(a).flat())));
  const { scale } = x.data;
  const { maxBias = 0, softcap = 0, window = 0, twoSided = false } = a;
  const params = { scale, maxBias, softcap, window, twoSided };
  const { ne, params: slots } = flashAttnExtDef.infer(src, params);
  expect(ne).toEqual([a.dv, a.heads, q.ne[1], 1] satisfies Shape);
  const dst = { type: Type.F32, ne, nb: [4, 0, 0, 0] } as const;
  if (live !== undefined) src[SRC_LIVE] = core.leaf(Type.I32, [1], Int32Array.of(live));
  const scratch = flashAttnExtDef.scratch!(dst, src, 1);
  const y = core.compute({ op: Op.FLASH_ATTN_EXT, src, params: slots!, scratch }, Type.F32, ne);
  return core.read(y);
}

function lengthOf(a: Attention): readonly number[] | undefined {
  return a.p0 === undefined ? undefined : [a.p0 + a.tokens, a.p0];
}

// Token t by itself.
function tokenOf(core: Core, a: Attention, q: Stored, t: number): Stored {
  return core.leaf(Type.F32, [a.d, 1, a.heads], q.data + t * q.nb[1], q.nb);
}

// The same cache with the heads of a cell side by side, as a model keeps it.
function sideBySide(core: Core, r: Stored): Stored {
  const [d, cells, heads] = r.ne;
  const row = rowBytes(r.type, d);
  const data = core.alloc(row * cells * heads);
  for (let j = 0; j < cells * heads; j++) {
    const from = r.data + (j % heads) * r.nb[2] + Math.floor(j / heads) * r.nb[1];
    core.bytes.copyWithin(data + j * row, from, from + row);
  }
  return core.leaf(r.type, [d, cells, heads], data, [r.nb[0], row * heads, row, row * heads * cells]);
}

// The first cell of each head in the place of all of them, as a view can have it.
function repeated(core: Core, { k, v, data, ...x }: Operands, a: Attention): Operands {
  const first = (values: ArrayLike<number>, d: number): Float32Array =>
    Float32Array.from(values, (_, i) => values[i - (i % (d * a.cells)) + (i % d)]!);
  return {
    ...x,
    k: core.leaf(k.type, k.ne, k.data, [k.nb[0], 0, k.nb[2], k.nb[3]]),
    v: core.leaf(v.type, v.ne, v.data, [v.nb[0], 0, v.nb[2], v.nb[3]]),
    data: { ...data, k: first(data.k, a.d), v: first(data.v, a.dv) },
  };
}

// Cells of one text by themselves.
function textOf(core: Core, a: Attention, x: Operands, first: number, n: number): Operands {
  const cut = (r: Stored, d: number): Stored =>
    core.leaf(r.type, [d, n, a.kvHeads], r.data + first * r.nb[1], r.nb);
  return { ...x, k: cut(x.k, a.d), v: cut(x.v, a.dv) };
}

describe.each(BUILDS)("flash_attn_ext, %s", (build) => {
  test.each(ATTENTIONS.map((a) => [a.title, a] as const))(
    "%s: equals attention in double precision",
    async (_, a) => {
      const core = await Core.load(build);
      const x = operands(core, a);
      const y = attention(core, a, x, { q: x.q, length: lengthOf(a) });
      expect(nmse(y, attend(a, x.data))).toBeLessThan(1e-11);
    },
  );

  test.each(BATCHES.map((a) => [a.title, a] as const))(
    "%s: equals attention in double precision, and each text by itself bit for bit",
    async (_, a) => {
      const core = await Core.load(build);
      const x = operands(core, a);
      const all = attention(core, a, x, { q: x.q });
      expect(nmse(all, attend(a, x.data))).toBeLessThan(1e-11);
      let first = 0;
      for (const n of a.texts!) {
        const y = attention(core, { ...a, texts: [n], tokens: n }, textOf(core, a, x, first, n), {
          q: core.leaf(Type.F32, [a.d, n, a.heads], x.q.data + first * x.q.nb[1], x.q.nb),
        });
        const row = a.dv * a.heads;
        expect(y).toEqual(all.slice(first * row, (first + n) * row));
        first += n;
      }
    },
  );

  test.each(CELLS.map((t) => [Type[t], t] as const))("cells of %s are read exactly", async (_, type) => {
    const core = await Core.load(build);
    const a: Attention = { ...ATTENTIONS[0]!, type };
    const x = operands(core, a);
    expect(nmse(attention(core, a, x, { q: x.q }), attend(a, x.data))).toBeLessThan(1e-11);
  });

  test("of values without elements nothing comes, however many rows there are", async () => {
    const core = await Core.load(build);
    for (const tokens of [1, 1 << 30]) {
      const a: Attention = { ...ATTENTIONS[0]!, d: 0, dv: 0, tokens };
      const [q, cells] = [
        [0, tokens, a.heads],
        [0, a.cells, a.heads],
      ].map((ne) => core.leaf(Type.F32, ne));
      const src = [q!, cells!, cells!];
      const { ne, params } = flashAttnExtDef.infer(src, { scale: 1 });
      const scratch = flashAttnExtDef.scratch!({ type: Type.F32, ne, nb: [4, 0, 0, 0] }, src, 1);
      const y = core.compute({ op: Op.FLASH_ATTN_EXT, src, params: params!, scratch }, Type.F32, ne);
      expect(core.read(y).length).toBe(0);
    }
  });

  test.each([Type.F32, Type.F16, Type.Q8_0].map((t) => [Type[t], t] as const))(
    "a cell of %s that a view repeats counts as often",
    async (_, type) => {
      const core = await Core.load(build);
      for (const tokens of [1, 5]) {
        const a: Attention = { ...ATTENTIONS[0]!, type, tokens, sinks: true };
        const x = repeated(core, operands(core, a), a);
        expect(nmse(attention(core, a, x, { q: x.q }), attend(a, x.data))).toBeLessThan(1e-11);
      }
    },
  );

  test.each(ATTENTIONS.filter((a) => !a.mask).map((a) => [a.title, a] as const))(
    "%s: a token gives the same bits alone and in a batch",
    async (_, a) => {
      const core = await Core.load(build);
      const x = operands(core, a);
      const all = attention(core, a, x, { q: x.q, length: lengthOf(a) });
      const row = a.dv * a.heads;
      for (let t = 0; t < a.tokens; t++) {
        const length = a.p0 === undefined ? undefined : [a.p0 + t + 1, a.p0 + t];
        const y = attention(core, a, x, { q: tokenOf(core, a, x.q, t), length });
        expect(y).toEqual(all.slice(t * row, (t + 1) * row));
      }
    },
  );

  test.each(ATTENTIONS.filter((a) => !a.mask).map((a) => [a.title, a] as const))(
    "%s: keys and values whose heads lie side by side give the same bits, alone and in a batch",
    async (_, a) => {
      const core = await Core.load(build);
      const x = operands(core, a);
      const y = { ...x, k: sideBySide(core, x.k), v: sideBySide(core, x.v) };
      const all = attention(core, a, x, { q: x.q, length: lengthOf(a) });
      expect(attention(core, a, y, { q: x.q, length: lengthOf(a) })).toEqual(all);
      const length = a.p0 === undefined ? undefined : [a.p0 + 1, a.p0];
      const first = attention(core, a, y, { q: tokenOf(core, a, x.q, 0), length });
      expect(first).toEqual(all.slice(0, a.dv * a.heads));
    },
  );

  test.each([
    ["a batch", 5, 1],
    ["one token", 1, 1],
    ["one token of queries beyond f16", 1, 1e6],
  ])(
    "%s: cells of F16 give the bits of the same numbers in F32, infinities and NaN too",
    async (_, tokens, size) => {
      const core = await Core.load(build);
      const a: Attention = { ...ATTENTIONS[0]!, kvHeads: 3, heads: 9, cells: 247, tokens };
      const n = a.d * a.cells * a.kvHeads;
      const next = stream(5);
      const queries = samples(a.d * a.tokens * a.heads, next).map((x) => x * size);
      const q = core.leaf(Type.F32, [a.d, a.tokens, a.heads], queries);
      const codes = (special?: number): Uint16Array => {
        const x = Uint16Array.from({ length: n }, () => (next() + 1) * 0x8000).map((h) => h & 0xbfff);
        if (special !== undefined) x[a.d * (3 * a.cells - 30) - 5] = special; // a cell of the last head
        return x;
      };
      for (const [k, v] of [
        [],
        [0x7c00],
        [0xfc00],
        [0x7e01],
        [undefined, 0x7c00],
        [undefined, 0xfc00],
        [undefined, 0xffff],
      ]) {
        const wide: Stored[] = [];
        const half = [codes(k), codes(v)].map((x) => {
          const values = core.dequantize(Type.F16, new Uint8Array(x.buffer), n);
          wide.push(sideBySide(core, core.leaf(Type.F32, [a.d, a.cells, a.kvHeads], values)));
          return sideBySide(core, core.leaf(Type.F16, [a.d, a.cells, a.kvHeads], x));
        });
        const data = { q: [], k: [], v: [], scale: 0.125 };
        const y = attention(core, a, { q, k: half[0]!, v: half[1]!, data }, { q });
        expect(y).toEqual(attention(core, a, { q, k: wide[0]!, v: wide[1]!, data }, { q }));
        const rest = y.subarray(0, 4 * a.dv);
        expect(rest.every(Number.isFinite)).toBe(true);
        // a single token may give that cell no weight
        if (tokens > 1) expect(y.every(Number.isFinite)).toBe(k === undefined && v === undefined);
      }
    },
  );

  test("one token of more KV heads than go through a tile side by side", async () => {
    const core = await Core.load(build);
    const a: Attention = { ...ATTENTIONS[0]!, dv: 128, tokens: 1, heads: 20, kvHeads: 10, p0: 66 };
    const x = operands(core, a);
    const y = attention(core, a, x, { q: x.q, length: lengthOf(a) });
    expect(nmse(y, attend(a, x.data))).toBeLessThan(1e-11);
    const beside = { ...x, k: sideBySide(core, x.k), v: sideBySide(core, x.v) };
    expect(attention(core, a, beside, { q: x.q, length: lengthOf(a) })).toEqual(y);
  });

  test("keys and values far apart are read as those that are near", async () => {
    const core = await Core.load(build);
    const a = ATTENTIONS.find((b) => b.title === "sliding window")!;
    const x = operands(core, a);
    const apart = (r: Stored): Stored => {
      const wide = sideBySide(core, r);
      const step = 4096;
      const data = core.alloc(step * r.ne[1]);
      for (let j = 0; j < r.ne[1]; j++)
        core.bytes.copyWithin(data + j * step, wide.data + j * wide.nb[1], wide.data + (j + 1) * wide.nb[1]);
      return core.leaf(r.type, r.ne, data, [4, step, wide.nb[2], step * r.ne[1]]);
    };
    const y = attention(core, a, { ...x, k: apart(x.k), v: apart(x.v) }, { q: x.q, length: lengthOf(a) });
    expect(y).toEqual(attention(core, a, x, { q: x.q, length: lengthOf(a) }));
  });

  test("only live tokens are computed", async () => {
    const core = await Core.load(build);
    const a = ATTENTIONS.find((b) => b.title === "causal batch")!;
    const x = operands(core, a);
    const all = attention(core, a, x, { q: x.q, length: lengthOf(a) });
    for (const live of [0, 1, 17, 40]) {
      const n = Math.min(live, a.tokens) * a.dv * a.heads;
      const y = attention(core, a, x, { q: x.q, length: lengthOf(a), live });
      expect(y.slice(0, n)).toEqual(all.slice(0, n));
      expect(y.slice(n).every(Number.isNaN)).toBe(true);
    }
  });

  test("a row that sees nothing is zero", async () => {
    const core = await Core.load(build);
    const a = ATTENTIONS.find((b) => b.title === "causal batch")!;
    const x = operands(core, a);
    expect(attention(core, a, x, { q: x.q, length: [0, 0] }).every((y) => y === 0)).toBe(true);
    const masked: Attention = { ...ATTENTIONS[0]!, mask: true };
    const z = operands(core, masked);
    expect(
      attention(core, masked, z, { q: z.q })
        .slice(0, 64 * 4)
        .every((y) => y === 0),
    ).toBe(true);
  });

  test("a hidden cell may hold NaN and infinities, a visible NaN comes through", async () => {
    const core = await Core.load(build);
    const a: Attention = { ...ATTENTIONS[0]!, mask: true, type: Type.F32, tokens: 2, kvHeads: 1 };
    const x = operands(core, a);
    const before = attention(core, a, x, { q: x.q });
    const hidden = Array.from({ length: a.cells }, (_, j) => j).filter(
      (j) => x.data.mask![a.cells + j] === -Infinity,
    );
    const poison = (j: number): void => {
      for (const r of [x.k, x.v]) core.bytes.fill(0xff, r.data + j * r.nb[1], r.data + (j + 1) * r.nb[1]);
    };
    hidden.forEach(poison);
    expect(attention(core, a, x, { q: x.q })).toEqual(before);
    poison(Array.from({ length: a.cells }, (_, j) => j).find((j) => !hidden.includes(j))!);
    expect(
      attention(core, a, x, { q: x.q })
        .slice(64 * 4)
        .every(Number.isNaN),
    ).toBe(true);
  });
});

// With many tokens, threads take blocks of rows as they come.
test.each([
  [11, 6],
  [150, 12],
])("three threads give the bits of one: %i tokens of %i heads", async (nTokens, heads) => {
  const out: Float32Array[] = [];
  const next = stream(1);
  const [q, k, v] = [
    samples(64 * nTokens * heads, next),
    samples(64 * 90 * 2, next),
    samples(64 * 90 * 2, next),
  ];
  for (const nThreads of [1, 3]) {
    using engine = await createEngine({ nThreads });
    await engine.arrived;
    using g = engine.graph();
    const tensors = [
      g.input("q", Type.F32, [64, nTokens, heads]),
      g.input("k", Type.F32, [64, 90, 2]),
      g.input("v", Type.F32, [64, 90, 2]),
    ] as const;
    const y = g.flashAttn({ q: tensors[0], k: tensors[1], v: tensors[2], scale: 0.125 }).asOutput("y");
    g.plan();
    [q, k, v].forEach((x, i) => tensors[i]!.write(x));
    await g.compute();
    out.push((await y.read()) as Float32Array);
  }
  expect(out[1]).toEqual(out[0]);
});
