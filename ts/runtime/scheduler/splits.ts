// Cuts an assigned program into splits, one backend each, and inserts the copies between them.
//
//   program of the graph:   a b c d e            A runs a b d e, B runs c
//   after the cut:          a b | c' = copy of b on B, c | copy of c on A, d e
//
// A copy is a node like any other to the planner: it lives on the backend that reads it, from the step before the split to
// its last reader, and keeps what it copies alive until then. A view is copied as it is, strides and all, without what
// lies outside it. Copies are made once per backend and used again by later splits, until somebody writes into the memory
// they were made from.

import { Flag, Op } from "../../../assembly/abi.ts";
import { GraphError } from "../../errors.ts";
import type { Program, ProgramNode } from "../../graph/program.ts";
import { Tensor } from "../../graph/tensor.ts";
import type { Backend } from "../backend.ts";
import type { Assignment } from "./assign.ts";
import { isPureView } from "./costs.ts";

/** A copy between backends. */
export interface Copy {
  readonly from: Tensor;
  readonly to: Tensor;
}

/** A stretch of a program that one backend runs. */
export interface Split {
  readonly backend: number;
  /** made before it runs */
  readonly copies: readonly Copy[];
  /** nodes in the backend's form; leafs are what they read from elsewhere */
  readonly program: Program;
  /** index of its first node in the program of the schedule */
  readonly first: number;
}

/** A program with splits, ready to be planned. */
export interface Schedule {
  /** leafs, and the nodes of all splits with the copies between them */
  readonly program: Program;
  readonly splits: readonly Split[];
  /** backend index whose memory a leaf or node has; of a view that of its root */
  bufferOf(t: Tensor): number;
}

// A split while it is made.
interface Draft {
  readonly backend: number;
  readonly copies: Copy[];
  /** views of memory elsewhere: they compute nothing, and copies may be made of them */
  readonly views: ProgramNode[];
  readonly nodes: ProgramNode[];
}

/** The whole program on one backend. */
export function oneSplit(program: Program, backends: readonly Backend[], b: number): Schedule {
  const lowered = backends[b]!.lower(program, new Set());
  const split: Split = { backend: b, copies: [], program: lowered, first: 0 };
  return { program: lowered, splits: [split], bufferOf: () => b };
}

/** Cuts a program; see the head of the file. */
export function cut(program: Program, backends: readonly Backend[], assignment: Assignment): Schedule {
  const used = new Set(assignment.values());
  if (used.size === 1) return oneSplit(program, backends, [...used][0]!);
  return new Cutter(program, backends, assignment).schedule();
}

class Cutter {
  readonly #program: Program;
  readonly #backends: readonly Backend[];
  /** of leafs, nodes, copies and what rewrites add */
  readonly #buffer: Map<Tensor, number>;
  readonly #drafts: Draft[] = [];
  /** copies that still hold what their source holds, per backend */
  readonly #copies: Map<Tensor, Tensor>[];

  constructor(program: Program, backends: readonly Backend[], assignment: Assignment) {
    this.#program = program;
    this.#backends = backends;
    this.#buffer = new Map(assignment);
    this.#copies = backends.map(() => new Map<Tensor, Tensor>());
  }

  schedule(): Schedule {
    for (const node of this.#program.nodes) this.#place(node);
    const splits: Split[] = [];
    const nodes: ProgramNode[] = [];
    const readers = readersOf(this.#drafts);
    this.#drafts.forEach((draft, i) => {
      nodes.push(...draft.views, ...draft.copies.map(copyNode));
      const lowered = this.#lower(draft, nodes, keptOf(draft, i, readers));
      splits.push({ backend: draft.backend, copies: draft.copies, program: lowered, first: nodes.length });
      nodes.push(...lowered.nodes);
    });
    const buffer = this.#buffer;
    return { program: { leafs: this.#program.leafs, nodes }, splits, bufferOf: (t) => buffer.get(t.root)! };
  }

  // Puts a node into the present split, or into a new one when it runs elsewhere.
  #place(node: ProgramNode): void {
    const b = this.#bufferOf(node.tensor);
    const last = this.#drafts.at(-1);
    if (isPureView(node) && last !== undefined && last.backend !== b) {
      last.views.push(node);
      return;
    }
    const draft = last?.backend === b ? last : this.#open(b);
    const src = node.src.map((s) => (s === undefined || s === node.tensor ? s : this.#onSide(s, draft)));
    draft.nodes.push({ ...node, src });
    if (!isPureView(node) && node.tensor.viewSrc !== undefined) this.#written(node.tensor.root);
  }

  #open(backend: number): Draft {
    const draft: Draft = { backend, copies: [], views: [], nodes: [] };
    this.#drafts.push(draft);
    return draft;
  }

  #bufferOf(t: Tensor): number {
    return this.#buffer.get(t.root)!;
  }

  // The tensor itself where the split can read it, else a copy.
  #onSide(s: Tensor, { backend, copies }: Draft): Tensor {
    if (this.#bufferOf(s) === backend) return s;
    if ((s.root.flags & Flag.QUADS) !== 0) {
      throw new GraphError(
        "bad-source",
        `${s.label()}: lies in quads of rows and cannot be copied to a device`,
        {
          tensor: s.name,
        },
      );
    }
    const known = this.#copies[backend]!.get(s);
    if (known !== undefined) return known;
    const to = copyOf(s, this.#backends[backend]!.name);
    this.#copies[backend]!.set(s, to);
    this.#buffer.set(to, backend);
    copies.push({ from: s, to });
    return to;
  }

  // Copies of this memory are out of date.
  #written(root: Tensor): void {
    for (const copies of this.#copies) {
      for (const s of copies.keys()) if (s.root === root) copies.delete(s);
    }
  }

  // The split in its backend's form. What the rewrite adds lies there too.
  #lower({ backend, nodes }: Draft, before: readonly ProgramNode[], kept: ReadonlySet<Tensor>): Program {
    const leafs = [...this.#program.leafs, ...before.map((n) => n.tensor)];
    const lowered = this.#backends[backend]!.lower({ leafs, nodes }, kept);
    for (const { tensor } of lowered.nodes) {
      if (!this.#buffer.has(tensor.root)) this.#buffer.set(tensor, backend);
    }
    return lowered;
  }
}

function copyOf(s: Tensor, where: string): Tensor {
  const name = `${s.name === "" ? Op[s.op]!.toLowerCase() : s.name} (on ${where})`;
  return new Tensor({ op: Op.DUP, type: s.type, ne: s.ne, nb: s.nb, src: [s], name });
}

function copyNode({ to }: Copy): ProgramNode {
  return { tensor: to, src: to.src };
}

/** Splits that read a tensor, as source, by a copy or by a view of it. */
function readersOf(drafts: readonly Draft[]): ReadonlyMap<Tensor, ReadonlySet<number>> {
  const readers = new Map<Tensor, Set<number>>();
  const add = (t: Tensor | undefined, split: number): void => {
    if (t !== undefined) readers.set(t, (readers.get(t) ?? new Set<number>()).add(split));
  };
  drafts.forEach((draft, i) => {
    for (const { tensor, src } of draft.nodes) for (const s of [...src, tensor.viewSrc]) add(s, i);
    // Before the nodes of its split, so for all others like another split.
    for (const { tensor, src } of draft.views) for (const s of [...src, tensor.viewSrc]) add(s, i - 0.5);
    for (const { from } of draft.copies) add(from, i - 0.5);
  });
  return readers;
}

function keptOf(draft: Draft, i: number, readers: ReadonlyMap<Tensor, ReadonlySet<number>>): Set<Tensor> {
  const kept = new Set<Tensor>();
  for (const { tensor } of draft.nodes) {
    const others = [...(readers.get(tensor) ?? [])].filter((split) => split !== i);
    if (others.length > 0) kept.add(tensor);
  }
  return kept;
}
