// Runs the cases of an operator on an engine, fresh, in place and through views, and compares with their references.
import { expect } from "vitest";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import { opDef } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { contiguous, sameShape, shape4 } from "../ts/shape.ts";
import { Type, typeInfo } from "../ts/types.ts";
import type { Case, Source } from "./cases/case.ts";
import { accessor, makeData, random, roundTo, type Stored } from "./op_data.ts";

// Relative to max(1, |value|): a few roundings in f32, half a step of the 16-bit types.
const TOLERANCE: { readonly [type: number]: number } = {
  [Type.F32]: 2e-6,
  [Type.F16]: 6e-4,
  [Type.BF16]: 4e-3,
};

/** How sources come: as they are, as memory the result may take over, in the middle of larger tensors. */
export type How = "fresh" | "in place" | "view";

/** A case that was run. */
export interface Ran {
  readonly y: Tensor;
  readonly bytes: Uint8Array;
  readonly values: ArrayLike<number>;
  /** a source whose memory the result has taken over */
  readonly inPlace: boolean;
}

/** Seeded data of a case's sources. */
export function dataOf(c: Case): (Stored | undefined)[] {
  const next = random(c.title.length * 7919 + c.op);
  return c.src.map((s) => (s === undefined ? undefined : makeData(s, next)));
}

/** Runs a case once. */
export async function runOpCase(
  engine: Engine,
  c: Case,
  data: readonly (Stored | undefined)[],
  how: How,
): Promise<Ran> {
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

/** What the reference says. */
export function expected(c: Case, data: readonly (Stored | undefined)[]): Float64Array {
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

/** Compares; `least` is the smallest tolerance of values that need not be exact. */
export function check(c: Case, got: ArrayLike<number>, want: Float64Array, least = 0): void {
  const type = c.type ?? Type.F32;
  const own = c.tolerance ?? TOLERANCE[type] ?? 0;
  const tolerance = own === 0 ? 0 : Math.max(own, least);
  expect(got.length).toBe(want.length);
  for (let i = 0; i < want.length; i++) {
    const exact = tolerance === 0 ? roundTo(type, want[i]!) : want[i]!;
    const x = Number(got[i]);
    if (x === exact || Object.is(x, exact)) continue;
    const error = Math.abs(x - exact) / Math.max(1, Math.abs(exact));
    if (!(error <= tolerance)) expect.fail(`element ${i}: ${x}, expected ${exact}, error ${error}`);
  }
}

/** True when the planner may put the result over a source: of the same type, shape and strides. */
export function couldBeInPlace(c: Case, y: Tensor): boolean {
  if (!opDef(c.op).inplace || y.viewSrc !== undefined) return false;
  return c.src.some(
    (s) => s !== undefined && s.axes === undefined && s.type === y.type && sameShape(shape4(s.ne), y.ne),
  );
}

/** Raw bytes that no number type holds are compared as bytes. */
export function isNumeric(c: Case): boolean {
  return [Type.F32, Type.F16, Type.BF16, Type.I32].includes(c.type ?? Type.F32);
}
