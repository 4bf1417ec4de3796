// The order of a program on the GPU: products of the same activations stand next to each other, so that the plan can run
// them as one (merge.ts).

import { Op, SRC_LIVE } from "../../assembly/abi.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";

/** The program with each product moved up to the first one of the same activations, where nothing stands against it. */
export function lowerForGpu({ leafs, nodes }: Program): Program {
  const known = new Set<Tensor>(leafs);
  const moved = new Set<ProgramNode>();
  const ordered: ProgramNode[] = [];
  nodes.forEach((node, i) => {
    if (moved.has(node)) return;
    ordered.push(node);
    known.add(node.tensor);
    if (node.tensor.op !== Op.MUL_MAT) return;
    for (const sibling of siblings(node, nodes, i + 1, known)) {
      moved.add(sibling);
      ordered.push(sibling);
      known.add(sibling.tensor);
    }
  });
  return { leafs, nodes: ordered };
}

// Products further down that could run now: their weights are there, and nobody writes into what they read before them.
function siblings(
  { src: [, x, ...rest] }: ProgramNode,
  nodes: readonly ProgramNode[],
  from: number,
  known: ReadonlySet<Tensor>,
): ProgramNode[] {
  const live = rest[SRC_LIVE - 2];
  const found: ProgramNode[] = [];
  const written = new Set<Tensor>();
  for (let i = from; i < Math.min(nodes.length, from + REACH); i++) {
    const node = nodes[i]!;
    const { tensor, src } = node;
    const same = tensor.op === Op.MUL_MAT && src[1] === x && src[SRC_LIVE] === live;
    const ready = src.every((s) => s === undefined || (known.has(s) && !written.has(s.root)));
    if (same && ready) found.push(node);
    if (tensor.op > Op.TRANSPOSE && tensor.viewSrc !== undefined) written.add(tensor.viewSrc);
  }
  return found;
}

/** Nodes looked at behind a product: the rest of a layer's attention. */
const REACH = 24;
