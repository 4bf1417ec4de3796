// What operators refuse, what they leave alone, and what happens to row ids that point outside.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Glu, Op, Unary } from "../assembly/abi.ts";
import { DeviceError, GraphError } from "../ts/errors.ts";
import { OPS, opDef } from "../ts/ops/index.ts";
import type { Operand, OpDef } from "../ts/ops/op.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { contiguous, type Strides, shape4 } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";

let engine: Engine;

beforeAll(async () => {
  engine = await createEngine({ nThreads: 2 });
  await engine.arrived;
});

afterAll(() => engine.dispose());

function x(ne: readonly number[], type: Type = Type.F32, nb?: Strides): Operand {
  return { type, ne: shape4(ne), nb: nb ?? contiguous(type, shape4(ne)) };
}

function ids(ne: readonly number[]): Operand {
  return x(ne, Type.I32);
}

interface Refused {
  readonly op: keyof typeof OPS;
  readonly src: readonly (Operand | undefined)[];
  readonly params?: object;
  readonly code: string;
  readonly message: string;
}

const REFUSED: Refused[] = [
  {
    op: Op.ADD,
    src: [x([4, 3]), x([3])],
    code: "bad-shape",
    message: "add: [4,3,1,1] and [3,1,1,1]: b does not repeat to a",
  },
  { op: Op.ADD, src: [x([4])], code: "bad-source", message: "add: source 1 is missing" },
  {
    op: Op.MUL,
    src: [x([4], Type.I32), x([4])],
    code: "bad-type",
    message: "mul: a is I32, expected F32 or F16 or BF16",
  },
  {
    op: Op.SUB,
    src: [x([32], Type.Q8_0), x([32])],
    code: "bad-type",
    message: "sub: a is Q8_0, expected F32 or F16 or BF16",
  },
  {
    op: Op.UNARY,
    src: [x([4])],
    params: { fn: Unary.COUNT },
    code: "bad-param",
    message: "unary: fn is 22, expected an integer from 0 to 21",
  },
  {
    op: Op.UNARY,
    src: [x([4])],
    params: { fn: Unary.XIELU },
    code: "bad-param",
    message: "unary: alphaN is NaN, expected a finite number",
  },
  {
    op: Op.SCALE,
    src: [x([4])],
    params: { s: Infinity },
    code: "bad-param",
    message: "scale: s is Infinity, expected a finite number",
  },
  {
    op: Op.CLAMP,
    src: [x([4])],
    params: { min: 1, max: 0 },
    code: "bad-param",
    message: "clamp: min is 1, expected a number up to max, 0",
  },
  {
    op: Op.GLU,
    src: [x([5])],
    params: { fn: Glu.SWIGLU },
    code: "bad-shape",
    message: "glu: [5,1,1,1] and [5,1,1,1]: a row of an odd number of elements has no halves",
  },
  {
    op: Op.GLU,
    src: [x([4]), x([5])],
    params: { fn: Glu.SWIGLU },
    code: "bad-shape",
    message: "glu: [4,1,1,1] and [5,1,1,1]: shapes differ",
  },
  {
    op: Op.RMS_NORM,
    src: [x([4, 3], Type.F32, [12, 4, 48, 48])],
    params: { eps: 0 },
    code: "bad-shape",
    message: "rms_norm: a [4,3,1,1] has gaps between elements of a row: use cont",
  },
  {
    op: Op.NORM,
    src: [x([4])],
    params: { eps: -1 },
    code: "bad-param",
    message: "norm: eps is -1, expected a finite number from 0",
  },
  {
    op: Op.SOFT_MAX,
    src: [x([4, 3]), x([4, 2])],
    params: {},
    code: "bad-shape",
    message: "soft_max: [4,3,1,1] and [4,2,1,1]: the mask does not cover x",
  },
  {
    op: Op.SOFT_MAX,
    src: [x([4, 3])],
    params: { maxBias: 8 },
    code: "bad-param",
    message: "soft_max: maxBias is 8, expected 0, because there is no mask",
  },
  {
    op: Op.ROPE,
    src: [x([8, 2, 3]), ids([2])],
    params: { nDims: 8 },
    code: "bad-shape",
    message: "rope: [8,2,3,1] and [2,1,1,1]: expected 1 position(s) per token (ne[2])",
  },
  {
    op: Op.ROPE,
    src: [x([8, 2, 3]), ids([3])],
    params: { nDims: 7 },
    code: "bad-param",
    message: "rope: nDims is 7, expected an even number",
  },
  {
    op: Op.ROPE,
    src: [x([8, 2, 3]), ids([3])],
    params: { nDims: 8, mode: 1 },
    code: "bad-param",
    message: "rope: mode is 1, expected 0, 2, 8, 24, 40",
  },
  {
    op: Op.ROPE,
    src: [x([8, 2, 3]), ids([3]), x([3])],
    params: { nDims: 8 },
    code: "bad-shape",
    message: "rope: [8,2,3,1] and [3,1,1,1]: expected a factor for each of 4 pairs",
  },
  {
    op: Op.GET_ROWS,
    src: [x([4, 5]), x([2])],
    code: "bad-type",
    message: "get_rows: ids is F32, expected I32",
  },
  {
    op: Op.GET_ROWS,
    src: [x([4, 5, 2]), ids([2, 3])],
    code: "bad-shape",
    message: "get_rows: [4,5,2,1] and [2,3,1,1]: dimensions 2, 3 of the table are not 1, 2 of the ids",
  },
  {
    op: Op.SET_ROWS,
    src: [x([4, 2]), ids([3]), x([4, 9])],
    code: "bad-shape",
    message: "set_rows: [4,2,1,1] and [3,1,1,1]: ids do not repeat over the rows",
  },
  {
    op: Op.CPY,
    src: [x([4]), x([5])],
    params: {},
    code: "bad-shape",
    message: "cpy: [4,1,1,1] and [5,1,1,1]: numbers of elements differ",
  },
  {
    op: Op.CPY,
    src: [x([4], Type.I32), x([4], Type.F16)],
    params: {},
    code: "bad-type",
    message: "cpy: cannot copy I32 to F16",
  },
  {
    op: Op.CPY,
    src: [x([33])],
    params: { type: Type.Q8_0 },
    code: "bad-shape",
    message: "cpy: [33,1,1,1] and [32]: rows are no multiple of the block",
  },
  {
    op: Op.CPY,
    src: [x([64, 2]), undefined, x([32])],
    params: { type: Type.Q4_0 },
    code: "bad-shape",
    message: "cpy: [64,2,1,1] and [32,1,1,1]: importance is a number for each column",
  },
  {
    op: Op.CPY,
    src: [x([64, 2], Type.F16), undefined, x([64])],
    params: { type: Type.Q4_0 },
    code: "bad-type",
    message: "cpy: source is F16, expected F32",
  },
  {
    op: Op.CPY,
    src: [x([64, 2]), undefined, x([64])],
    params: { type: Type.F16 },
    code: "bad-shape",
    message: "cpy: [64,2,1,1] and [64,2,1,1]: importance is for whole rows that become blocks",
  },
  {
    op: Op.CONCAT,
    src: [x([4, 3]), x([4, 3, 2])],
    params: { dim: 0 },
    code: "bad-shape",
    message: "concat: [4,3,1,1] and [4,3,2,1]: they differ outside dimension 0",
  },
  {
    op: Op.REPEAT,
    src: [x([4])],
    params: { ne: [6] },
    code: "bad-shape",
    message: "repeat: [4,1,1,1] and [6,1,1,1]: the result is no multiple of a",
  },
  {
    op: Op.TOP_K,
    src: [x([4])],
    params: { k: 5 },
    code: "bad-param",
    message: "top_k: k is 5, expected an integer from 1 to 4",
  },
  {
    op: Op.RESHAPE,
    src: [x([4, 3])],
    params: { ne: [5, 2] },
    code: "bad-shape",
    message: "reshape: [4,3,1,1] and [5,2,1,1]: numbers of elements differ",
  },
  {
    op: Op.VIEW,
    src: [x([4, 3])],
    params: { ne: [4, 3], offs: 4 },
    code: "bad-param",
    message: "view: end is 52, expected at most 48 bytes, the size of the source",
  },
  {
    op: Op.PERMUTE,
    src: [x([4, 3])],
    params: { axes: [0, 0, 1, 2] },
    code: "bad-param",
    message: "permute: axes is 0,0,1,2, expected the numbers 0 to 3 in some order",
  },
  {
    op: Op.TRANSPOSE,
    src: [x([32, 3], Type.Q8_0)],
    code: "bad-param",
    message: "transpose: a is of a block type, expected a type without blocks",
  },
  {
    op: Op.CONV_2D,
    src: [x([3, 3, 2, 4]), x([9, 9, 3])],
    params: {},
    code: "bad-shape",
    message: "conv_2d: [3,3,2,4] and [9,9,3,1]: numbers of channels (ne[2]) differ",
  },
  {
    op: Op.CONV_2D,
    src: [x([3, 3, 2, 4]), x([2, 9, 2])],
    params: {},
    code: "bad-shape",
    message: "conv_2d: a window of 3 does not fit into 2 elements",
  },
  {
    op: Op.IM2COL,
    src: [x([3, 3, 2, 4]), x([9, 9, 2])],
    params: { s0: 0 },
    code: "bad-param",
    message: "im2col: s0 is 0, expected an integer from 1 to 1048576",
  },
  {
    op: Op.CONV_2D_DW,
    src: [x([3, 3, 1, 4]), x([9, 9, 3])],
    params: {},
    code: "bad-shape",
    message: "conv_2d_dw: [3,3,1,4] and [9,9,3,1]: expected one filter per channel",
  },
  {
    op: Op.POOL_2D,
    src: [x([9, 9])],
    params: { pool: "max", k0: 2, k1: 2, p0: 2 },
    code: "bad-param",
    message: "pool_2d: p0 is 2, expected an integer from 0 to 1",
  },
  {
    op: Op.GROUP_NORM,
    src: [x([4, 4, 6])],
    params: { nGroups: 7, eps: 0 },
    code: "bad-param",
    message: "group_norm: nGroups is 7, expected an integer from 1 to 6",
  },
  {
    op: Op.PAD_REFLECT_1D,
    src: [x([4])],
    params: { p0: 4, p1: 0 },
    code: "bad-param",
    message: "pad_reflect_1d: p0 is 4, expected an integer from 0 to 3",
  },
  {
    op: Op.SET,
    src: [x([4, 4]), x([4, 2])],
    params: { nb: [16, 64, 64], offset: 36 },
    code: "bad-param",
    message: "set: end is 68, expected at most 64 bytes, the size of a",
  },
  {
    op: Op.ARANGE,
    src: [],
    params: { start: 1, stop: 0, step: 1 },
    code: "bad-param",
    message: "arange: number of elements is -1, expected 1 to 2^31 - 1",
  },
  {
    op: Op.ADD1,
    src: [x([4]), x([2])],
    params: {},
    code: "bad-shape",
    message: "add1: [1,1,1,1] and [2,1,1,1]: b is not a single number",
  },
  {
    op: Op.TRI,
    src: [x([4, 3])],
    params: { keep: 0 },
    code: "bad-shape",
    message: "tri: [4,3,1,1] and [4,3,1,1]: expected square matrices",
  },
];

describe("op rules", () => {
  test.each(REFUSED.map((r) => [r.message, r] as const))("%s", (message, { op, src, params, code }) => {
    const def = OPS[op] as unknown as OpDef<object>;
    let caught: unknown;
    try {
      def.infer(src, params ?? {});
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(GraphError);
    expect(caught).toMatchObject({ code, message, details: { op: def.name } });
  });

  test("every definition has ggml's name and a sentence of documentation", () => {
    for (const [id, def] of Object.entries(OPS)) {
      expect(def.name).toBe(Op[Number(id)]!.toLowerCase());
      expect(def.doc).toMatch(/->.*\.$/s);
    }
  });
});

describe("row ids", () => {
  test.each([-1, 7, 2 ** 31 - 1, -(2 ** 31)])(
    "get_rows with id %d of 7 rows fails by name and leaves the engine usable",
    async (id) => {
      using g = engine.graph();
      const table = g.input("table", Type.F32, [4, 7]);
      const rows = g.input("rows", Type.I32, [2]);
      const y = g.getRows(table, rows).asOutput();
      g.plan();
      table.write(Float32Array.from({ length: 28 }, (_, i) => i));
      rows.write([1, id]);
      const failed = g.compute();
      await expect(failed).rejects.toThrow(DeviceError);
      await expect(failed).rejects.toMatchObject({ code: "trap", details: { op: "get_rows" } });
      rows.write([1, 6]);
      await g.compute();
      expect(Array.from((await y.read()) as Float32Array)).toEqual([4, 5, 6, 7, 24, 25, 26, 27]);
    },
  );

  test.each([-1n, 7n, 2n ** 32n, -(2n ** 63n)])(
    "set_rows with id %d of 7 rows writes nothing there",
    async (id) => {
      using g = engine.graph();
      const target = g.input("target", Type.F32, [4, 7]);
      const rows = g.input("rows", Type.F32, [4, 1]);
      const at = g.input("at", Type.I64, [1]);
      const guard = g.input("guard", Type.F32, [4, 7]);
      g.expand(g.add(guard, g.setRows(target, rows, at)));
      g.plan();
      const before = new Float32Array(28).fill(3);
      target.write(before);
      guard.write(before);
      rows.write([1, 2, 3, 4]);
      at.write(BigInt64Array.of(id));
      await expect(g.compute()).rejects.toMatchObject({ code: "trap", details: { op: "set_rows" } });
      expect(await target.read()).toEqual(before);
      expect(await guard.read()).toEqual(before);
    },
  );

  test("when an id occurs twice the later row wins, for every number of threads", async () => {
    using g = engine.graph();
    const target = g.input("target", Type.F32, [600, 3]);
    const rows = g.input("rows", Type.F32, [600, 3]);
    const at = g.input("at", Type.I32, [3]);
    g.expand(g.setRows(target, rows, at));
    g.plan();
    target.write(new Float32Array(1800));
    rows.write(Float32Array.from({ length: 1800 }, (_, i) => 1 + Math.floor(i / 600)));
    at.write([2, 0, 2]);
    await g.compute();
    const got = (await target.read()) as Float32Array;
    expect([0, 1, 2].map((r) => new Set(got.subarray(600 * r, 600 * r + 600)))).toEqual([
      new Set([2]),
      new Set([0]),
      new Set([3]),
    ]);
  });
});

test("acc in place changes a itself", async () => {
  using g = engine.graph();
  const a = g.input("a", Type.F32, [4, 3]);
  const b = g.input("b", Type.F32, [2, 2]);
  const y = g.acc(a, b, { nb: [16, 48, 48], offset: 20, inplace: true }).asOutput();
  g.plan();
  a.write(new Float32Array(12).fill(10));
  b.write([1, 2, 3, 4]);
  await g.compute();
  const changed = [10, 10, 10, 10, 10, 11, 12, 10, 10, 13, 14, 10];
  expect(Array.from((await a.read()) as Float32Array)).toEqual(changed);
  expect(Array.from((await y.read()) as Float32Array)).toEqual(changed);
});

describe("live columns", () => {
  test("dead columns are not computed: their ids may be anything, their rows reach no cache", async () => {
    using g = engine.graph();
    const table = g.input("table", Type.F32, [4, 3]);
    const rows = g.input("rows", Type.I32, [5]);
    const cells = g.input("cells", Type.I32, [5]);
    const cache = g.input("cache", Type.F32, [4, 8]);
    g.live = g.input("live", Type.I32, [1]);
    const y = g.scale(g.getRows(table, rows), 2).asOutput();
    g.expand(g.setRows(cache, y, cells));
    g.plan();
    table.write(Float32Array.from({ length: 12 }, (_, i) => i));
    rows.write([2, 1, 99, -5, 1000]);
    cells.write([6, 1, -1, 9999, 8]);
    cache.write(new Float32Array(32));
    g.live.write([2]);
    await g.compute();
    const got = (await cache.read()) as Float32Array;
    expect(Array.from(got.subarray(24, 28))).toEqual([16, 18, 20, 22]);
    expect(Array.from(got.subarray(4, 8))).toEqual([8, 10, 12, 14]);
    expect(got.reduce((a, b) => a + b)).toBe(16 + 18 + 20 + 22 + 8 + 10 + 12 + 14);
    expect(Array.from(((await y.read()) as Float32Array).subarray(0, 8))).toEqual([
      16, 18, 20, 22, 8, 10, 12, 14,
    ]);
  });
});

describe("definitions", () => {
  test("scratch grows with the threads and is whole bytes", () => {
    for (const [op, src] of [
      [Op.ARGSORT, [x([33])]],
      [Op.ROPE, [x([8, 2, 3]), ids([3])]],
      [Op.CPY, [x([64], Type.F16), x([64], Type.Q8_0)]],
    ] as const) {
      const bytes = (n: number): number => opDef(op).scratch!(src[src.length - 1]!, src, n);
      expect(bytes(1)).toBeGreaterThan(0);
      expect(bytes(3)).toBe(3 * bytes(1));
    }
  });
});
