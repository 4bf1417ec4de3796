// A graph: what is to be computed, its plan and its runs.

import { Flag } from "../../assembly/abi.ts";
import { checkOptions, GraphError } from "../errors.ts";
import { GraphBuilder } from "./builder.ts";
import type { Plan, PlanOrder } from "./plan.ts";
import { toDot, toText } from "./print.ts";
import { expand, type Program } from "./program.ts";
import type { Tensor, TensorData } from "./tensor.ts";

/** Options of {@link Graph.compute}. */
export interface ComputeOptions {
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with each result right after it has been computed, wherever it was; `false` ends the run there. What a backend
   * fuses into another operator has no result. The run waits for the call, and for the device at each of them.
   */
  readonly onTensor?: ((t: Tensor, data: TensorData) => unknown) | undefined;
  /** which results `onTensor` wants; all of them by default */
  readonly wants?: ((t: Tensor) => boolean) | undefined;
}

/** What a graph needs of the engine it belongs to. */
export interface GraphHost {
  plan(graphs: readonly Graph[], options: PlanOrder): readonly Plan[];
  compute(graph: Graph, options: ComputeOptions): Promise<void>;
  release(graph: Graph): void;
  pin(tensor: Tensor, backend: string | undefined): void;
  splitsText(graph: Graph): string;
}

/**
 * A static graph. Build it, mark outputs, {@link plan} once, then write inputs, {@link compute} and read outputs as
 * often as you like: nothing is allocated any more.
 */
export class Graph extends GraphBuilder {
  readonly #host: GraphHost;
  readonly #roots: Tensor[] = [];

  constructor(host: GraphHost) {
    super();
    this.#host = host;
  }

  /** True when `host` made this graph. */
  belongsTo(host: GraphHost): boolean {
    return this.#host === host;
  }

  /** Also computes `t` (and what it needs) in each run, in the order of the calls: for effects on a cache. */
  expand(t: Tensor): Tensor {
    this.#roots.push(t);
    return t;
  }

  /** Leafs and nodes in execution order: depth-first from what was expanded and marked as output. */
  program(): Program {
    const outputs = this.created.filter((t) => (t.flags & Flag.OUTPUT) !== 0 && !t.isLeaf);
    const roots = [...this.#roots, ...outputs];
    if (roots.length === 0) {
      throw new GraphError("bad-plan", "graph: nothing to compute: mark a result with asOutput()");
    }
    return expand(roots);
  }

  /**
   * Plans memory for every node and fixes it. Run it once; later calls of {@link compute} allocate nothing. Results
   * may share memory unless marked with `asOutput`.
   *
   * @throws {GraphError} bad-plan, bad-source, unsupported-op, too-large
   * @throws {DeviceError} out-of-memory, with both sizes in bytes
   */
  plan(options: PlanOrder = {}): Plan {
    return this.#host.plan([this], options)[0]!;
  }

  /**
   * Runs every node once. Runs of one engine happen one after the other.
   *
   * @throws {GraphError} not-planned; disposed, also when the plan is given back before the run has ended
   * @throws {DeviceError} trap, timeout
   */
  async compute(options: ComputeOptions = {}): Promise<void> {
    checkOptions("compute", options, ["signal", "onTensor", "wants"]);
    return this.#host.compute(this, options);
  }

  /**
   * Gives back the memory of the plan, and of the weights first planned here once no other planned graph reads them. The
   * graph can be planned again.
   */
  dispose(): void {
    this.#host.release(this);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * Says on which backend a node runs (its views go with it) or a weight lies, for this and later plans; without a name the
   * engine decides again. Returns the tensor.
   *
   * @throws {GraphError} bad-param for a backend that the engine does not have
   */
  pin(t: Tensor, backend: string | undefined): Tensor {
    this.#host.pin(t, backend);
    return t;
  }

  /** Which backend runs which part, and what is copied between them: one line per part. */
  splits(): string {
    return this.#host.splitsText(this);
  }

  /** The graph as text, one line per tensor. */
  toText(): string {
    return toText(this.program());
  }

  /** The graph in Graphviz's language. */
  toDot(): string {
    return toDot(this.program());
  }
}
