// Runs golden cases on an engine: single operators, whole graphs, quantizers.

import { Glu, Op, Unary } from "../../assembly/abi.ts";
import { GraphError } from "../../ts/errors.ts";
import type { Graph } from "../../ts/graph/graph.ts";
import type { Tensor } from "../../ts/graph/tensor.ts";
import { opDef } from "../../ts/ops/index.ts";
import type { OpDef } from "../../ts/ops/op.ts";
import { viewDef } from "../../ts/ops/view.ts";
import type { Engine } from "../../ts/runtime/engine.ts";
import { rowBytes, type Strides } from "../../ts/shape.ts";
import { isQuantized, Type, typeOf } from "../../ts/types.ts";
import { limitOf, mismatch, nmse, type Values } from "./compare.ts";
import type { Case, GraphSpec, GraphTensor, OperandSpec, OpSpec, QuantSpec } from "./cases.ts";
import { comparableSlots, decodeParams } from "./params.ts";

/** What became of a case; `reason` of a failure, `notBuilt` when the engine says that it lacks something. */
export type Outcome =
  { readonly kind: "passed" } | { readonly kind: "failed" | "notBuilt"; readonly reason: string };

const PASSED: Outcome = { kind: "passed" };
/** Block types whose bytes must be those of the file: fixed by their definition, or found by the same search. */
const EXACT: readonly Type[] = [
  Type.F16,
  Type.BF16,
  Type.Q4_0,
  Type.Q4_1,
  Type.Q5_0,
  Type.Q5_1,
  Type.Q8_0,
  Type.Q8_1,
  Type.Q8_K,
  Type.Q2_K,
  Type.Q3_K,
  Type.Q4_K,
  Type.Q5_K,
  Type.Q6_K,
  Type.IQ4_XS,
];
// ggml computes these through a table of f16 values; they are computed exactly here. Limits of graphs: golden/README.md.
const TABLE_UNARY: readonly number[] = [Unary.GELU, Unary.GELU_QUICK];
const TABLE_GLU: readonly number[] = [Glu.GEGLU, Glu.GEGLU_QUICK];
const TABLE_LIMIT = 1e-7;
// ggml's attention rounds its queries to the type of the keys, and its sums to F16 when the values are F16; here both
// stay F32. Worst distance of ggml's own result from exact arithmetic, by type of the cache (facts/ggml.md 8).
const ATTENTION_LIMIT: { readonly [type: number]: number } = {
  [Type.F32]: 0,
  [Type.F16]: 1e-6,
  [Type.BF16]: 3e-6,
};
const ATTENTION_BLOCKS_LIMIT = 3e-5;
// Activations that stay F32 where ggml rounds them to the type of F16 weights, or to eight bits for block types.
const F32_ACTIVATIONS_LIMIT = { f16: 1e-6, blocks: 2e-3 };
// Weights of a block type rounded to F16; the files allow 5e-4.
const F16_WEIGHTS_LIMIT = 1e-6;
// Weights of a block type re-quantise what attention gives them, which multiplies that distance.
const REQUANTISED_LIMIT = 2e-3;

/** What a case is run with. */
export interface RunOptions {
  /** products keep their activations in F32 whatever the weights, as the GPU does */
  readonly f32Activations?: boolean;
  /** products round weights of block types to F16, as GPUs that have it do */
  readonly f16Weights?: boolean;
}

function failed(reason: string): Outcome {
  return { kind: "failed", reason };
}

/** Runs one case. */
export async function runCase(engine: Engine, c: Case, options: RunOptions = {}): Promise<Outcome> {
  try {
    const { spec } = c;
    if (spec.op === "GRAPH") return await runGraph(engine, c, spec as GraphSpec, options);
    if (spec.op === "QUANTIZE") return await runQuantize(engine, c, spec as QuantSpec);
    if (spec.op === "DEQUANTIZE") return await runDequantize(engine, c, spec as QuantSpec);
    return await runOp(engine, c, spec as OpSpec, options);
  } catch (error) {
    const lacks =
      error instanceof GraphError && (error.code === "bad-type" || error.code === "unsupported-op");
    if (lacks) return { kind: "notBuilt", reason: error.message };
    return failed(`threw ${String(error)}`);
  }
}

function opOf(name: string): Op {
  const op = (Op as unknown as { readonly [name: string]: Op | undefined })[name];
  if (op === undefined)
    throw new GraphError("unsupported-op", `${name.toLowerCase()}: there is no such operator`);
  return op;
}

function typed(name: string): Type {
  const type = typeOf(name);
  if (type === undefined) throw new Error(`no type ${name}`);
  return type;
}

// Definitions are called with parameters decoded from raw slots, so their types are known only to the tables.
function define(op: Op): OpDef<object> {
  return opDef(op) as unknown as OpDef<object>;
}

function trimmed(op: Op, slots: readonly number[]): string {
  const last = slots.slice(0, comparableSlots(op)).findLastIndex((s) => s !== 0);
  return slots.slice(0, last + 1).join(",");
}

// ---- one operator

async function runOp(engine: Engine, c: Case, spec: OpSpec, options: RunOptions): Promise<Outcome> {
  const op = opOf(spec.ggml_op);
  using g = engine.graph();
  const bases = new Map<string, Tensor>();
  const src = spec.src.map((s) => (s === null ? undefined : operand(g, c, s, bases)));
  const type = typed(spec.type);
  const params = decodeParams(op, spec.op_params, { type, ne: spec.ne, nb: [] });
  const y = g.node(op, define(op), src, params).asOutput();
  const packed = trimmed(op, y.params);
  const raw = trimmed(op, spec.op_params);
  if (packed !== raw) return failed(`parameters [${packed}], expected [${raw}]`);
  g.plan();
  for (const [name, t] of bases) t.write(c.tensor(name).bytes);
  await g.compute();
  const got: Values = { type: y.type, ne: y.ne, bytes: await y.readBytes() };
  const expected = [c.tensor("dst"), c.optional("ideal")].filter((v) => v !== undefined);
  const rounds = options.f16Weights === true && isProduct(spec) && isQuantized(src[0]!.type);
  const limits = rounds ? { ...spec.tol, noise_nmse: F16_WEIGHTS_LIMIT / 1000 } : spec.tol;
  const reason = mismatch(got, expected, limits);
  if (reason === undefined) return PASSED;
  if (spec.tol.kind !== "quant" || EXACT.includes(type)) return failed(reason);
  const error = nmse(await decode(engine, got), await decode(engine, expected[0]!));
  return error <= spec.tol.max! ? PASSED : failed(`nmse ${error}, limit ${spec.tol.max}`);
}

function operand(g: Graph, c: Case, s: OperandSpec, bases: Map<string, Tensor>): Tensor {
  let base = bases.get(s.base);
  if (base === undefined) {
    const { type, ne } = c.tensor(s.base);
    base = g.input(s.base, type, ne);
    bases.set(s.base, base);
  }
  if (!s.view) return base;
  return g.node(Op.VIEW, viewDef, [base], { ne: s.ne, nb: s.nb as Strides, offs: s.offs });
}

// ---- whole graphs

/**
 * With GELU computed exactly a graph must be near ggml's result. Where the difference grows because values are rounded to
 * F16 later on, two weaker statements must hold together: the exact result is within the file's own limit, and with
 * GELU through F16, as ggml's table has it, the graph agrees as closely as graphs without GELU do.
 */
async function runGraph(
  engine: Engine,
  c: Case,
  spec: GraphSpec,
  { f32Activations = false }: RunOptions,
): Promise<Outcome> {
  const products = f32Activations ? productLimit(spec) : 0;
  const strict = Math.max(limitOf(spec.tol, Type.F32), attentionLimit(spec), products);
  if (!usesTable(spec)) return evaluate(engine, c, spec, strict, false);
  const exact = await evaluate(engine, c, spec, Math.max(strict, TABLE_LIMIT), false);
  if (exact.kind !== "failed") return exact;
  const near = await evaluate(engine, c, spec, spec.tol.max!, false);
  const asTable = await evaluate(engine, c, spec, strict, true);
  return near.kind === "passed" && asTable.kind === "passed" ? PASSED : exact;
}

async function evaluate(
  engine: Engine,
  c: Case,
  spec: GraphSpec,
  limit: number,
  asTable: boolean,
): Promise<Outcome> {
  using g = engine.graph();
  const tensors: Tensor[] = [];
  for (const t of spec.tensors) {
    if (t.id < spec.n_leafs) tensors.push(g.input(`t${t.id}`, typed(t.type), t.ne));
    else if (asTable && isTableUnary(t)) tensors.push(g.expand(throughF16(g, t, tensors[t.src[0]!]!)));
    else tensors.push(g.expand(graphNode(g, t, spec.tensors, tensors)));
  }
  for (const id of spec.outputs) tensors[id]!.asOutput();
  g.plan();
  for (let id = 0; id < spec.n_leafs; id++) {
    const data = c.optional(`t${id}`);
    if (data !== undefined) tensors[id]!.write(data.bytes);
  }
  await g.compute();
  for (const id of spec.outputs) {
    const y = tensors[id]!;
    const got: Values = { type: y.type, ne: y.ne, bytes: await y.readBytes() };
    const reason = mismatch(got, [c.tensor(`out${id}`)], { kind: "nmse", noise_nmse: limit / 1000 });
    if (reason !== undefined) return failed(`output ${id}: ${reason}`);
  }
  return PASSED;
}

function isTableUnary({ ggml_op, op_params, type }: GraphTensor): boolean {
  return ggml_op === "UNARY" && type === "f32" && TABLE_UNARY.includes(op_params[0] ?? 0);
}

// GELU of x rounded to F16, rounded to F16.
function throughF16(g: Graph, { op_params }: GraphTensor, x: Tensor): Tensor {
  return g.cast(g.unary(g.cast(x, Type.F16), op_params[0] ?? 0), Type.F32);
}

function graphNode(
  g: Graph,
  t: GraphTensor,
  all: readonly GraphTensor[],
  tensors: readonly Tensor[],
): Tensor {
  const op = opOf(t.ggml_op);
  // a tensor that names itself is a cast
  const src = t.src.map((id) => (id === null || id === t.id ? undefined : tensors[id]));
  const y = g.node(
    op,
    define(op),
    src,
    decodeParams(op, t.op_params, { type: typed(t.type), ne: t.ne, nb: t.nb }),
  );
  if (
    y.type !== typed(t.type) ||
    y.ne.some((n, i) => n !== t.ne[i]) ||
    y.nb.some((b, i) => y.ne[i] !== 1 && b !== t.nb[i])
  ) {
    throw new Error(
      `node ${t.id} (${t.op}): ${y.label()} with strides ${y.nb}, expected [${t.ne}] with ${t.nb}`,
    );
  }
  const root = t.view_src === null ? undefined : all[t.view_src];
  if (root !== undefined && y.viewOffs !== t.view_offs)
    throw new Error(`node ${t.id}: offset ${y.viewOffs}, expected ${t.view_offs}`);
  return y;
}

function usesTable(spec: GraphSpec): boolean {
  return spec.tensors.some(({ ggml_op, op_params }) => {
    const fn = op_params[0] ?? 0;
    return (ggml_op === "UNARY" && TABLE_UNARY.includes(fn)) || (ggml_op === "GLU" && TABLE_GLU.includes(fn));
  });
}

function isProduct({ ggml_op }: { readonly ggml_op: string }): boolean {
  return ggml_op === "MUL_MAT" || ggml_op === "MUL_MAT_ID";
}

function productLimit({ tensors }: GraphSpec): number {
  const products = tensors.filter(isProduct);
  const types = products.map((t) => typed(tensors[t.src[0]!]!.type));
  if (types.some(isQuantized)) return F32_ACTIVATIONS_LIMIT.blocks;
  return types.includes(Type.F16) ? F32_ACTIVATIONS_LIMIT.f16 : 0;
}

function attentionLimit({ tensors }: GraphSpec): number {
  const typeOfSource = (t: GraphTensor, i: number): Type => typed(tensors[t.src[i]!]!.type);
  const caches = tensors.filter((t) => t.ggml_op === "FLASH_ATTN_EXT").map((t) => typeOfSource(t, 2));
  const limit = Math.max(0, ...caches.map((type) => ATTENTION_LIMIT[type] ?? ATTENTION_BLOCKS_LIMIT));
  const blocks = tensors.some((t) => t.ggml_op === "MUL_MAT" && isQuantized(typeOfSource(t, 0)));
  return limit > 0 && blocks ? REQUANTISED_LIMIT : limit;
}

// ---- quantizers

async function runQuantize(engine: Engine, c: Case, spec: QuantSpec): Promise<Outcome> {
  const importance = c.optional("imatrix");
  const x = c.tensor("src0");
  const dst = c.tensor("dst");
  const type = typed(spec.qtype);
  using g = engine.graph();
  const src = g.input("src0", x.type, x.ne);
  const weights = importance && g.input("imatrix", Type.F32, [x.ne[0]!]);
  const y = g.node(Op.CPY, define(Op.CPY), [src, undefined, weights], { type }).asOutput();
  g.plan();
  src.write(x.bytes);
  weights?.write(importance!.bytes);
  await g.compute();
  const got: Values = { type, ne: y.ne, bytes: await y.readBytes() };
  if (got.bytes.every((b, i) => b === dst.bytes[i]) && got.bytes.length === dst.bytes.length) return PASSED;
  if (EXACT.includes(type)) return failed("bytes differ");
  const error = rmse(await decode(engine, got), new Float32Array(x.bytes.slice().buffer));
  return error <= 1.02 * spec.rmse! ? PASSED : failed(`rmse ${error}, expected ${spec.rmse}`);
}

async function runDequantize(engine: Engine, c: Case, spec: QuantSpec): Promise<Outcome> {
  const dst = c.tensor("dst");
  const x = c.tensor("src0");
  const type = typed(spec.qtype);
  // the blocks may be stored as plain bytes
  const got = await decode(engine, {
    type,
    ne: [spec.n, x.bytes.length / rowBytes(type, spec.n), 1, 1],
    bytes: x.bytes,
  });
  const error = nmse(got, new Float32Array(dst.bytes.slice().buffer));
  return error <= 1e-12 ? PASSED : failed(`nmse ${error}, limit 1e-12`);
}

function rmse(x: ArrayLike<number>, y: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < y.length; i++) sum += (x[i]! - y[i]!) ** 2;
  return Math.sqrt(sum / y.length);
}

// Values of any type as f32, by looking all rows up.
async function decode(engine: Engine, v: Values): Promise<Float32Array> {
  using g = engine.graph();
  const rows = v.ne[1]! * v.ne[2]! * v.ne[3]!;
  const table = g.input("table", v.type, [v.ne[0]!, rows]);
  const ids = g.input("ids", Type.I32, [rows]);
  const y = g.node(Op.GET_ROWS, define(Op.GET_ROWS), [table, ids], {}).asOutput();
  g.plan();
  table.write(v.bytes);
  ids.write(Int32Array.from({ length: rows }, (_, i) => i));
  await g.compute();
  return (await y.read()) as Float32Array;
}
