// A node again, small and alone: what the self-test of a kernel runs on both devices.

import { Flag, Op, SRC_LIVE } from "../../../assembly/abi.ts";
import type { Program, ProgramNode } from "../../graph/program.ts";
import { Tensor } from "../../graph/tensor.ts";
import { contiguous, isContiguous, type Shape } from "../../shape.ts";
import { Type, typeInfo } from "../../types.ts";

/** A program of one operator. */
export interface Replica {
  readonly program: Program;
  readonly node: ProgramNode;
  /** what is to be filled, by source slot */
  readonly bases: ReadonlyMap<number, Tensor>;
}

/** Shapes of a node's result and sources. */
interface Shapes {
  readonly dst: Shape;
  readonly src: readonly (Shape | undefined)[];
}

// Rows of weights, columns of activations and cells of a cache that a test needs at most: two large tiles of products.
const ROWS = 120;
const COLUMNS = 124;
/** One large tile, because there are many matrices. */
const MATRIX_ROWS = 63;
const CELLS = 160;

/** The dimensions of large operands cut down, where the operator's rule allows it; row lengths stay. */
export function smallShapes(node: ProgramNode): Shapes {
  const { tensor, src } = node;
  const shapes = src.map((s) => s?.ne);
  const [a, b] = shapes as [Shape, Shape];
  const dst = tensor.ne;
  const same: Shapes = { dst, src: shapes };
  const set = (list: Shapes["src"], i: number, ne: Shape): Shapes["src"] => list.with(i, ne);
  switch (firstOp(node)) {
    case Op.MUL_MAT: {
      const [m, n] = [Math.min(a[1], ROWS), Math.min(b[1], COLUMNS)];
      const factors = set(set(shapes, 0, [a[0], m, a[2], a[3]]), 1, [b[0], n, b[2], b[3]]);
      const c = shapes[2]; // of a sum fused with the product, or weights of a second one
      const small: Shape | undefined =
        c && (tensor.op === Op.GLU ? [c[0], m, c[2], c[3]] : [m, Math.min(c[1], n), c[2], c[3]]);
      return {
        dst: [m, n, dst[2], dst[3]],
        src: small === undefined ? factors : set(factors, 2, small),
      };
    }
    case Op.MUL_MAT_ID: {
      const m = Math.min(a[1], MATRIX_ROWS);
      return { dst: [m, dst[1], dst[2], dst[3]], src: set(shapes, 0, [a[0], m, a[2], a[3]]) };
    }
    case Op.GET_ROWS:
      return { dst, src: set(shapes, 0, [a[0], Math.min(a[1], CELLS), a[2], a[3]]) };
    default:
      return same;
  }
}

/** The node over fresh sources of the same types, strides and parameters. */
export function replicate(node: ProgramNode, { dst, src: shapes }: Shapes): Replica {
  const bases = new Map<number, Tensor>();
  const leafs = new Map<Tensor, Tensor>();
  const views: ProgramNode[] = [];
  const src = node.src.map((s, i) => {
    if (s === undefined || s === node.tensor) return undefined;
    const known = leafs.get(s);
    if (known !== undefined) return known;
    const base = baseOf(s, shapes[i]!);
    bases.set(i, base);
    const made = base.ne === shapes[i] ? base : viewOf(base, s, shapes[i]!);
    if (made !== base) views.push({ tensor: made, src: [base] });
    leafs.set(s, made);
    return made;
  });
  const made = unfused(node, dst, src);
  const last = made.at(-1)!;
  const fused = made.length === 1 ? last : { tensor: last.tensor, src, fused: made.slice(0, -1) };
  return { program: { leafs: [...bases.values()], nodes: [...views, ...made] }, node: fused, bases };
}

/** Operator of a node, of a pair the one that runs first. */
export function firstOp({ tensor, fused }: ProgramNode): Op {
  return fused?.[0]?.tensor.op ?? tensor.op;
}

function unfused(node: ProgramNode, ne: Shape, src: readonly (Tensor | undefined)[]): ProgramNode[] {
  if (node.fused === undefined) return [{ tensor: resultOf(node, ne, src), src }];
  return node.fused.length === 2 ? gated(node, ne, src) : pair(node, ne, src);
}

// Both products and the gate that a fused node stands for: src1 is the columns of both.
function gated(node: ProgramNode, ne: Shape, src: readonly (Tensor | undefined)[]): ProgramNode[] {
  const [a, x, c] = src;
  const live = src[SRC_LIVE];
  const withLive = (...list: (Tensor | undefined)[]): (Tensor | undefined)[] =>
    live === undefined ? list : [...list, ...Array<undefined>(SRC_LIVE - list.length), live];
  const nb = contiguous(Type.F32, ne);
  const products = [withLive(a, x), withLive(c, x)].map((operands) => ({
    tensor: new Tensor({ op: Op.MUL_MAT, type: Type.F32, ne, nb, src: operands }),
    src: operands,
  }));
  const outer = withLive(...products.map((p) => p.tensor));
  return [...products, { tensor: resultOf(node, ne, outer), src: outer }];
}

// The two nodes that a fused one stands for: the first has all operands but the last.
function pair(node: ProgramNode, ne: Shape, src: readonly (Tensor | undefined)[]): ProgramNode[] {
  const { op, params } = node.fused![0]!.tensor;
  const live = src[SRC_LIVE];
  const operands = src.slice(0, SRC_LIVE).filter((s) => s !== undefined);
  const withLive = (list: readonly Tensor[]): (Tensor | undefined)[] =>
    live === undefined ? [...list] : [...list, ...Array<undefined>(SRC_LIVE - list.length), live];
  const inner = withLive(operands.slice(0, -1));
  const first = new Tensor({ op, type: Type.F32, ne, nb: contiguous(Type.F32, ne), src: inner, params });
  const outer = withLive([first, operands.at(-1)!]);
  return [
    { tensor: first, src: inner },
    { tensor: resultOf(node, ne, outer), src: outer },
  ];
}

// Memory of a source: its own shape when that is without gaps, else as many elements as its strides reach over.
function baseOf(s: Tensor, ne: Shape): Tensor {
  const { typeSize, blockSize } = typeInfo(s.type)!;
  const plain = isContiguous(s.type, s.ne, s.nb);
  const reach = new Tensor({ op: Op.NONE, type: s.type, ne, nb: s.nb }).nBytes;
  const shape: Shape = plain ? ne : [Math.ceil(reach / typeSize) * blockSize, 1, 1, 1];
  return new Tensor({
    op: Op.NONE,
    type: s.type,
    ne: shape,
    nb: contiguous(s.type, shape),
    flags: Flag.INPUT,
  });
}

function viewOf(base: Tensor, s: Tensor, ne: Shape): Tensor {
  return new Tensor({ op: Op.VIEW, type: s.type, ne, nb: s.nb, src: [base], viewSrc: base });
}

// A result that is written into a source lies as far behind that source's first byte as it did.
function resultOf(
  { tensor, src: old }: ProgramNode,
  ne: Shape,
  src: readonly (Tensor | undefined)[],
): Tensor {
  const { op, type, params, viewSrc } = tensor;
  if (viewSrc === undefined) {
    return new Tensor({ op, type, ne, nb: contiguous(type, ne), src, params, flags: Flag.OUTPUT });
  }
  const into = old.findIndex((s) => s?.root === viewSrc);
  const root = src[into]!.root;
  root.flags |= Flag.OUTPUT;
  const viewOffs = tensor.viewOffs - old[into]!.viewOffs;
  return new Tensor({
    op,
    type,
    ne,
    nb: tensor.nb,
    src,
    params,
    viewSrc: root,
    viewOffs,
    flags: Flag.OUTPUT,
  });
}
