// Fusion on the GPU: a node that only its successor reads is computed by it on the way. A dispatch costs some 30
// microseconds on most devices, and what is not stored need not be read again.
//
//   norm_mul     norm(x) w      NORM RMS_NORM L2_NORM and the MUL by a row of weights
//   mul_mat_add  a b + c        MUL_MAT and the ADD of a bias or of the residual stream
//   glu_pair     glu(a b, c b)  two MUL_MAT of the same few columns and the GLU of both

import { Flag, Op, SRC_LIVE } from "../../assembly/abi.ts";
import { ALL_FUSIONS, type Fusions } from "../graph/fusion.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { isContiguous, sameShape } from "../shape.ts";
import { Type } from "../types.ts";

const NORMS: readonly Op[] = [Op.NORM, Op.RMS_NORM, Op.L2_NORM];

interface Made {
  readonly node: ProgramNode;
  readonly index: number;
}

/**
 * The program with such pairs made one node: the later one's tensor, sources of the earlier one and then the other operand,
 * the earlier node in `fused`.
 *
 * @param kept tensors that others read
 * @param known tells whether a kernel takes a fused node
 * @param fusions those that are on
 */
export function fuse(
  program: Program,
  kept: ReadonlySet<Tensor>,
  known: (node: ProgramNode) => boolean,
  fusions: Fusions = ALL_FUSIONS,
): Program {
  const made = new Map<Tensor, Made>(program.nodes.map((node, index) => [node.tensor, { node, index }]));
  const readers = countReaders(program);
  const gone = new Set<ProgramNode>();
  const nodes = program.nodes.map((node, index) => {
    for (const side of [0, 1]) {
      const inner = node.src[side] && made.get(node.src[side]);
      if (inner === undefined || !isPrivate(inner.node.tensor, readers, kept)) continue;
      const pair = joined(node, side, inner.node, fusions);
      if (pair === undefined || !known(pair) || isOverwritten(program, inner, index)) continue;
      gone.add(inner.node);
      return pair;
    }
    const inner = [0, 1].map((side) => node.src[side] && made.get(node.src[side]));
    const all = inner.filter((m) => m !== undefined && isPrivate(m.node.tensor, readers, kept)) as Made[];
    const gated = fusions.has("glu_pair") ? joinedGate(node, all) : undefined;
    if (gated === undefined || !known(gated) || all.some((m) => isOverwritten(program, m, index)))
      return node;
    for (const m of all) gone.add(m.node);
    return gated;
  });
  return { leafs: program.leafs, nodes: nodes.filter((_, i) => !gone.has(program.nodes[i]!)) };
}

// Uses of each tensor as a source, views of it counted too.
function countReaders({ nodes }: Program): Map<Tensor, number> {
  const readers = new Map<Tensor, number>();
  const count = (t: Tensor): void => void readers.set(t, (readers.get(t) ?? 0) + 1);
  for (const { tensor, src } of nodes) {
    for (const s of src) if (s !== undefined && s !== tensor) count(s);
    if (tensor.viewSrc !== undefined && !src.includes(tensor.viewSrc)) count(tensor.viewSrc);
  }
  return readers;
}

function isPrivate(t: Tensor, readers: ReadonlyMap<Tensor, number>, kept: ReadonlySet<Tensor>): boolean {
  return t.viewSrc === undefined && readers.get(t) === 1 && (t.flags & Flag.OUTPUT) === 0 && !kept.has(t);
}

// The pair as one node; undefined when it is none. `side`: which operand of `outer` the inner result is.
function joined(
  outer: ProgramNode,
  side: number,
  inner: ProgramNode,
  fusions: Fusions,
): ProgramNode | undefined {
  const { tensor: y } = outer;
  const { tensor: x, src } = inner;
  const other = outer.src[1 - side];
  const isNorm = fusions.has("norm_mul") && y.op === Op.MUL && NORMS.includes(x.op);
  const isSum = fusions.has("mul_mat_add") && y.op === Op.ADD && x.op === Op.MUL_MAT;
  if (other === undefined || other === x || !(isNorm || isSum) || inner.fused !== undefined) return undefined;
  if (outer.src[SRC_LIVE] !== src[SRC_LIVE] || !sameShape(x.ne, y.ne)) return undefined;
  if (![x, y, other].every((t) => t.type === Type.F32) || !isContiguous(y.type, y.ne, y.nb)) return undefined;
  const repeats = other.ne[0] === y.ne[0] && y.ne.every((n, d) => n % other.ne[d]! === 0);
  if (!repeats || (other.nb[0] !== 4 && other.ne[0] !== 1)) return undefined;
  const operands = isNorm ? [src[0], other] : [src[0], src[1], other];
  const live = src[SRC_LIVE];
  const all = live === undefined ? operands : [...operands, ...Array(SRC_LIVE - operands.length), live];
  return { tensor: y, src: all as (Tensor | undefined)[], fused: [inner] };
}

// A gate and what it lets through as one node; undefined when it is none.
function joinedGate({ tensor: y, src }: ProgramNode, inner: readonly Made[]): ProgramNode | undefined {
  if (y.op !== Op.GLU || inner.length !== 2 || inner.some((m) => m.node.tensor.op !== Op.MUL_MAT))
    return undefined;
  const [gate, up] = inner.map((m) => m.node) as [ProgramNode, ProgramNode];
  const live = src[SRC_LIVE];
  const same = gate !== up && gate.src[1] === up.src[1] && [gate, up].every((n) => n.src[SRC_LIVE] === live);
  if (!same || [gate, up].some((n) => n.fused !== undefined)) return undefined;
  const operands = [gate.src[0], gate.src[1], up.src[0]];
  const all = live === undefined ? operands : [...operands, ...Array(SRC_LIVE - operands.length), live];
  return { tensor: y, src: all as (Tensor | undefined)[], fused: [gate, up] };
}

// True when something between the two nodes writes, through a view, into what the inner one reads.
function isOverwritten({ nodes }: Program, inner: Made, outer: number): boolean {
  const roots = inner.node.src.map((s) => s?.root);
  for (let i = inner.index + 1; i < outer; i++) {
    const { tensor } = nodes[i]!;
    if (tensor.op > Op.TRANSPOSE && tensor.viewSrc !== undefined && roots.includes(tensor.viewSrc))
      return true;
  }
  return false;
}
