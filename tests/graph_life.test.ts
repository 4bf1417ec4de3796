// Graphs over time: shared weights, plans given back while they run, marks set too late, targets that overlap.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { foldsOnto, meet, type Region } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";

let engine: Engine;
let other: Engine;

beforeAll(async () => {
  engine = await createEngine({ nThreads: 2 });
  await engine.arrived;
  other = await createEngine({ nThreads: 1 });
});

afterAll(() => {
  engine.dispose();
  other.dispose();
});

const code = (value: string): unknown => expect.objectContaining({ code: value });
const numbers = async (t: Tensor): Promise<number[]> => [...((await t.read()) as Float32Array)];
const A = [1, 2, 3, 4];

/** y = x + w, planned; x holds 1..4. */
function plannedSum(g: Graph, w: Tensor): Tensor {
  const x = g.input("x", Type.F32, [4]);
  const y = g.add(x, w).asOutput();
  g.plan();
  x.write(A);
  return y;
}

describe("weights", () => {
  test("two graphs can read the same weight; it goes when the last of them does", async () => {
    const before = engine.memory();
    const first = engine.graph();
    const second = engine.graph();
    const w = first.weight("w", Type.F32, [4]);
    plannedSum(first, w);
    w.write([10, 20, 30, 40]);
    const y = plannedSum(second, w);
    first.dispose();
    const thief = engine.graph();
    const taken = thief.weight("v", Type.F32, [4]);
    plannedSum(thief, taken);
    taken.write([9, 9, 9, 9]);
    await second.compute();
    expect(await numbers(y)).toEqual([11, 22, 33, 44]);
    second.dispose();
    expect(w.placement).toBeUndefined();
    thief.dispose();
    expect(engine.memory()).toEqual(before);
  });

  test("a weight of another engine is refused", () => {
    const g = other.graph();
    const w = g.weight("w", Type.F32, [4]);
    plannedSum(g, w);
    const foreign = engine.graph();
    expect(() => plannedSum(foreign, w)).toThrow(code("bad-source"));
    expect(() => engine.reserve([g])).toThrow(code("bad-plan"));
    g.dispose();
    foreign.dispose();
  });

  test("memory that was given back is neither written nor read", async () => {
    const g = engine.graph();
    const t = g.weight("t", Type.F32, [4]);
    const memory = engine.allocate([t], "weights");
    t.write(A);
    memory.dispose();
    expect(() => t.write(A)).toThrow(code("not-planned"));
    await expect(t.read()).rejects.toThrow(code("not-planned"));
    const buffer = memory.buffers[0]!;
    expect(() => buffer.write(0, new Uint8Array(4))).toThrow(code("disposed"));
    await expect(buffer.read(0, 4)).rejects.toThrow(code("disposed"));
  });
});

describe("plans", () => {
  test("a graph that is planned by two sets of rules stays inside the planner's workspace", () => {
    const g = engine.graph();
    const inputs = Array.from({ length: 100 }, (_, i) => g.input(`x${i}`, Type.F32, [i + 1]));
    const squares = inputs.map((x) => g.expand(g.sqr(x)));
    squares.reduce((a, b) => g.concat(a, b, 0)).asOutput();
    const { nBytes, lowerBound } = g.plan();
    expect(nBytes).toBeLessThanOrEqual(1.1 * lowerBound);
    g.dispose();
  });

  test("a tensor that is no weight cannot be in two plans", async () => {
    const first = engine.graph();
    const second = engine.graph();
    const x = first.input("x", Type.F32, [4]);
    const y = first.sqr(x).asOutput();
    first.plan();
    second.scale(x, 2).asOutput();
    expect(() => second.plan()).toThrow(code("bad-plan"));
    expect(() => engine.reserve([first, second])).toThrow(code("bad-plan"));
    first.plan();
    x.write(A);
    await first.compute();
    expect(await numbers(y)).toEqual([1, 4, 9, 16]);
    first.dispose();
  });

  test("the same graph twice and no graph at all take no memory that stays", async () => {
    const before = engine.memory();
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    const y = g.sqr(x).asOutput();
    expect(engine.plan([])).toEqual([]);
    const plans = engine.plan([g, g]);
    expect(plans[1]).toBe(plans[0]);
    x.write(A);
    await g.compute();
    expect(await numbers(y)).toEqual([1, 4, 9, 16]);
    g.dispose();
    expect(engine.memory()).toEqual(before);
  });

  test("marking a tensor as output after planning does not make it readable", async () => {
    const g = engine.graph();
    const x = g.leaf("x", Type.F32, [4]).asInput();
    const middle = g.sqr(x);
    g.scale(middle, 2).asOutput();
    g.plan();
    x.write(A);
    await g.compute();
    await expect(middle.asOutput().read()).rejects.toThrow(code("not-readable"));
    await expect(x.read()).rejects.toThrow(code("not-readable")); // its last reader took its memory
    g.plan();
    x.write(A);
    await g.compute();
    expect(await numbers(middle)).toEqual([1, 4, 9, 16]);
    g.dispose();
  });

  // Long enough for several turns of the event loop.
  function slow(e: Engine): { g: Graph; x: Tensor; y: Tensor } {
    const g = e.graph();
    const x = g.input("x", Type.F32, [256, 256]);
    let y = x;
    for (let i = 0; i < 40; i++) y = g.scale(g.mulMat(x, y), 0.5);
    y.asOutput();
    g.plan();
    x.write(new Float32Array(256 * 256).fill(1 / 128));
    return { g, x, y };
  }

  test.each(["dispose", "plan"] as const)(
    "%s during a run ends it; memory goes when it has ended",
    async (what) => {
      const before = engine.memory();
      const { g, x } = slow(engine);
      const runs = [g.compute(), g.compute()];
      const ended = Promise.allSettled(runs);
      g[what]();
      // what takes the memory next must not be overwritten
      const next = engine.graph();
      const w = next.weight("w", Type.F32, [65536]);
      const y = next.sum(w).asOutput();
      next.plan();
      w.write(new Float32Array(65536).fill(1));
      const results = await ended;
      for (const r of results) expect(r).toMatchObject({ status: "rejected", reason: { code: "disposed" } });
      await next.compute();
      expect(await numbers(y)).toEqual([65536]);
      next.dispose();
      if (what === "dispose") expect(() => x.write([])).toThrow(code("not-planned"));
      g.dispose();
      const { total: _total, free: _free, ...used } = engine.memory();
      expect(before).toMatchObject(used);
    },
  );

  test("disposing the engine ends its runs, and its tensors can no longer be written", async () => {
    const mortal = await createEngine({ nThreads: 2 });
    const { g, x, y } = slow(mortal);
    const ended = Promise.allSettled([g.compute(), g.compute()]);
    mortal.dispose();
    for (const r of await ended)
      expect(r).toMatchObject({ status: "rejected", reason: { code: "disposed" } });
    expect(() => x.write([])).toThrow(code("not-planned"));
    await expect(y.read()).rejects.toThrow(code("not-planned"));
    g.dispose();
  });
});

describe("targets", () => {
  const region = (ne: number[], nb: number[], offs = 0): Region =>
    ({ type: Type.F32, ne, nb, offs }) as unknown as Region;

  // Bytes by enumeration.
  function bytes({ ne, nb, offs }: Region): Set<number> {
    const set = new Set<number>();
    for (let i = 0; i < ne[0] * ne[1] * ne[2]; i++) {
      const at =
        (i % ne[0]) * nb[0] +
        (Math.floor(i / ne[0]) % ne[1]) * nb[1] +
        Math.floor(i / (ne[0] * ne[1])) * nb[2];
      for (let b = 0; b < 4; b++) set.add(offs + at + b);
    }
    return set;
  }

  test("overlaps are found as by listing all bytes, for strides that nest", () => {
    const shapes = [[1, 1, 1, 1], [3, 1, 1, 1], [4, 2, 1, 1], [2, 3, 2, 1], [1, 4, 2, 1]]; // prettier-ignore
    for (const nb of [
      [4, 32, 128, 256],
      [8, 32, 160, 320],
      [32, 4, 128, 512],
    ])
      // prettier-ignore
      for (const a of shapes)
        for (const b of shapes)
          for (let offs = 0; offs < 200; offs += 4) {
            const [p, q] = [region(a, nb), region(b, nb, offs)];
            const shared = [...bytes(p)].some((at) => bytes(q).has(at));
            expect(meet(p, q), JSON.stringify([a, b, nb, offs])).toBe(shared);
            expect(meet(q, p)).toBe(shared);
          }
  });

  test("a tensor folds onto itself when strides are smaller than what lies inside them", () => {
    expect(foldsOnto(region([4, 3, 1, 1], [4, 16, 48, 48]))).toBe(false);
    expect(foldsOnto(region([3, 4, 1, 1], [12, 4, 48, 48]))).toBe(true);
    expect(foldsOnto(region([3, 4, 1, 1], [16, 4, 48, 48]))).toBe(false);
    expect(foldsOnto(region([4, 3, 1, 1], [4, 0, 16, 16]))).toBe(true);
    expect(foldsOnto(region([4, 0, 1, 1], [4, 0, 16, 16]))).toBe(false);
  });

  test("a copy into what overlaps itself or the source is refused; a copy beside it is not", () => {
    const g = engine.graph();
    const t = g.input("t", Type.F32, [8, 8]);
    const rows = (from: number, n: number): Tensor => g.view(t, [8, n], { offset: 32 * from });
    const columns = (from: number): Tensor => g.view(t, [4, 8], { nb: [32], offset: 4 * from });
    const ids = g.input("ids", Type.I32, [4]);
    expect(() => g.cpy(g.input("a", Type.F32, [8, 4]), g.view(t, [8, 4], { nb: [0] }))).toThrow(
      code("bad-shape"),
    );
    expect(() => g.setRows(g.view(t, [8, 4], { nb: [0] }), g.input("a", Type.F32, [8, 4]), ids)).toThrow(
      code("bad-shape"),
    );
    expect(() => g.cpy(rows(0, 7), rows(1, 7))).toThrow(code("bad-source"));
    expect(() => g.cpy(g.transpose(t), t)).toThrow(code("bad-source"));
    expect(() => g.setRows(t, rows(4, 4), ids)).toThrow(code("bad-source"));
    g.cpy(t, t);
    g.cpy(rows(0, 4), rows(4, 4));
    g.cpy(columns(0), columns(4));
  });
});

describe("calls that cannot be meant", () => {
  test("are refused while building, by name", () => {
    const g = engine.graph();
    const x = g.input("x", Type.F32, [4]);
    expect(() => g.repeat(g.input("one", Type.F32, [1]), [-2])).toThrow(code("bad-shape"));
    expect(() => g.repeat(x, [4, 1, 1, 1, 2])).toThrow(code("bad-shape"));
    expect(() => g.argsort(x, "up" as "asc")).toThrow(code("bad-param"));
    expect(() => g.fill(x, undefined as unknown as number)).toThrow(code("bad-param"));
    expect(() => g.clamp(x, "0" as unknown as number, 1)).toThrow(code("bad-param"));
    expect(() => g.view(x, [2], { ofset: 8 } as object)).toThrow(TypeError);
    expect(() => g.softMax(x, undefined, { sclae: 2 } as object)).toThrow(TypeError);
    g.live = x;
    expect(() => g.sqr(x)).toThrow(code("bad-source"));
    g.live = g.input("none", Type.I32, [0]);
    expect(() => g.sqr(x)).toThrow(code("bad-source"));
  });

  test("an index must not become another one on its way into a tensor", () => {
    const g = engine.graph();
    const ids = g.weight("ids", Type.I32, [2]);
    const wide = g.weight("wide", Type.I64, [2]);
    const buffer = engine.allocate([ids, wide], "weights");
    for (const bad of [2 ** 32, 1.5, NaN, -(2 ** 31) - 1]) {
      expect(() => ids.write([0, bad])).toThrow(code("bad-data"));
      if (bad !== 2 ** 32 && bad !== -(2 ** 31) - 1)
        expect(() => wide.write([0, bad])).toThrow(code("bad-data"));
    }
    buffer.dispose();
  });

  test("a misspelt option of a run is a TypeError", async () => {
    const g = engine.graph();
    g.sqr(g.input("x", Type.F32, [4])).asOutput();
    g.plan();
    await expect(g.compute({ singal: undefined } as object)).rejects.toThrow(TypeError);
    g.dispose();
  });

  test.each([NaN, -1, 0, 65536, "x"])("an engine with at most %s bytes is refused", async (maxMemory) => {
    await expect(createEngine({ maxMemory: maxMemory as number })).rejects.toThrow(code("bad-param"));
  });

  test("what is no build of the core is refused and never hangs", async () => {
    await expect(createEngine({ wasm: "fast" as "simd" })).rejects.toThrow(code("bad-param"));
    const endless = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 0x80);
    await expect(createEngine({ wasm: endless })).rejects.toThrow(code("bad-wasm"));
    const empty = Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0);
    await expect(createEngine({ wasm: empty })).rejects.toThrow(code("bad-wasm"));
  });

  test("names with quotes, backslashes and line breaks leave the dot graph well formed", () => {
    const g = engine.graph();
    g.sqr(g.input('a\\"b\n]', Type.F32, [4])).asOutput("c\\");
    const strings = g.toDot().match(/label="(?:[^"\\]|\\.)*"\]/g);
    expect(strings).toHaveLength(2);
    expect(g.toDot().split("\n")).toHaveLength(6);
  });
});
