// Every operator against its double-precision reference: fresh, in place, through views, by several threads.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Op } from "../assembly/abi.ts";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { opDef } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { contiguous, sameShape, shape4 } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import { type Case, type Source } from "./cases/case.ts";
import { CASES } from "./cases/index.ts";
import { accessor, makeData, random, roundTo, type Stored } from "./op_data.ts";

let one: Engine;
let three: Engine;

beforeAll(async () => {
  one = await createEngine({ nThreads: 1 });
  three = await createEngine({ nThreads: 3 });
});

afterAll(() => {
  one.dispose();
  three.dispose();
});

// Relative to max(1, |value|): a few roundings in f32, half a step of the 16-bit types.
const TOLERANCE: { readonly [type: number]: number } = {
  [Type.F32]: 2e-6,
  [Type.F16]: 6e-4,
  [Type.BF16]: 4e-3,
};

type How = "fresh" | "in place" | "view";

interface Ran {
  readonly y: Tensor;
  readonly bytes: Uint8Array;
  readonly values: ArrayLike<number>;
  /** a source whose memory the result has taken over */
  readonly inPlace: boolean;
}

function dataOf(c: Case): (Stored | undefined)[] {
  const next = random(c.title.length * 7919 + c.op);
  return c.src.map((s) => (s === undefined ? undefined : makeData(s, next)));
}

async function run(engine: Engine, c: Case, data: readonly (Stored | undefined)[], how: How): Promise<Ran> {
  using g = engine.graph();
  const leafs: Tensor[] = [];
  const src = c.src.map((s, i) => (s === undefined ? undefined : source(g, s, data[i]!, how, leafs)));
  const y = g.node(c.op, opDef(c.op) as unknown as OpDef<object>, src, c.params ?? {}).asOutput();
  g.plan();
  leafs.forEach((t) => t.write(written.get(t)!));
  await g.compute();
  const at = y.placement!.offset;
  const inPlace = y.viewSrc === undefined && src.some((s) => s !== undefined && s.placement!.offset === at);
  return { y, bytes: await y.readBytes(), values: (await y.read()) as ArrayLike<number>, inPlace };
}

// Bytes for each leaf, because they can be written only after planning.
const written = new WeakMap<Tensor, Uint8Array>();

function source(g: Graph, s: Source, data: Stored, how: How, leafs: Tensor[]): Tensor {
  const x = how === "view" ? window(g, s, data, leafs) : leafOf(g, s, data, how, leafs);
  return s.axes === undefined ? x : g.permute(x, s.axes);
}

function leafOf(g: Graph, s: Source, { bytes }: Stored, how: How, leafs: Tensor[]): Tensor {
  const t = how === "in place" && s.kept !== true ? g.leaf("x", s.type, s.ne) : g.input("x", s.type, s.ne);
  written.set(t, bytes);
  leafs.push(t);
  return t;
}

// The source in the middle of a tensor with one block more on either side and one row more in front.
function window(g: Graph, s: Source, { bytes }: Stored, leafs: Tensor[]): Tensor {
  const { blockSize, typeSize } = typeInfo(s.type)!;
  const ne = shape4(s.ne);
  const wide = shape4([ne[0] + 2 * blockSize, ne[1] + 1, ne[2], ne[3]]);
  const nb = contiguous(s.type, wide);
  const row = (ne[0] / blockSize) * typeSize;
  const all = new Uint8Array(nb[3] * ne[3]).fill(0xff);
  const offs = nb[1] + typeSize;
  for (let r = 0; r < ne[1] * ne[2] * ne[3]; r++) {
    const i1 = r % ne[1];
    const plane = Math.floor(r / ne[1]);
    all.set(bytes.subarray(r * row, (r + 1) * row), offs + i1 * nb[1] + plane * nb[2]);
  }
  const t = g.input("wide", s.type, wide);
  written.set(t, all);
  leafs.push(t);
  return g.view(t, ne, { nb: nb.slice(1), offset: offs });
}

function expected(c: Case, data: readonly (Stored | undefined)[]): Float64Array {
  const seen = c.src.map((s, i) => (s === undefined ? undefined : accessor(s, data[i]!.values)));
  const input = { x: seen.map((s) => s?.at ?? (() => NaN)), ne: seen.map((s) => s?.ne ?? []) };
  const [n0, n1, n2, n3] = shape4(c.ne);
  const out = new Float64Array(n0 * n1 * n2 * n3);
  for (let i = 0; i < out.length; i++) {
    const row = Math.floor(i / n0);
    out[i] = c.value(input, [i % n0, row % n1, Math.floor(row / n1) % n2, Math.floor(row / (n1 * n2))]);
  }
  return out;
}

function check(c: Case, got: ArrayLike<number>, want: Float64Array): void {
  const type = c.type ?? Type.F32;
  const tolerance = c.tolerance ?? TOLERANCE[type] ?? 0;
  expect(got.length).toBe(want.length);
  for (let i = 0; i < want.length; i++) {
    const exact = tolerance === 0 ? roundTo(type, want[i]!) : want[i]!;
    const x = Number(got[i]);
    if (x === exact || Object.is(x, exact)) continue;
    const error = Math.abs(x - exact) / Math.max(1, Math.abs(exact));
    if (!(error <= tolerance)) expect.fail(`element ${i}: ${x}, expected ${exact}, error ${error}`);
  }
}

// The planner may put the result over a source when it has the same type, shape and strides.
function couldBeInPlace(c: Case, y: Tensor): boolean {
  if (!opDef(c.op).inplace || y.viewSrc !== undefined) return false;
  return c.src.some(
    (s) => s !== undefined && s.axes === undefined && s.type === y.type && sameShape(shape4(s.ne), y.ne),
  );
}

// Raw bytes that no number type holds are compared as bytes.
function isNumeric(c: Case): boolean {
  return [Type.F32, Type.F16, Type.BF16, Type.I32].includes(c.type ?? Type.F32);
}

for (const [op, cases] of Object.entries(CASES)) {
  describe(opDef(Number(op)).name, () => {
    test.each(cases.map((c) => [c.title, c] as const))("%s", async (_title, c) => {
      const data = dataOf(c);
      const fresh = await run(one, c, data, "fresh");
      expect(fresh.y.ne).toEqual(shape4(c.ne));
      expect(fresh.y.type).toBe(c.type ?? Type.F32);
      if (isNumeric(c)) check(c, fresh.values, expected(c, data));
      const over = await run(one, c, data, "in place");
      expect(over.bytes).toEqual(fresh.bytes);
      if (Number(op) > Op.TRANSPOSE) expect(over.inPlace).toBe(couldBeInPlace(c, over.y));
      if (c.op !== Op.RESHAPE && c.op !== Op.VIEW)
        expect((await run(one, c, data, "view")).bytes).toEqual(fresh.bytes);
      expect((await run(three, c, data, "fresh")).bytes).toEqual(fresh.bytes);
    });
  });
}

// Engines without relaxed SIMD (Node 20) cannot load the other build; hosts.test.ts runs this file on Node 26.
const relaxed = WebAssembly.validate(readFileSync(new URL("../build/relaxed.wasm", import.meta.url)));

const relaxedTest = relaxed ? test : undefined;
relaxedTest?.("both builds give the same bits for every operator here", async () => {
  const a = await createEngine({ nThreads: 1, wasm: "simd" });
  const b = await createEngine({ nThreads: 1, wasm: "relaxed" });
  for (const c of Object.values(CASES).flat()) {
    const data = dataOf(c);
    const [x, y] = [await run(a, c, data, "fresh"), await run(b, c, data, "fresh")];
    expect(y.bytes, `${opDef(c.op).name} ${c.title}`).toEqual(x.bytes);
  }
  a.dispose();
  b.dispose();
});
