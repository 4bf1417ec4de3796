// The scheduler of an engine: who runs what. Remembers pins, decisions and where leafs shall have their memory.

import { Flag } from "../../../assembly/abi.ts";
import { GraphError } from "../../errors.ts";
import type { Graph } from "../../graph/graph.ts";
import { orderForMemory } from "../../graph/order.ts";
import type { PlanOrder } from "../../graph/plan.ts";
import { checkProgram, type Program, tensorsOf } from "../../graph/program.ts";
import { checkQuads } from "../../graph/quads.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { Backend, Buffer } from "../backend.ts";
import { assign, type Assignment } from "./assign.ts";
import { isPureView } from "./costs.ts";
import { cut, oneSplit, type Schedule } from "./splits.ts";
import { type Demands, unsupported } from "./things.ts";

/** Assigns graphs to backends and cuts them. Backends stand in order of preference; the last one takes what others refuse. */
export class Scheduler {
  readonly backends: readonly Backend[];
  readonly #pins = new WeakMap<Tensor, number>();
  /** where leafs were promised memory by the graphs that came first */
  readonly #homes = new WeakMap<Tensor, number>();
  readonly #kept = new WeakMap<Graph, { readonly assignment: Assignment; readonly pins: number }>();
  readonly #preferred = new WeakMap<Tensor, number>();
  /** leafs whose graphs stay on one backend */
  readonly #confined = new WeakMap<Tensor, number>();
  /** calls of pin() */
  #pinned = 0;

  constructor(backends: readonly Backend[]) {
    this.backends = backends;
  }

  /**
   * Fixes the backend of a node (its views go with it), or where a leaf shall have its memory. Holds for later plans of
   * its graphs; without a name the pin is taken off.
   *
   * @throws {GraphError} bad-param for a backend that is not here
   */
  pin(tensor: Tensor, name: string | undefined): void {
    this.#pinned++;
    if (name === undefined) this.#pins.delete(tensor);
    else this.#pins.set(tensor, this.#indexOf(name));
  }

  /** Leafs should have their memory there, as long as all that goes with them can. @throws {GraphError} bad-param */
  prefer(leafs: Iterable<Tensor>, name: string): void {
    const b = this.#indexOf(name);
    for (const t of leafs) this.#preferred.set(t, b);
  }

  /** Graphs that read one of these leafs run on one backend as a whole. @throws {GraphError} bad-param */
  confine(leafs: Iterable<Tensor>, name: string): void {
    const b = this.#indexOf(name);
    for (const t of leafs) this.#confined.set(t, b);
  }

  #indexOf(name: string): number {
    const b = this.backends.findIndex((backend) => backend.name === name);
    if (b < 0) {
      const expected = this.backends.map((backend) => backend.name).join(", ");
      throw new GraphError("bad-param", `pin: there is no backend "${name}", expected one of ${expected}`, {
        expected,
        actual: name,
      });
    }
    return b;
  }

  /** The backend that a leaf has, or shall have, its memory on. */
  homeOf(t: Tensor): Backend {
    const promised = [this.#pins, this.#confined, this.#homes].map((map) => this.#alive(map.get(t)));
    const b = this.#placed(t) ?? promised.find((x) => x !== undefined) ?? this.backends.findIndex(isAlive);
    return this.backends[b]!;
  }

  /**
   * The graph cut into splits, in the form that backends plan and run. The same graph gets the same assignment again
   * unless pins or memory say otherwise.
   *
   * @throws {GraphError} bad-plan, bad-source, unsupported-op
   */
  schedule(graph: Graph, options: PlanOrder = {}): Schedule {
    const program = graph.program();
    for (const t of program.leafs) this.#checkHome(t);
    if (this.backends.length === 1) return this.#alone(program, options);
    const assignment = this.#assign(graph, program);
    const schedule = this.#cut(program, assignment, options);
    checkProgram(schedule.program);
    checkQuads(schedule.program);
    this.#kept.set(graph, { assignment, pins: this.#pinned });
    for (const t of program.leafs) {
      if ((t.flags & Flag.EXTERNAL) !== 0) this.#homes.set(t, assignment.get(t)!);
    }
    return schedule;
  }

  #assign(graph: Graph, program: Program): Assignment {
    const only = program.leafs.map((t) => this.#confined.get(t)).find((b) => b !== undefined);
    if (only !== undefined) return new Map(tensorsOf(program).map((t) => [t.root, only]));
    const last = this.#kept.get(graph);
    if (last === undefined || last.pins !== this.#pinned || !this.backends.every(isAlive))
      return this.#assignAnew(program);
    try {
      const home = (t: Tensor): number | undefined => (t.isLeaf ? this.#homeIndex(t) : undefined);
      const moved = program.leafs.some((t) => (home(t) ?? last.assignment.get(t)) !== last.assignment.get(t));
      if (moved) return this.#assignAnew(program);
      const kept: Demands = {
        pinned: (t) => this.#pins.get(t),
        home: (t) => last.assignment.get(t),
        preferred: () => undefined,
      };
      return assign(program, this.backends, kept);
    } catch {
      return this.#assignAnew(program); // a backend can no longer do what it could
    }
  }

  #assignAnew(program: Program): Assignment {
    return assign(program, this.backends, {
      pinned: (t) => this.#alive(this.#pins.get(t)),
      home: (t) => (t.isLeaf ? this.#homeIndex(t) : undefined),
      preferred: (t) => this.#alive(this.#preferred.get(t)),
    });
  }

  // Where a leaf has its memory, or was promised it; a pin that comes later than a promise takes it back.
  #homeIndex(t: Tensor): number | undefined {
    return this.#placed(t) ?? (this.#pins.has(t) ? undefined : this.#alive(this.#homes.get(t)));
  }

  #cut(program: Program, assignment: Assignment, options: PlanOrder): Schedule {
    const [b, ...others] = new Set(assignment.values());
    if (others.length === 0) return this.#whole(program, b!, options);
    return cut(options.order === "memory" ? orderForMemory(program) : program, this.backends, assignment);
  }

  #alone(program: Program, options: PlanOrder): Schedule {
    const [backend] = this.backends;
    for (const node of program.nodes) {
      if (!isPureView(node) && !backend!.supportsOp(node.tensor, node.src))
        throw unsupported(node, backend!.name);
    }
    const schedule = this.#whole(program, 0, options);
    checkProgram(schedule.program);
    checkQuads(schedule.program);
    return schedule;
  }

  // On one backend. The order is found for its form, so that plans do not depend on there being other backends.
  #whole(program: Program, b: number, { order }: PlanOrder): Schedule {
    const schedule = oneSplit(program, this.backends, b);
    if (order !== "memory") return schedule;
    const ordered = orderForMemory(schedule.program);
    return { ...schedule, program: ordered, splits: [{ ...schedule.splits[0]!, program: ordered }] };
  }

  // What was said of a device that is gone does not hold any more.
  #alive(b: number | undefined): number | undefined {
    return b === undefined || isAlive(this.backends[b]!) ? b : undefined;
  }

  #placed(t: Tensor): number | undefined {
    const memory = t.placement?.memory as Partial<Buffer> | undefined;
    if (memory === undefined) return undefined;
    const b = this.backends.findIndex((backend) => backend.bufferType === memory.type);
    return b < 0 ? undefined : this.#alive(b);
  }

  #checkHome(t: Tensor): void {
    const type = (t.placement?.memory as Partial<Buffer> | undefined)?.type;
    if ((t.flags & Flag.EXTERNAL) === 0 || t.placement === undefined) return;
    if (this.backends.some((b) => b.bufferType === type)) return;
    throw new GraphError("bad-source", `${t.label()}: lies in memory of another engine`, { tensor: t.name });
  }
}

function isAlive(backend: Backend): boolean {
  return backend.lost === undefined;
}
