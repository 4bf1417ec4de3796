// Another order of the same nodes that keeps fewer bytes alive: list scheduling by the change in live bytes.
//
// A node waits for the nodes it reads, and for the order of reads and writes on every piece of memory: a node that writes
// through a view (set_rows, cpy into a view) comes after all earlier readers of that memory and before all later ones.
// Results do not change, since every node still sees exactly what it saw.

import { Flag, Op } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import type { Program, ProgramNode } from "./program.ts";
import type { Tensor } from "./tensor.ts";

/** What waits for what, by node index. */
export interface Edges {
  /** later nodes that wait for this one */
  readonly next: readonly number[][];
  /** how many it waits for */
  readonly waits: Int32Array;
}

/** Operators that compute nothing; every other node whose result is a view writes through it. */
function writesThroughView({ tensor }: ProgramNode): boolean {
  const pure = [Op.RESHAPE, Op.VIEW, Op.PERMUTE, Op.TRANSPOSE] as readonly Op[];
  return tensor.viewSrc !== undefined && !pure.includes(tensor.op);
}

/**
 * The program with its nodes in an order of less memory, at most as much as in the given one by the measure used: bytes
 * of roots from their first to their last use. Without a gain the program comes back as it is.
 *
 * @throws {GraphError} bad-source when nodes wait for each other
 */
export function orderForMemory(program: Program): Program {
  const { nodes } = program;
  const order = schedule(program, edgesOf(nodes));
  if (order.length !== nodes.length) {
    throw new GraphError("bad-source", `order: ${nodes.length - order.length} nodes wait for each other`);
  }
  const ordered = { leafs: program.leafs, nodes: order.map((i) => nodes[i]!) };
  return peakBytes(ordered) < peakBytes(program) ? ordered : program;
}

/** What must stay in order: a node and those it reads, and reads and writes of each piece of memory. */
export function edgesOf(nodes: readonly ProgramNode[]): Edges {
  const next: number[][] = nodes.map(() => []);
  const waits = new Int32Array(nodes.length);
  const before = new Map<Tensor, number>(); // tensor -> node that makes it
  const writer = new Map<Tensor, number>(); // root -> last node that wrote it
  const readers = new Map<Tensor, number[]>(); // root -> readers since
  const add = (from: number | undefined, to: number): void => {
    if (from === undefined || from === to || next[from]!.includes(to)) return;
    next[from]!.push(to);
    waits[to]!++;
  };
  nodes.forEach((node, i) => {
    const { tensor, src } = node;
    for (const s of [...src, tensor.viewSrc]) {
      if (s === undefined || s === tensor) continue;
      add(before.get(s), i);
      add(writer.get(s.root), i);
      const known = readers.get(s.root);
      if (known === undefined) readers.set(s.root, [i]);
      else known.push(i);
    }
    if (writesThroughView(node)) {
      for (const r of readers.get(tensor.root) ?? []) add(r, i);
      readers.set(tensor.root, []);
      writer.set(tensor.root, i);
    }
    before.set(tensor, i);
  });
  return { next, waits };
}

// Uses of a root still to come, and whether it occupies memory of the plan.
class Live {
  readonly uses = new Map<Tensor, number>();
  readonly born = new Set<Tensor>();

  constructor({ leafs, nodes }: Program) {
    for (const t of leafs) if ((t.flags & Flag.INPUT) !== 0) this.born.add(t);
    for (const node of nodes) for (const r of rootsOf(node)) this.uses.set(r, (this.uses.get(r) ?? 0) + 1);
  }

  /** Bytes that appear when the node runs, and those that go after it. */
  change(node: ProgramNode): { readonly more: number; readonly less: number } {
    let more = 0;
    let less = 0;
    for (const r of rootsOf(node)) {
      if (!planned(r)) continue;
      if (!this.born.has(r)) more += r.nBytes;
      if (this.uses.get(r) === 1 && (r.flags & Flag.OUTPUT) === 0) less += r.nBytes;
    }
    return { more, less };
  }

  run(node: ProgramNode): void {
    for (const r of rootsOf(node)) {
      this.born.add(r);
      this.uses.set(r, (this.uses.get(r) ?? 0) - 1);
    }
  }
}

function planned(root: Tensor): boolean {
  return (root.flags & Flag.EXTERNAL) === 0;
}

// Roots a node touches, each once; a result nobody reads has this one use.
function rootsOf({ tensor, src }: ProgramNode): Set<Tensor> {
  const roots = new Set<Tensor>([tensor.root]);
  for (const s of src) if (s !== undefined) roots.add(s.root);
  return roots;
}

// Of the nodes that may run, the one that leaves fewest bytes more; of equals the one that needs least while it runs, then
// the earliest.
function schedule(program: Program, { next, waits }: Edges): number[] {
  const { nodes } = program;
  const live = new Live(program);
  const ready = nodes.flatMap((_, i) => (waits[i] === 0 ? [i] : []));
  const order: number[] = [];
  while (ready.length > 0) {
    let best = 0;
    let cost: readonly [number, number] = [Infinity, Infinity];
    ready.forEach((i, k) => {
      const { more, less } = live.change(nodes[i]!);
      const c = [more - less, more] as const;
      const lower = c[0] < cost[0] || (c[0] === cost[0] && c[1] < cost[1]);
      const same = c[0] === cost[0] && c[1] === cost[1];
      if (lower || (same && i < ready[best]!)) [best, cost] = [k, c];
    });
    const [i] = ready.splice(best, 1);
    live.run(nodes[i!]!);
    order.push(i!);
    for (const j of next[i!]!) if (--waits[j]! === 0) ready.push(j);
  }
  return order;
}

// Most bytes alive in the order given, results in place not counted.
function peakBytes(program: Program): number {
  const live = new Live(program);
  let bytes = 0;
  for (const t of live.born) if (planned(t)) bytes += t.nBytes;
  let peak = bytes;
  for (const node of program.nodes) {
    const { more, less } = live.change(node);
    peak = Math.max(peak, bytes + more);
    bytes += more - less;
    live.run(node);
  }
  return peak;
}
