// From outputs to a program: leafs and nodes in execution order, with the sources each node reads.

import { MAX_SRC } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import type { Tensor } from "./tensor.ts";

/** One tensor of a program. `src` may differ from the tensor's own after a rewrite. */
export interface ProgramNode {
  readonly tensor: Tensor;
  readonly src: readonly (Tensor | undefined)[];
  /**
   * Earlier nodes that this one computes on the way: fused by a backend's rewrite. Their results get no memory, and what
   * they read is among `src`.
   */
  readonly fused?: readonly ProgramNode[];
  /** runs at the same time as the node before it, and the planner keeps their memory apart */
  readonly beside?: boolean;
}

/** What a backend plans and runs: every source of a node is a leaf or an earlier node (or the node itself: a cast). */
export interface Program {
  readonly leafs: readonly Tensor[];
  readonly nodes: readonly ProgramNode[];
}

/** Leafs and nodes, in the order of their records. */
export function tensorsOf(program: Program): Tensor[] {
  return [...program.leafs, ...program.nodes.map((node) => node.tensor)];
}

/**
 * Depth-first expansion from the outputs: sources in slot order, then the root of a view; each tensor once. A tensor
 * that names itself as a source is not followed.
 */
export function expand(outputs: readonly Tensor[]): Program {
  const leafs: Tensor[] = [];
  const nodes: ProgramNode[] = [];
  const seen = new Set<Tensor>();
  // An explicit stack: graphs are deeper than the call stack allows.
  const stack: { tensor: Tensor; next: number }[] = [];
  const visit = (t: Tensor | undefined): void => {
    if (t === undefined || seen.has(t)) return;
    seen.add(t);
    stack.push({ tensor: t, next: 0 });
  };
  for (const output of outputs) {
    visit(output);
    while (stack.length > 0) {
      const top = stack[stack.length - 1]!;
      const { tensor } = top;
      const next = top.next++;
      if (next < MAX_SRC) visit(tensor.src[next]);
      else if (next === MAX_SRC) visit(tensor.viewSrc);
      else {
        stack.pop();
        if (tensor.isLeaf) leafs.push(tensor);
        else nodes.push({ tensor, src: tensor.src });
      }
    }
  }
  return { leafs, nodes };
}

/**
 * Checks what {@link Program} promises, after rewrites and before planning.
 *
 * @throws {GraphError} bad-source
 */
export function checkProgram(program: Program): void {
  const known = new Set<Tensor>(program.leafs);
  for (const { tensor, src } of program.nodes) {
    for (const s of src) {
      if (s === undefined || s === tensor || known.has(s)) continue;
      throw new GraphError("bad-source", `${tensor.label()}: source ${s.label()} is not computed before it`);
    }
    known.add(tensor);
  }
}
