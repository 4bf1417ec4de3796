// Several graphs over the compute buffers of each backend: one, or several chunks where its largest is too small. They run
// one at a time: a run of one overwrites inputs and results of the others.

import { GraphError } from "../errors.ts";
import type { ComputeOptions, Graph } from "../graph/graph.ts";
import type { Plan } from "../graph/plan.ts";
import type { Buffer, Executable } from "./backend.ts";
import type { Buffers, PlannedProgram, Sizes } from "./plan_program.ts";
import { runWatched } from "./scheduler/watch.ts";

/** What a reservation needs of its engine. */
export interface ReservationHost {
  /** takes a graph out of the reservation it is in, puts it into this one */
  enter(graph: Graph, reservation: Reservation): void;
  /** plans graphs, each with one of the given plans where it fits */
  prepare(graphs: readonly Graph[], reserved: readonly PlannedProgram[]): readonly PlannedProgram[];
  /** a compute buffer of backend `b` */
  alloc(b: number, nBytes: number): Buffer;
  /** Does the buffer belong to backend `b` as it is now? */
  isOf(b: number, buffer: Buffer): boolean;
  bind(planned: PlannedProgram, buffers: Buffers): Executable;
  drop(planned: PlannedProgram): void;
  /** one run at a time: they share the control block, and graphs share compute buffers */
  exclusive(run: () => Promise<void>): Promise<void>;
  grown(from: number, to: number, graphs: number): void;
}

interface Member {
  readonly planned: PlannedProgram;
  executable: Executable;
  /** runs under way or waiting for their turn; memory is given back when they have ended */
  runs: number;
  /** the plan was given back */
  gone: boolean;
}

/** Compute buffers and the graphs planned over them. They go with the last graph. */
export class Reservation {
  readonly #host: ReservationHost;
  readonly #members = new Map<Graph, Member>();
  #buffers: Buffers = [];
  /** members whose memory is not given back yet, and calls of planAll under way */
  #held = 0;
  #running = 0;
  #ended = false;

  constructor(host: ReservationHost) {
    this.#host = host;
  }

  /** Bytes of the buffers. */
  get nBytes(): number {
    return this.#buffers.flat().reduce((sum, b) => sum + b.size, 0);
  }

  /** Plans of the graphs, in the order they came. */
  get plans(): readonly Plan[] {
    return [...this.#members.values()].map((m) => m.planned.plan);
  }

  /**
   * Plans one more graph, or one again, over the same buffers. A graph of the same wiring that is nowhere larger than one
   * that is here runs with that one's plan. A buffer that is too small is replaced, one that is missing is taken, and every
   * graph of the reservation moves; the logger hears of it once. Inputs must be written again.
   *
   * @throws as {@link Graph.plan}; bad-plan when the buffer would have to grow while a graph runs. The others then stay
   * as they were
   */
  plan(graph: Graph): Plan {
    return this.planAll([graph])[0]!;
  }

  /** The same for several at once; each graph once. */
  planAll(graphs: readonly Graph[]): readonly Plan[] {
    if (graphs.length === 0) return [];
    const reserved = [...this.#members.values()].map((m) => m.planned);
    this.#held++;
    try {
      for (const g of graphs) this.#host.enter(g, this);
      return this.#add(graphs, this.#host.prepare(graphs, reserved));
    } finally {
      this.#letGo();
    }
  }

  #add(graphs: readonly Graph[], planned: readonly PlannedProgram[]): readonly Plan[] {
    try {
      this.#ensure(planned);
      const executables = planned.map((p) => this.#host.bind(p, this.#buffers));
      graphs.forEach((g, i) => {
        const member = { planned: planned[i]!, executable: executables[i]!, runs: 0, gone: false };
        this.#members.set(g, member);
        this.#held++;
      });
      return planned.map((p) => p.plan);
    } catch (error) {
      for (const p of planned) {
        p.unplace();
        this.#host.drop(p);
      }
      throw error;
    }
  }

  /** Runs one of the graphs, when the runs before it have ended. */
  async run(graph: Graph, { signal, ...watch }: ComputeOptions): Promise<void> {
    const member = this.#members.get(graph);
    if (member === undefined) throw new GraphError("not-planned", "graph: plan() it before compute()");
    member.runs++;
    this.#running++;
    try {
      await this.#host.exclusive(() => runWatched(member.executable, member.planned.schedule, watch, signal));
    } finally {
      this.#running--;
      if (--member.runs === 0 && member.gone && !this.#ended) this.#free(member);
    }
    if (member.gone) throw new GraphError("disposed", "graph: its plan was given back while it ran");
  }

  /** Takes a graph out: at once, or when its runs have ended. The buffer goes with the last one. */
  remove(graph: Graph): void {
    const member = this.#members.get(graph);
    if (member === undefined) return;
    this.#members.delete(graph);
    retire(member);
    if (member.runs === 0) this.#free(member);
  }

  /** No graph runs any more; the memory goes with the engine. */
  end(): void {
    this.#ended = true;
    for (const member of this.#members.values()) retire(member);
  }

  #free(member: Member): void {
    this.#host.drop(member.planned);
    this.#letGo();
  }

  #letGo(): void {
    if (--this.#held > 0) return;
    for (const b of this.#buffers.flat()) b.dispose();
    this.#buffers = [];
  }

  // New buffers are taken before old ones go, so that a failure changes nothing. Those of a device that is gone serve no
  // more.
  #ensure(planned: readonly PlannedProgram[]): void {
    const before = this.#buffers;
    const old = before.map((list, b) => list.filter((buffer) => this.#host.isOf(b, buffer)));
    const all = [...[...this.#members.values()].map((m) => m.planned), ...planned];
    const needed = largest(all.map((p) => p.sizes));
    const grows = needed.some((sizes, b) => sizes.some((n, k) => !serves(old[b]?.[k], n)));
    if (!grows) return;
    const from = this.nBytes;
    if (this.#running > 0) throw this.#cannotGrow(needed);
    const buffers = (this.#buffers = this.#take(needed, old));
    for (const member of this.#members.values()) {
      member.executable.dispose();
      member.executable = this.#host.bind(member.planned, buffers);
    }
    const kept = new Set(buffers.flat());
    for (const buffer of before.flat()) if (!kept.has(buffer)) buffer.dispose();
    if (this.#members.size > 0) this.#host.grown(from, this.nBytes, this.#members.size);
  }

  // What is there where it serves, else a new buffer.
  #take(needed: Sizes, old: Buffers): Buffers {
    const taken: Buffer[] = [];
    const take = (n: number, b: number): Buffer => {
      taken.push(this.#host.alloc(b, n));
      return taken.at(-1)!;
    };
    try {
      return needed.map((sizes, b) => {
        const here = old[b] ?? [];
        const first = sizes.map((n, k) => (serves(here[k], n) ? here[k]! : take(n, b)));
        return [...first, ...here.slice(sizes.length)];
      });
    } catch (error) {
      for (const b of taken) b.dispose();
      throw error;
    }
  }

  #cannotGrow(needed: Sizes): GraphError {
    return new GraphError("bad-plan", "reserve: the compute buffer cannot grow while a graph runs", {
      expected: needed.flat().reduce((sum, n) => sum + n, 0),
      actual: this.nBytes,
    });
  }
}

function serves(buffer: Buffer | undefined, nBytes: number): boolean {
  return buffer !== undefined && buffer.size >= nBytes;
}

/** Bytes of each chunk of each backend that serve all of these programs. */
export function largest(all: readonly Sizes[]): Sizes {
  const backends = Math.max(0, ...all.map((sizes) => sizes.length));
  return Array.from({ length: backends }, (_, b) => {
    const lists = all.map((sizes) => sizes[b] ?? []);
    const n = Math.max(...lists.map((list) => list.length));
    return Array.from({ length: n }, (_, k) => Math.max(...lists.map((list) => list[k] ?? 0)));
  });
}

// No run of it starts any more, one under way ends, and its tensors have no place.
function retire(member: Member): void {
  member.gone = true;
  member.executable.dispose();
  member.planned.unplace();
}
