// Neighbouring operators that one kernel computes, where nobody else reads what lies between them.
//
//   rms_norm, mul                  -> mul      of [x, weight]
//   mul_mat, add                   -> add      of [weights, x, addend]          up to four columns
//   mul_mat, mul_mat, glu          -> glu      of [gate, x, up]                 up to four columns
//
// A fused node has the tensor of its last operator, so nothing that reads it changes; its sources tell it apart.

import { Flag, Op, SRC_LIVE } from "../../assembly/abi.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import { sameShape } from "../shape.ts";
import { Type } from "../types.ts";
import type { Caps, GpuKernel } from "./kernel.ts";
import { gluProductKernel, productSumKernel, scaledNormKernel } from "./kernels/fused.ts";

/** A fused node, and the node that it stands for. */
interface Fused {
  readonly node: ProgramNode;
  readonly kernel: GpuKernel;
  /** results that are not computed any more */
  readonly gone: readonly Tensor[];
}

/** The kernels of fused nodes, by tensor and sources. */
export class Fusions {
  readonly #caps: Caps;
  readonly #kernels = new WeakMap<Tensor, { readonly first: Tensor; readonly kernel: GpuKernel }>();

  constructor(caps: Caps) {
    this.#caps = caps;
  }

  /** Kernel of a fused node; undefined for all others. */
  kernelOf({ tensor, src }: ProgramNode): GpuKernel | undefined {
    const fused = this.#kernels.get(tensor);
    return fused !== undefined && fused.first === src[0] ? fused.kernel : undefined;
  }

  /** The program with what can be fused. */
  fuse({ leafs, nodes }: Program, kept: ReadonlySet<Tensor>): Program {
    const makers = new Map<Tensor, { readonly node: ProgramNode; readonly at: number }>();
    const written = new Map<Tensor, number>();
    const readers = readersOf(nodes);
    const between = (t: Tensor | undefined, op: Op): ProgramNode | undefined => {
      const maker = t === undefined ? undefined : makers.get(t);
      if (maker?.node.tensor.op !== op || t!.viewSrc !== undefined) return undefined;
      // it will run later: what it reads must still be there
      if (maker.node.src.some((s) => s !== undefined && (written.get(s.root) ?? -1) > maker.at))
        return undefined;
      return readers.get(t!) === 1 && (t!.flags & Flag.OUTPUT) === 0 && !kept.has(t!)
        ? maker.node
        : undefined;
    };
    const gone = new Set<Tensor>();
    const fusedNodes = nodes.map((node, at) => {
      makers.set(node.tensor, { node, at });
      const { op, viewSrc } = node.tensor;
      if (op > Op.TRANSPOSE && viewSrc !== undefined) written.set(viewSrc, at);
      const fused = this.#try(node, between);
      if (fused === undefined) return node;
      this.#kernels.set(node.tensor, { first: fused.node.src[0]!, kernel: fused.kernel });
      for (const t of fused.gone) gone.add(t);
      return fused.node;
    });
    return { leafs, nodes: fusedNodes.filter((n) => !gone.has(n.tensor)) };
  }

  #try(
    node: ProgramNode,
    between: (t: Tensor | undefined, op: Op) => ProgramNode | undefined,
  ): Fused | undefined {
    const [a, b] = node.src;
    const live = node.src[SRC_LIVE];
    const same = (maker: ProgramNode | undefined): ProgramNode | undefined =>
      maker?.src[SRC_LIVE] === live ? maker : undefined;
    const made = (
      kernel: GpuKernel,
      src: readonly (Tensor | undefined)[],
      ...gone: Tensor[]
    ): Fused | undefined => {
      const sources = withLive(src, live);
      const fused = { tensor: node.tensor, src: sources };
      return kernel.supports(fused, this.#caps) ? { node: fused, kernel, gone } : undefined;
    };
    switch (node.tensor.op) {
      case Op.MUL: {
        const norm = same(between(a, Op.RMS_NORM));
        if (norm === undefined || b === a) return undefined;
        return made(scaledNormKernel(norm.tensor.params[0] ?? 0), [norm.src[0], b], a!);
      }
      case Op.ADD: {
        const first = same(between(a, Op.MUL_MAT));
        const product = first ?? same(between(b, Op.MUL_MAT));
        const addend = first === undefined ? a : b;
        if (product === undefined || a === b || !isLike(addend, node.tensor)) return undefined;
        return made(productSumKernel, [product.src[0], product.src[1], addend], product.tensor);
      }
      case Op.GLU: {
        const [gate, up] = [same(between(a, Op.MUL_MAT)), same(between(b, Op.MUL_MAT))];
        if (gate === undefined || up === undefined || gate === up || gate.src[1] !== up.src[1])
          return undefined;
        return made(gluProductKernel, [gate.src[0], gate.src[1], up.src[0]], a!, b!);
      }
      default:
        return undefined;
    }
  }
}

function withLive(src: readonly (Tensor | undefined)[], live: Tensor | undefined): (Tensor | undefined)[] {
  const sources = [...src];
  if (live !== undefined) sources[SRC_LIVE] = live;
  return sources;
}

function isLike(t: Tensor | undefined, dst: Tensor): boolean {
  return t !== undefined && t.type === Type.F32 && dst.type === Type.F32 && sameShape(t.ne, dst.ne);
}

// How often each tensor is read, as a source or through a view.
function readersOf(nodes: readonly ProgramNode[]): ReadonlyMap<Tensor, number> {
  const count = new Map<Tensor, number>();
  for (const { tensor, src } of nodes) {
    for (const t of src) if (t !== undefined) count.set(t, (count.get(t) ?? 0) + 1);
    const root = tensor.viewSrc;
    if (root !== undefined) count.set(root, (count.get(root) ?? 0) + 1);
  }
  return count;
}
