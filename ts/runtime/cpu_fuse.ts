// Fusion on the CPU: a node that only the next one reads is computed by it on the way, which saves a pass over memory and a
// wait of all threads for each other.
//
//   norm_mul   norm(x) w   NORM RMS_NORM L2_NORM and the MUL by a row of weights: the norm's kernel with src1 = w
//
// The two must be neighbours: x then lives no longer than the norm's result did, and no plan gets larger. What the other
// names of FUSIONS would gain here: docs/decisions/0021-fusion-on-the-cpu.md.

import { Op, SRC_LIVE, Type } from "../../assembly/abi.ts";
import type { Fusions } from "../graph/fusion.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import { countReaders, isPrivate } from "../graph/readers.ts";
import type { Tensor } from "../graph/tensor.ts";
import { isContiguous, sameShape } from "../shape.ts";

const NORMS: readonly Op[] = [Op.NORM, Op.RMS_NORM, Op.L2_NORM];

/**
 * The program with such pairs made one node: the later one's tensor, the earlier node in `fused`.
 *
 * @param kept tensors that others read
 */
export function fuseForCpu(program: Program, kept: ReadonlySet<Tensor>, fusions: Fusions): Program {
  if (!fusions.has("norm_mul")) return program;
  const readers = countReaders(program);
  const nodes: ProgramNode[] = [];
  let last = -1; // the last node that computes something; views may follow it
  for (const node of program.nodes) {
    const inner = nodes[last];
    const pair =
      inner !== undefined && isPrivate(inner.tensor, readers, kept) ? normTimes(inner, node) : undefined;
    if (pair !== undefined) nodes.splice(last, 1);
    nodes.push(pair ?? node);
    if (node.tensor.op > Op.TRANSPOSE) last = nodes.length - 1;
  }
  return { leafs: program.leafs, nodes };
}

/** The operator and parameters that the kernel of a node goes by: those of a norm where weights are fused to it. */
export function kernelOf({ tensor, fused }: ProgramNode): Pick<Tensor, "op" | "params"> {
  const inner = fused?.[0]?.tensor;
  return inner !== undefined && NORMS.includes(inner.op) ? inner : tensor;
}

// A norm and the product by weights that repeat over its rows, as one node; undefined when they are none.
function normTimes(inner: ProgramNode, { tensor: y, src }: ProgramNode): ProgramNode | undefined {
  const x = inner.tensor;
  const w = src[1];
  if (y.op !== Op.MUL || !NORMS.includes(x.op) || src[0] !== x || w === undefined || w === x)
    return undefined;
  const live = inner.src[SRC_LIVE];
  if (live !== src[SRC_LIVE] || !sameShape(x.ne, y.ne) || !isContiguous(y.type, y.ne, y.nb)) return undefined;
  if (y.type !== Type.F32 || w.type !== Type.F32 || w.ne[0] !== y.ne[0] || w.nb[0] !== 4) return undefined;
  const all = [...inner.src];
  all[1] = w;
  return { tensor: y, src: all, fused: [inner] };
}
