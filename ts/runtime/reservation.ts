// Several graphs over one compute buffer. They run one at a time: a run of one overwrites inputs and results of the
// others.

import { GraphError } from "../errors.ts";
import type { Graph } from "../graph/graph.ts";
import type { Plan } from "../graph/plan.ts";
import type { Buffer, Executable } from "./backend.ts";
import type { PlannedProgram } from "./plan_program.ts";

/** What a reservation needs of its engine. */
export interface ReservationHost {
  /** plans a graph, with one of the given plans where it fits */
  prepare(graph: Graph, reserved: readonly PlannedProgram[]): PlannedProgram;
  alloc(nBytes: number): Buffer;
  bind(planned: PlannedProgram, buffer: Buffer): Executable;
  free(planned: PlannedProgram): void;
  /** puts a graph into this reservation, out of any other */
  enter(graph: Graph, reservation: Reservation): void;
  grown(from: number, to: number, graphs: number): void;
}

interface Member {
  readonly planned: PlannedProgram;
  executable: Executable;
}

/** A compute buffer and the graphs planned over it. It goes with the last of them. */
export class Reservation {
  readonly #host: ReservationHost;
  readonly #members = new Map<Graph, Member>();
  #buffer: Buffer | undefined;

  constructor(host: ReservationHost) {
    this.#host = host;
  }

  /** Bytes of the buffer. */
  get nBytes(): number {
    return this.#buffer?.size ?? 0;
  }

  /** Plans of the graphs, in the order they came. */
  get plans(): readonly Plan[] {
    return [...this.#members.values()].map((m) => m.planned.plan);
  }

  /**
   * Plans one more graph, or one again, over the same buffer. A graph of the same wiring that is nowhere larger than one
   * that is here runs with that one's plan. If the buffer is too small it is replaced, and every graph of the
   * reservation moves; the logger hears of it once. Inputs must be written again.
   *
   * @throws as {@link Graph.plan}; the reservation then stays as it was
   */
  plan(graph: Graph): Plan {
    return this.planAll([graph])[0]!;
  }

  /** The same for several at once. */
  planAll(graphs: readonly Graph[]): readonly Plan[] {
    if (graphs.length === 0) return [];
    const planned: PlannedProgram[] = [];
    const reserved = [...this.#members.values()].map((m) => m.planned);
    try {
      for (const g of graphs) planned.push(this.#host.prepare(g, reserved));
      this.#ensure(Math.max(0, ...planned.map((p) => p.nBytes)));
    } catch (error) {
      planned.forEach((p) => this.#host.free(p));
      throw error;
    }
    const buffer = this.#buffer!;
    graphs.forEach((g, i) => {
      const p = planned[i]!;
      this.#host.enter(g, this);
      this.#leave(g);
      this.#members.set(g, { planned: p, executable: this.#host.bind(p, buffer) });
    });
    return planned.map((p) => p.plan);
  }

  /** Runs one of the graphs. */
  run(graph: Graph, signal?: AbortSignal): Promise<void> {
    const member = this.#members.get(graph);
    if (member === undefined) throw new GraphError("not-planned", "graph: plan() it before compute()");
    return member.executable.run(signal);
  }

  /** Takes a graph out; the buffer goes with the last one. */
  remove(graph: Graph): void {
    this.#leave(graph);
    if (this.#members.size > 0) return;
    this.#buffer?.dispose();
    this.#buffer = undefined;
  }

  #leave(graph: Graph): void {
    const member = this.#members.get(graph);
    if (member === undefined) return;
    this.#members.delete(graph);
    member.executable.dispose();
    member.planned.unplace();
    this.#host.free(member.planned);
  }

  // The new buffer is taken before the old one goes, so that a failure changes nothing.
  #ensure(nBytes: number): void {
    const old = this.#buffer;
    if (old !== undefined && old.size >= nBytes) return;
    this.#buffer = this.#host.alloc(nBytes);
    if (old === undefined) return;
    for (const member of this.#members.values()) {
      member.executable.dispose();
      member.executable = this.#host.bind(member.planned, this.#buffer);
    }
    old.dispose();
    this.#host.grown(old.size, nBytes, this.#members.size);
  }
}
