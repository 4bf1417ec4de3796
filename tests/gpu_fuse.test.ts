// Fusion on the GPU: which pairs of nodes become one, and that results do not change.
import { afterAll, expect, test } from "vitest";
import { Glu, Op, Unary } from "../assembly/abi.ts";
import { FUSIONS, type FuseOption, type FusionName, readFusions } from "../ts/graph/fusion.ts";
import type { Program, ProgramNode } from "../ts/graph/program.ts";
import { leaf, Tensor } from "../ts/graph/tensor.ts";
import { opDef } from "../ts/ops/index.ts";
import type { OpDef } from "../ts/ops/op.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { contiguous } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import { fuse } from "../ts/webgpu/fuse.ts";
import { describeGpu } from "./gpu_describe.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { makeData, random } from "./op_data.ts";

const x = leaf("x", Type.F32, [8, 3]);
const w = leaf("w", Type.F32, [8]);
const m = leaf("m", Type.Q8_0, [32, 8]);
const y = leaf("y", Type.F32, [32, 3]);

function node(op: Op, src: readonly Tensor[], params: object = {}): Tensor {
  const result = (opDef(op) as unknown as OpDef<object>).infer(src, params);
  const root = result.viewOf === undefined ? undefined : src[result.viewOf];
  return new Tensor({
    op,
    type: result.type,
    ne: result.ne,
    nb: result.nb ?? contiguous(result.type, result.ne),
    src,
    params: result.params ?? [],
    ...(root === undefined ? {} : { viewSrc: root.root, viewOffs: root.viewOffs }),
  });
}

const norm = (): Tensor => node(Op.RMS_NORM, [x], { eps: 1e-5 });
const product = (): Tensor => node(Op.MUL_MAT, [m, y]);

function program(...tensors: readonly Tensor[]): Program {
  return { leafs: [x, w, m, y], nodes: tensors.map((tensor) => ({ tensor, src: tensor.src })) };
}

function fused(p: Program, kept: readonly Tensor[] = [], known = true): ProgramNode[] {
  return [...fuse(p, new Set(kept), () => known).nodes];
}

test("a norm and its weights become one node, on either side of the product", () => {
  const n = norm();
  for (const scaled of [node(Op.MUL, [n, w])]) {
    const [one, ...rest] = fused(program(n, scaled));
    expect(rest).toEqual([]);
    expect(one).toMatchObject({ tensor: scaled, src: [x, w] });
    expect(one!.fused![0]!.tensor).toBe(n);
  }
});

test("a product and what is added to it become one node", () => {
  const p = product();
  for (const sum of [node(Op.ADD, [p, x]), node(Op.ADD, [x, p]), node(Op.ADD, [p, w])]) {
    const [one, ...rest] = fused(program(p, sum));
    expect(rest).toEqual([]);
    expect(one!.src).toEqual([m, y, sum.src.find((s) => s !== p)]);
  }
});

test("two products of the same columns and their gate become one node", () => {
  const m2 = leaf("m2", Type.Q8_0, [32, 8]);
  const [p, q] = [product(), node(Op.MUL_MAT, [m2, y])];
  const glu = node(Op.GLU, [p, q], { fn: Glu.SWIGLU });
  const [one, ...rest] = fused(program(p, q, glu));
  expect(rest).toEqual([]);
  expect(one).toMatchObject({ tensor: glu, src: [m, y, m2] });
  expect(fused(program(p, q, glu), [q])).toHaveLength(3);
  expect(fused(program(p, node(Op.GLU, [p, x], { fn: Glu.SWIGLU })))).toHaveLength(2);
});

test("what others read is computed by itself", () => {
  const p = product();
  const sum = node(Op.ADD, [p, x]);
  expect(fused(program(p, sum), [p])).toHaveLength(2);
  expect(fused(program(p, sum, node(Op.SQR, [p])))).toHaveLength(3);
  expect(fused(program(p, node(Op.RESHAPE, [p], { ne: [24] }), sum))).toHaveLength(3);
  expect(fused(program(p, node(Op.ADD, [p, p])))).toHaveLength(2);
  const output = product().asOutput();
  expect(fused(program(output, node(Op.ADD, [output, x])))).toHaveLength(2);
});

test("nothing moves past a write into what it reads, and nothing without a kernel is fused", () => {
  const p = product();
  const sum = node(Op.ADD, [p, x]);
  const write = node(Op.CPY, [leaf("z", Type.F32, [32, 3]), y]);
  expect(fused(program(p, write, sum))).toHaveLength(3);
  expect(fused(program(p, sum), [], false)).toHaveLength(2);
  const wide = node(Op.ADD, [leaf("v", Type.F32, [8, 3, 2]), p]);
  expect(fused(program(p, wide))).toHaveLength(2);
});

test("a fusion that is switched off leaves its nodes apart", () => {
  const count = (p: Program, fuseOption: FuseOption): number =>
    fuse(p, new Set(), () => true, readFusions(fuseOption)).nodes.length;
  const m2 = leaf("m2", Type.Q8_0, [32, 8]);
  const [n, p, q] = [norm(), product(), node(Op.MUL_MAT, [m2, y])];
  const pairs: [FusionName, Program][] = [
    ["norm_mul", program(n, node(Op.MUL, [n, w]))],
    ["mul_mat_add", program(p, node(Op.ADD, [p, x]))],
    ["glu_pair", program(p, q, node(Op.GLU, [p, q], { fn: Glu.SWIGLU }))],
  ];
  for (const [name, pair] of pairs) {
    expect(count(pair, { [name]: false })).toBe(pair.nodes.length);
    expect(count(pair, false)).toBe(pair.nodes.length);
    const others = Object.fromEntries(FUSIONS.map((other) => [other, other === name]));
    expect(count(pair, others)).toBe(1);
  }
});

await describeGpu("fusion on a GPU", () => {
  const open: Engine[] = [];
  afterAll(() => {
    for (const engine of open) engine.dispose();
  });

  // A layer's worth: norm, weights, product, bias, activation, product, residual. `apart`: every result is an output.
  async function layer(engine: Engine, tokens: number, apart: boolean): Promise<Float32Array> {
    using g = engine.graph();
    const input = g.input("x", Type.F32, [40, tokens]);
    const weights = [[40], [40, 33], [33], [33, 40]].map((ne, i) => g.input(`w${i}`, Type.F32, ne));
    const [scale, up, bias, down] = weights as [Tensor, Tensor, Tensor, Tensor];
    const keep = (t: Tensor): Tensor => (apart ? t.asOutput() : t);
    const h = g.mul(keep(g.rmsNorm(input, 1e-5)), scale);
    const f = g.unary(g.add(keep(g.mulMat(up, h)), bias), Unary.SILU);
    const out = g.add(input, keep(g.mulMat(down, f))).asOutput();
    g.plan();
    const next = random(7);
    for (const t of [input, ...weights])
      t.write(Float32Array.from({ length: t.ne[0] * t.ne[1] }, () => next() - 0.5));
    await g.compute();
    return (await out.read()) as Float32Array;
  }

  // A gate over two products; `apart`: the products are outputs.
  async function gate(engine: Engine, type: Type, tokens: number, apart: boolean): Promise<Float32Array> {
    using g = engine.graph();
    const input = g.input("x", Type.F32, [64, tokens]);
    const weights = ["gate", "up"].map((name) => g.weight(name, type, [64, 37]));
    const [p, q] = weights.map((t) => g.mulMat(t, input)) as [Tensor, Tensor];
    if (apart) for (const t of [p, q]) t.asOutput();
    const out = g.glu(p, q, { fn: Glu.GEGLU }).asOutput();
    g.plan();
    const next = random(3);
    for (const t of [input, ...weights]) t.write(makeData({ type: t.type, ne: t.ne }, next).bytes);
    await g.compute();
    return (await out.read()) as Float32Array;
  }

  test.each([
    [Type.F32, 3],
    [Type.Q8_0, 1],
  ])("a gate over products of type %i and %i columns has the same bits", async (type, tokens) => {
    const { engine, backend } = await gpuEngine({ gpu: await testGpu() });
    open.push(engine);
    const { counts } = backend.gpu;
    const apart = await gate(engine, type, tokens, true);
    expect(counts.dispatches).toBe(2); // both products at once, then the gate
    expect(await gate(engine, type, tokens, false)).toEqual(apart);
    expect(counts.dispatches).toBe(2 + 1);
    using g = engine.graph();
    const columns = g.input("x", Type.F32, [64, tokens]);
    const [p, q] = ["gate", "up"].map((name) => g.mulMat(g.weight(name, type, [64, 37]), columns));
    g.glu(p!, q!, { fn: Glu.GEGLU }).asOutput();
    await backend.prepare(g.program());
    expect([...backend.refused()]).toEqual([]);
    expect(backend.gpu.failure).toBeUndefined();
  });

  test("gives the bits of the nodes by themselves with fewer dispatches", async () => {
    const { engine, backend } = await gpuEngine({ gpu: await testGpu() });
    open.push(engine);
    const { counts } = backend.gpu;
    const apart = await layer(engine, 1, true);
    expect(counts.dispatches).toBe(7);
    expect(await layer(engine, 1, false)).toEqual(apart);
    expect(counts.dispatches).toBe(7 + 4);
    expect(backend.gpu.failure).toBeUndefined();
  });
});
