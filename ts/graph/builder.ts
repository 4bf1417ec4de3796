// The builder methods: one per operator, ggml's names in camelCase. They check shapes and types and compute nothing.
//
// What each operator does stands in its definition, ts/ops/<op>.ts, and in docs/ops.md. Shapes are innermost first.

import { Flag, Glu, Op, SRC_LIVE, Unary } from "../../assembly/abi.ts";
import { checkOptions, GraphError } from "../errors.ts";
import * as ops from "../ops/defs.ts";
import type { OpDef } from "../ops/op.ts";
import { contiguous, meet, type Region, type Shape } from "../shape.ts";
import { Type } from "../types.ts";
import { leaf, Tensor } from "./tensor.ts";

/** Sources and options of {@link GraphBuilder.flashAttn}. */
export interface FlashAttn extends ops.FlashAttnParams {
  /** F32 [D, N, H, S] */
  readonly q: Tensor;
  /** [D, KV, Hk, S] */
  readonly k: Tensor;
  /** [Dv, KV, Hv, S] */
  readonly v: Tensor;
  /** F16 or F32, [KV, >= N, ...] */
  readonly mask?: Tensor | undefined;
  /** F32 [H] */
  readonly sinks?: Tensor | undefined;
  /** I32 [2]: live cells, position of the first token; causal without a mask */
  readonly length?: Tensor | undefined;
  /** I32 [2, >= N]: first cell and end of what each token may see; its own cell has the token's index */
  readonly spans?: Tensor | undefined;
}

/** Where a view looks: strides of dimensions 1 to 3 and the first element, in bytes. */
export interface ViewPlace {
  /** bytes between neighbours of dimension 1, 2, 3; without gaps when absent */
  readonly nb?: readonly number[];
  readonly offset?: number;
}

/** Builds tensors from tensors. */
export class GraphBuilder {
  protected readonly created: Tensor[] = [];
  /** I32 scalar: how many columns (outermost dimension) of a batch hold data; nodes built while it is set compute only those */
  live: Tensor | undefined;

  // ---- leafs

  /** A tensor that is written before runs and keeps its bytes. */
  input(name: string, type: Type, ne: readonly number[]): Tensor {
    const t = this.leaf(name, type, ne);
    t.flags |= Flag.OUTPUT;
    return t;
  }

  /** A tensor with memory of its own that no plan moves: weights, state. It gets it when the graph is planned first. */
  weight(name: string, type: Type, ne: readonly number[]): Tensor {
    const t = this.#add(leaf(name, type, ne));
    t.flags |= Flag.EXTERNAL;
    return t;
  }

  /** A tensor that is written before each run: its last reader may overwrite it, as in ggml. */
  leaf(name: string, type: Type, ne: readonly number[]): Tensor {
    return this.#add(leaf(name, type, ne)).asInput();
  }

  // ---- views: nothing is computed or copied

  reshape(a: Tensor, ne: readonly number[]): Tensor {
    return this.node(Op.RESHAPE, ops.reshapeDef, [a], { ne });
  }

  view(a: Tensor, ne: readonly number[], place: ViewPlace = {}): Tensor {
    checkOptions("view", place, ["nb", "offset"]);
    const { nb = [], offset = 0 } = place;
    return this.node(Op.VIEW, ops.viewDef, [a], {
      ne,
      nb: nb.length === 0 ? [] : [a.nb[0], ...nb],
      offs: offset,
    });
  }

  /** Dimension i of `a` becomes dimension axes[i]. */
  permute(a: Tensor, axes: readonly [number, number, number, number]): Tensor {
    return this.node(Op.PERMUTE, ops.permuteDef, [a], { axes });
  }

  transpose(a: Tensor): Tensor {
    return this.node(Op.TRANSPOSE, ops.transposeDef, [a]);
  }

  // ---- copies

  /** A copy without gaps, in the same type. */
  cont(a: Tensor): Tensor {
    return this.node(Op.CONT, ops.contDef, [a], {});
  }

  dup(a: Tensor): Tensor {
    return this.node(Op.DUP, ops.dupDef, [a]);
  }

  /** Copies into `target`, converting; the result is a view of it. */
  cpy(a: Tensor, target: Tensor): Tensor {
    return this.node(Op.CPY, ops.cpyDef, [a, target], {});
  }

  /**
   * The same elements in another type.
   *
   * @param importance F32 [ne0], for a block type: how much an error in each column counts
   */
  cast(a: Tensor, type: Type, importance?: Tensor): Tensor {
    const src = importance === undefined ? [a] : [a, undefined, importance];
    return this.node(Op.CPY, ops.cpyDef, src, { type });
  }

  getRows(table: Tensor, ids: Tensor): Tensor {
    return this.node(Op.GET_ROWS, ops.getRowsDef, [table, ids]);
  }

  /** Writes `rows` into `target` at `ids`; the result is a view of it. */
  setRows(target: Tensor, rows: Tensor, ids: Tensor): Tensor {
    return this.node(Op.SET_ROWS, ops.setRowsDef, [rows, ids, target]);
  }

  repeat(a: Tensor, ne: readonly number[]): Tensor {
    return this.node(Op.REPEAT, ops.repeatDef, [a], { ne });
  }

  concat(a: Tensor, b: Tensor, dim: number): Tensor {
    return this.node(Op.CONCAT, ops.concatDef, [a, b], { dim });
  }

  // ---- elementwise; b is repeated over a

  add(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.ADD, ops.addDef, [a, b], {});
  }

  /** To each row a [.., i, t] the row of b with id ids[i, t]. */
  addId(a: Tensor, b: Tensor, ids: Tensor): Tensor {
    return this.node(Op.ADD_ID, ops.addIdDef, [a, b, ids]);
  }

  sub(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.SUB, ops.subDef, [a, b], {});
  }

  mul(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.MUL, ops.mulDef, [a, b], {});
  }

  div(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.DIV, ops.divDef, [a, b], {});
  }

  /** a + b, a single number */
  add1(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.ADD1, ops.add1Def, [a, b], {});
  }

  /** b added to a window of a */
  acc(a: Tensor, b: Tensor, params: ops.PatchParams): Tensor {
    return this.node(Op.ACC, ops.accDef, [a, b], params);
  }

  /** b put into a window of a */
  set(a: Tensor, b: Tensor, params: ops.PatchParams): Tensor {
    return this.node(Op.SET, ops.setDef, [a, b], params);
  }

  sqr(a: Tensor): Tensor {
    return this.node(Op.SQR, ops.sqrDef, [a]);
  }

  sqrt(a: Tensor): Tensor {
    return this.node(Op.SQRT, ops.sqrtDef, [a]);
  }

  log(a: Tensor): Tensor {
    return this.node(Op.LOG, ops.logDef, [a]);
  }

  sin(a: Tensor): Tensor {
    return this.node(Op.SIN, ops.sinDef, [a]);
  }

  cos(a: Tensor): Tensor {
    return this.node(Op.COS, ops.cosDef, [a]);
  }

  /** s a + b */
  scale(a: Tensor, s: number, b = 0): Tensor {
    return this.node(Op.SCALE, ops.scaleDef, [a], { s, b });
  }

  clamp(a: Tensor, min: number, max: number): Tensor {
    return this.node(Op.CLAMP, ops.clampDef, [a], { min, max });
  }

  leakyRelu(a: Tensor, slope: number): Tensor {
    return this.node(Op.LEAKY_RELU, ops.leakyReluDef, [a], { slope });
  }

  fill(a: Tensor, c: number): Tensor {
    return this.node(Op.FILL, ops.fillDef, [a], { c });
  }

  unary(a: Tensor, fn: Unary): Tensor {
    return this.node(Op.UNARY, ops.unaryDef, [a], { fn });
  }

  relu(a: Tensor): Tensor {
    return this.unary(a, Unary.RELU);
  }

  sigmoid(a: Tensor): Tensor {
    return this.unary(a, Unary.SIGMOID);
  }

  tanh(a: Tensor): Tensor {
    return this.unary(a, Unary.TANH);
  }

  floor(a: Tensor): Tensor {
    return this.unary(a, Unary.FLOOR);
  }

  silu(a: Tensor): Tensor {
    return this.unary(a, Unary.SILU);
  }

  /** The tanh form; see `unary` for GELU_ERF and GELU_QUICK. */
  gelu(a: Tensor): Tensor {
    return this.unary(a, Unary.GELU);
  }

  /** act(x) g from two tensors, or from the halves of `x` when there is no `g`. */
  glu(x: Tensor, g: Tensor | undefined, params: ops.GluParams): Tensor {
    return this.node(Op.GLU, ops.gluDef, [x, g], params);
  }

  /** silu(gate) up */
  swiglu(gate: Tensor, up?: Tensor): Tensor {
    return this.glu(gate, up, { fn: Glu.SWIGLU });
  }

  /** gelu(gate) up */
  geglu(gate: Tensor, up?: Tensor): Tensor {
    return this.glu(gate, up, { fn: Glu.GEGLU });
  }

  // ---- over rows

  sum(a: Tensor): Tensor {
    return this.node(Op.SUM, ops.sumDef, [a]);
  }

  sumRows(a: Tensor): Tensor {
    return this.node(Op.SUM_ROWS, ops.sumRowsDef, [a]);
  }

  mean(a: Tensor): Tensor {
    return this.node(Op.MEAN, ops.meanDef, [a]);
  }

  cumsum(a: Tensor): Tensor {
    return this.node(Op.CUMSUM, ops.cumsumDef, [a]);
  }

  argmax(a: Tensor): Tensor {
    return this.node(Op.ARGMAX, ops.argmaxDef, [a]);
  }

  argsort(a: Tensor, order: "asc" | "desc" = "asc"): Tensor {
    return this.node(Op.ARGSORT, ops.argsortDef, [a], { order });
  }

  topK(a: Tensor, k: number): Tensor {
    return this.node(Op.TOP_K, ops.topKDef, [a], { k });
  }

  norm(a: Tensor, eps: number): Tensor {
    return this.node(Op.NORM, ops.normDef, [a], { eps });
  }

  rmsNorm(a: Tensor, eps: number): Tensor {
    return this.node(Op.RMS_NORM, ops.rmsNormDef, [a], { eps });
  }

  l2Norm(a: Tensor, eps: number): Tensor {
    return this.node(Op.L2_NORM, ops.l2NormDef, [a], { eps });
  }

  softMax(a: Tensor, mask?: Tensor, params: ops.SoftMaxParams = {}, sinks?: Tensor): Tensor {
    return this.node(Op.SOFT_MAX, ops.softMaxDef, [a, mask, sinks], params);
  }

  diagMaskInf(a: Tensor, nPast: number): Tensor {
    return this.node(Op.DIAG_MASK_INF, ops.diagMaskInfDef, [a], { nPast });
  }

  diagMaskZero(a: Tensor, nPast: number): Tensor {
    return this.node(Op.DIAG_MASK_ZERO, ops.diagMaskZeroDef, [a], { nPast });
  }

  tri(a: Tensor, keep: ops.TriParams["keep"]): Tensor {
    return this.node(Op.TRI, ops.triDef, [a], { keep });
  }

  diag(a: Tensor): Tensor {
    return this.node(Op.DIAG, ops.diagDef, [a]);
  }

  // ---- signals and images: [W, H, C, N]

  im2col(kernel: Tensor, x: Tensor, params: ops.Im2colParams = {}): Tensor {
    return this.node(Op.IM2COL, ops.im2colDef, [kernel, x], params);
  }

  conv2d(kernel: Tensor, x: Tensor, params: ops.ConvParams = {}): Tensor {
    return this.node(Op.CONV_2D, ops.conv2dDef, [kernel, x], params);
  }

  conv2dDw(kernel: Tensor, x: Tensor, params: ops.ConvParams = {}): Tensor {
    return this.node(Op.CONV_2D_DW, ops.conv2dDwDef, [kernel, x], params);
  }

  convTranspose1d(kernel: Tensor, x: Tensor, s0: number): Tensor {
    return this.node(Op.CONV_TRANSPOSE_1D, ops.convTranspose1dDef, [kernel, x], { s0 });
  }

  convTranspose2d(kernel: Tensor, x: Tensor, stride: number): Tensor {
    return this.node(Op.CONV_TRANSPOSE_2D, ops.convTranspose2dDef, [kernel, x], { stride });
  }

  pool1d(x: Tensor, params: ops.Pool1dParams): Tensor {
    return this.node(Op.POOL_1D, ops.pool1dDef, [x], params);
  }

  pool2d(x: Tensor, params: ops.Pool2dParams): Tensor {
    return this.node(Op.POOL_2D, ops.pool2dDef, [x], params);
  }

  groupNorm(a: Tensor, nGroups: number, eps: number): Tensor {
    return this.node(Op.GROUP_NORM, ops.groupNormDef, [a], { nGroups, eps });
  }

  upscale(a: Tensor, params: ops.UpscaleParams): Tensor {
    return this.node(Op.UPSCALE, ops.upscaleDef, [a], params);
  }

  pad(a: Tensor, params: ops.PadParams): Tensor {
    return this.node(Op.PAD, ops.padDef, [a], params);
  }

  padReflect1d(a: Tensor, p0: number, p1: number): Tensor {
    return this.node(Op.PAD_REFLECT_1D, ops.padReflect1dDef, [a], { p0, p1 });
  }

  roll(a: Tensor, shift: readonly number[]): Tensor {
    return this.node(Op.ROLL, ops.rollDef, [a], { shift });
  }

  arange(start: number, stop: number, step = 1): Tensor {
    return this.node(Op.ARANGE, ops.arangeDef, [], { start, stop, step });
  }

  timestepEmbedding(t: Tensor, dim: number, maxPeriod = 10000): Tensor {
    return this.node(Op.TIMESTEP_EMBEDDING, ops.timestepEmbeddingDef, [t], { dim, maxPeriod });
  }

  ssmConv(x: Tensor, kernel: Tensor): Tensor {
    return this.node(Op.SSM_CONV, ops.ssmConvDef, [x, kernel]);
  }

  // ---- products and attention

  /** Sum over k of a [k, m] and b [k, n]: [m, n]. Weights come first. */
  mulMat(a: Tensor, b: Tensor): Tensor {
    return this.node(Op.MUL_MAT, ops.mulMatDef, [a, b]);
  }

  /** Column i of token t of b times the matrix of a that ids[i, t] names. */
  mulMatId(a: Tensor, b: Tensor, ids: Tensor): Tensor {
    return this.node(Op.MUL_MAT_ID, ops.mulMatIdDef, [a, b, ids]);
  }

  rope(a: Tensor, positions: Tensor, factors: Tensor | undefined, params: ops.RopeParams): Tensor {
    return this.node(Op.ROPE, ops.ropeDef, [a, positions, factors], params);
  }

  /** Attention of all heads in one operator: [Dv, H, N, S]. */
  flashAttn({ q, k, v, mask, sinks, length, spans, ...params }: FlashAttn): Tensor {
    return this.node(Op.FLASH_ATTN_EXT, ops.flashAttnExtDef, [q, k, v, mask, sinks, length, spans], params);
  }

  // ---- the general form

  /**
   * A node of any operator.
   *
   * @throws {GraphError} bad-shape, bad-type, bad-param, bad-source; TypeError for a misspelt parameter
   */
  node<P>(
    op: Op,
    def: OpDef<P>,
    src: readonly (Tensor | undefined)[],
    ...[params]: P extends void ? [] : [P]
  ): Tensor {
    if (def.options !== undefined) checkOptions(def.name, (params ?? {}) as object, def.options);
    const result = def.infer(src, params as P);
    const sources = [...src];
    if (this.live !== undefined && op > Op.TRANSPOSE) sources[SRC_LIVE] = checkLive(this.live);
    const from = result.viewOf === undefined ? undefined : src[result.viewOf]!;
    if (from !== undefined && op > Op.TRANSPOSE) checkTarget(op, def.name, src, from);
    const ne = checked(def.name, result.ne);
    return this.#add(
      new Tensor({
        op,
        type: result.type,
        ne,
        nb: result.nb ?? contiguous(result.type, ne),
        src: sources,
        params: result.params ?? [],
        viewSrc: from?.root,
        viewOffs: from === undefined ? 0 : from.viewOffs + (result.viewOffs ?? 0),
      }),
    );
  }

  #add(t: Tensor): Tensor {
    this.created.push(t);
    return t;
  }
}

// Kernels index with 32-bit integers.
function checked(op: string, ne: Shape): Shape {
  if (!ne.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new GraphError("bad-shape", `${op}: shape [${ne.join(",")}], expected counts`, { op, actual: ne });
  }
  if (ne.every((n) => n < 2 ** 31) && ne[1] * ne[2] * ne[3] < 2 ** 31) return ne;
  throw new GraphError("too-large", `${op}: [${ne.join(",")}] has 2^31 or more rows or elements in a row`, {
    op,
    actual: ne,
  });
}

// What is written must not be read on the way: threads would race. A copy of something onto itself changes nothing.
function checkTarget(op: Op, name: string, src: readonly (Tensor | undefined)[], target: Tensor): void {
  const region = (t: Tensor): Region => ({ type: t.type, ne: t.ne, nb: t.nb, offs: t.viewOffs });
  for (const s of src) {
    if (s === undefined || s === target || s.root !== target.root || !meet(region(s), region(target)))
      continue;
    if (op === Op.CPY && s.viewOffs === target.viewOffs && sameLayout(s, target)) continue;
    throw new GraphError("bad-source", `${name}: ${s.label()} and the target overlap in memory: use cont`, {
      op: name,
    });
  }
}

function sameLayout(a: Tensor, b: Tensor): boolean {
  return a.ne.every((n, i) => n === b.ne[i] && (n === 1 || a.nb[i] === b.nb[i]));
}

function checkLive(live: Tensor): Tensor {
  if (live.type === Type.I32 && live.ne[0] > 0) return live;
  throw new GraphError("bad-source", `live: ${live.label()}, expected i32 [1]`, { tensor: live.name });
}
