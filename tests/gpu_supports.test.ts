// What GPU kernels take and what they leave to the CPU: asked of the kernels themselves, no adapter needed.
import { expect, test } from "vitest";
import { Op } from "../assembly/abi.ts";
import { leaf, Tensor } from "../ts/graph/tensor.ts";
import { opDef } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import { WEIGHTS } from "../ts/ops/mul_mat.ts";
import { TABLES } from "../ts/ops/get_rows.ts";
import { contiguous } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import { type Caps, MAX_DISPATCH_PARAMS } from "../ts/webgpu/kernel.ts";
import { KERNELS } from "../ts/webgpu/kernels/index.ts";
import { smallShapes } from "../ts/webgpu/selftest/replica.ts";
import type { ProgramNode } from "../ts/graph/program.ts";
import { LEAST } from "./least_caps.ts";

function node(op: Op, src: readonly (Tensor | undefined)[], params: object = {}): ProgramNode {
  const {
    type,
    ne,
    nb = contiguous(type, ne),
    params: slots = [],
    viewOf,
  } = (opDef(op) as unknown as OpDef<object>).infer(src, params);
  const root = viewOf === undefined ? undefined : src[viewOf];
  const view = root === undefined ? {} : { viewSrc: root.root, viewOffs: root.viewOffs };
  return { tensor: new Tensor({ op, type, ne, nb, src, params: slots, ...view }), src };
}

function supports(
  op: Op,
  src: readonly (Tensor | undefined)[],
  params: object = {},
  caps: Caps = LEAST,
): boolean {
  const n = node(op, src, params);
  const kernel = KERNELS[op]!;
  if (!kernel.supports(n, caps)) return false;
  for (const d of kernel.dispatches(n, caps)) {
    expect(d.params.length, d.label).toBeLessThanOrEqual(MAX_DISPATCH_PARAMS);
    expect(d.enable ?? []).toEqual([]);
    expect(d.groups).toBeGreaterThan(0);
    expect(d.groups).toBeLessThan(2 ** 31);
  }
  return true;
}

const x = (type: Type, ne: readonly number[]): Tensor => leaf("x", type, ne);

/** A view of it that begins `offs` bytes into it. */
function view(t: Tensor, ne: readonly [number, number, number, number], offs: number): Tensor {
  return new Tensor({ op: Op.VIEW, type: t.type, ne, nb: t.nb, viewSrc: t, viewOffs: offs });
}

test.each(WEIGHTS.map((t) => [Type[t], t] as const))("products take weights of %s", (_, type) => {
  for (const n of [1, 2, 5, 40])
    expect(supports(Op.MUL_MAT, [x(type, [512, 9]), x(Type.F32, [512, n])])).toBe(true);
  const ids = x(Type.I32, [2, 3]);
  expect(supports(Op.MUL_MAT_ID, [x(type, [512, 9, 4]), x(Type.F32, [512, 1, 3]), ids])).toBe(true);
});

test.each(TABLES.map((t) => [Type[t], t] as const))("rows of tables of %s are fetched", (_, type) => {
  expect(supports(Op.GET_ROWS, [x(type, [512, 9]), x(Type.I32, [3])])).toBe(true);
});

test("blocks of 32 are made of floats, blocks of 256 are not", () => {
  for (const type of [
    Type.Q4_0,
    Type.Q4_1,
    Type.Q5_0,
    Type.Q5_1,
    Type.Q8_0,
    Type.Q8_1,
    Type.IQ4_NL,
    Type.MXFP4,
  ]) {
    expect(supports(Op.CPY, [x(Type.F16, [64, 3])], { type })).toBe(true);
    expect(supports(Op.SET_ROWS, [x(Type.F32, [64, 3]), x(Type.I32, [3]), x(type, [64, 9])])).toBe(true);
    expect(supports(Op.CPY, [x(Type.F32, [64]), undefined, x(Type.F32, [64])], { type })).toBe(false);
  }
  expect(supports(Op.CPY, [x(Type.F32, [256])], { type: Type.Q4_K })).toBe(false);
  expect(supports(Op.CPY, [x(Type.Q4_K, [256])], { type: Type.F32 })).toBe(true);
});

test("data that begins or strides between words is left to the CPU", () => {
  const wide = x(Type.F32, [9, 4]);
  expect(supports(Op.SQR, [view(wide, [4, 4, 1, 1], 4)])).toBe(true);
  expect(supports(Op.SQR, [view(wide, [4, 4, 1, 1], 2)])).toBe(false);
  expect(supports(Op.SQR, [view(x(Type.F16, [9, 4]), [4, 4, 1, 1], 2)])).toBe(true);
  expect(supports(Op.SQR, [view(x(Type.F16, [9, 4]), [4, 4, 1, 1], 3)])).toBe(false);
});

test("matrices and tables above a binding are read through windows, batches of them are not", () => {
  const small = { ...LEAST, maxBinding: 4096 };
  const b = x(Type.F32, [128, 2]);
  expect(supports(Op.MUL_MAT, [x(Type.F32, [128, 100]), b], {}, small)).toBe(true);
  expect(supports(Op.MUL_MAT, [x(Type.F32, [128, 100, 2]), x(Type.F32, [128, 2, 2])], {}, small)).toBe(false);
  expect(supports(Op.MUL_MAT, [x(Type.F32, [2048, 2]), x(Type.F32, [2048, 1])], {}, small)).toBe(false);
  expect(supports(Op.GET_ROWS, [x(Type.F32, [128, 100]), x(Type.I32, [2])], {}, small)).toBe(true);
  const windows = KERNELS[Op.MUL_MAT]!.dispatches(node(Op.MUL_MAT, [x(Type.F32, [128, 100]), b]), small);
  expect(windows.length).toBe(13);
});

/** Labels of a product's kernels. */
function labels(type: Type, m: number, n: number, caps: Caps): string[] {
  const product = node(Op.MUL_MAT, [x(type, [256, m]), x(Type.F32, [256, n])]);
  return KERNELS[Op.MUL_MAT]!.dispatches(product, caps).map((d) => d.label);
}

test("tiles of prompts are large where they fit, and in f16 where there is f16", () => {
  const f16 = { ...LEAST, f16: true };
  const roomy = { ...LEAST, maxWorkgroupBytes: 32768 };
  const tile = (caps: Caps, m: number, n: number, type = Type.Q4_K): string | undefined =>
    labels(type, m, n, caps)[0]!.match(/tile.*/)?.[0];
  expect([LEAST, roomy, f16].map((caps) => tile(caps, 256, 512))).toEqual(["tile32", "tile64", "tile64 f16"]);
  expect([LEAST, roomy, f16].map((caps) => tile(caps, 256, 40))).toEqual(["tile32", "tile32", "tile32 f16"]);
  expect([32, 64, 70, 97].map((m) => tile(roomy, m, 512))).toEqual(["tile32", "tile64", "tile32", "tile64"]);
  for (const type of [Type.F32, Type.BF16]) expect(tile(f16, 256, 512, type)).toBe("tile32");
  expect(tile(f16, 256, 4)).toBeUndefined();
});

test("what the self-test runs for a product is what the product runs", () => {
  const capable = [{ f16: true }, { maxWorkgroupBytes: 32768 }, {}].map((c) => ({ ...LEAST, ...c }));
  for (const caps of capable)
    for (const m of [5, 40, 70, 97, 130, 1000])
      for (const n of [1, 5, 40, 96, 97, 130, 512]) {
        const product = node(Op.MUL_MAT, [x(Type.Q8_0, [256, m]), x(Type.F32, [256, n])]);
        const { src } = smallShapes(product);
        const [rows, columns] = [src[0]![1], src[1]![1]];
        expect(labels(Type.Q8_0, rows, columns, caps), `${m} ${n}`).toEqual(labels(Type.Q8_0, m, n, caps));
        expect(rows * columns).toBeLessThanOrEqual(120 * 124);
      }
});

test("attention takes heads of up to 640 elements", () => {
  const of = (d: number): boolean => {
    const [q, k] = [x(Type.F32, [d, 3, 2]), x(Type.F16, [d, 40, 1])];
    return supports(Op.FLASH_ATTN_EXT, [q, k, k], { scale: 1 });
  };
  expect([1, 64, 576, 640, 641].map(of)).toEqual([true, true, true, true, false]);
});
