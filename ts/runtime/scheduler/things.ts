// What must be together on one backend: a tensor with everything that looks or writes into it, large weights with the
// nodes that read them.
//
// A thing is a tensor with memory of its own. Things joined are a group; groups have backends.

import { Flag, Op } from "../../../assembly/abi.ts";
import { GraphError } from "../../errors.ts";
import type { Program, ProgramNode } from "../../graph/program.ts";
import type { Tensor } from "../../graph/tensor.ts";
import { nrows } from "../../shape.ts";
import type { Backend } from "../backend.ts";
import { isPureView } from "./costs.ts";

/** Where a tensor must be, by backend index, and why. */
export interface Demands {
  /** the user said so */
  pinned(t: Tensor): number | undefined;
  /** its memory is there already, or was promised there */
  home(t: Tensor): number | undefined;
  /** it should be there if all that goes with it can */
  preferred(t: Tensor): number | undefined;
}

/** No backend yet. */
export const FREE = -1;

/** Leafs of more bytes are never copied when that can be avoided. */
const HEAVY_BYTES = 1 << 16;

/** A leaf whose memory no plan moves and that is too large, or too much in use, to be copied in each run. */
export function isHeavy(t: Tensor): boolean {
  return (t.flags & Flag.EXTERNAL) !== 0 && (nrows(t.ne) > 1 || t.nBytes > HEAVY_BYTES);
}

/** The error for a node that nobody can run where it must be. */
export function unsupported({ tensor }: ProgramNode, where: string, why = ""): GraphError {
  const because = why === "" ? "" : `; ${why}`;
  return new GraphError(
    "unsupported-op",
    `${tensor.label()}: no kernel on ${where} for these types${because}`,
    {
      op: Op[tensor.op]!.toLowerCase(),
      tensor: tensor.name,
    },
  );
}

/** Groups of a program, by index; filled by the constructor. */
export class Things {
  readonly #index = new Map<Tensor, number>();
  readonly #parent: number[] = [];
  /** bits of the backends that can do all that the group needs */
  readonly #able: number[] = [];
  readonly #fixed: number[] = [];
  readonly #pins = new Set<Tensor>();
  readonly #backends: readonly Backend[];

  /** @throws {GraphError} unsupported-op, bad-plan for demands that contradict each other */
  constructor(program: Program, backends: readonly Backend[], demands: Demands) {
    this.#backends = backends;
    const all = backends.reduce((bits, b, k) => bits | (b.lost === undefined ? 1 << k : 0), 0);
    for (const t of [...program.leafs, ...program.nodes.map((n) => n.tensor)]) {
      if (t.viewSrc === undefined) this.#add(t, all, demands);
    }
    const nodes = program.nodes.filter((n) => !isPureView(n));
    for (const { tensor } of program.nodes) this.#pin(tensor, demands.pinned(tensor));
    for (const n of nodes) this.#narrow(n, demands);
    for (const n of nodes) this.#follow(n);
    for (const n of nodes) this.#joinWeights(n);
    for (const t of program.leafs) this.#prefer(t, demands.preferred(t));
  }

  /** The group of a tensor or of the tensor it looks into. */
  groupOf(t: Tensor): number {
    let i = this.#index.get(t.root)!;
    while (this.#parent[i] !== i) i = this.#parent[i]!;
    return i;
  }

  /** May the group be on backend `b`? */
  allows(group: number, b: number): boolean {
    const fixed = this.#fixed[group]!;
    return fixed === FREE ? (this.#able[group]! & (1 << b)) !== 0 : fixed === b;
  }

  fixedOf(group: number): number {
    return this.#fixed[group]!;
  }

  fix(group: number, b: number): void {
    this.#fixed[group] = b;
  }

  #add(t: Tensor, all: number, demands: Demands): void {
    const i = this.#parent.length;
    this.#index.set(t, i);
    this.#parent.push(i);
    this.#able.push(all);
    this.#fixed.push(demands.home(t) ?? FREE);
    if (t.isLeaf) this.#pin(t, demands.pinned(t));
  }

  #pin(t: Tensor, b: number | undefined): void {
    if (b === undefined) return;
    const i = this.groupOf(t);
    const fixed = this.#fixed[i]!;
    if (fixed !== FREE && fixed !== b) {
      const [wanted, is] = [this.#backends[b]!.name, this.#backends[fixed]!.name];
      throw new GraphError("bad-plan", `${t.label()}: pinned to ${wanted}, but its memory is on ${is}`, {
        tensor: t.name,
        expected: wanted,
        actual: is,
      });
    }
    this.#fixed[i] = b;
    this.#pins.add(t.root);
  }

  #prefer(t: Tensor, b: number | undefined): void {
    const i = this.groupOf(t);
    if (b !== undefined && this.#fixed[i] === FREE && this.allows(i, b)) this.#fixed[i] = b;
  }

  // The backends that have a kernel. Weights in quads are read where they lie only.
  #narrow(n: ProgramNode, demands: Demands): void {
    const i = this.groupOf(n.tensor);
    let able = 0;
    this.#backends.forEach(
      (b, k) => (able |= b.lost === undefined && b.supportsOp(n.tensor, n.src) ? 1 << k : 0),
    );
    for (const s of n.src) {
      const home = s === undefined || (s.root.flags & Flag.QUADS) === 0 ? undefined : demands.home(s.root);
      if (home !== undefined) able &= 1 << home;
    }
    this.#able[i]! &= able;
    const fixed = this.#fixed[i]!;
    const lacking = this.#able[i] === 0 || (fixed !== FREE && (this.#able[i]! & (1 << fixed)) === 0);
    if (lacking) throw this.#lacking(n, fixed);
  }

  #lacking(n: ProgramNode, fixed: number): GraphError {
    if (fixed === FREE) return unsupported(n, this.#backends.map((b) => b.name).join(", "));
    const why = this.#pins.has(n.tensor.root) ? "it is pinned there" : "its target lies there";
    return unsupported(n, this.#backends[fixed]!.name, why);
  }

  // A node goes to the large weights it reads, where they have their memory.
  #follow(n: ProgramNode): void {
    const i = this.groupOf(n.tensor);
    for (const s of n.src) {
      if (s === undefined || !isHeavy(s.root) || this.#fixed[i] !== FREE) continue;
      const home = this.#fixed[this.groupOf(s)]!;
      if (home !== FREE && (this.#able[i]! & (1 << home)) !== 0) this.#fixed[i] = home;
    }
  }

  // Large weights without memory are put where those who read them are; all of them have to agree.
  #joinWeights(n: ProgramNode): void {
    for (const s of n.src) {
      if (s === undefined || !isHeavy(s.root)) continue;
      const [i, j] = [this.groupOf(n.tensor), this.groupOf(s)];
      const able = this.#able[i]! & this.#able[j]!;
      if (i === j || able === 0 || this.#fixed[i] !== FREE || this.#fixed[j] !== FREE) continue;
      this.#parent[i] = j;
      this.#able[j] = able;
    }
  }
}
