// The graph builder: one line per operator. Shapes and types are checked here, at build time; nothing is computed.

import { Flag, Glu, Op, SRC_LIVE, Unary } from "../../assembly/abi.ts";
import { GraphError } from "../errors.ts";
import { isContiguous, nelements, type Shape, shape4, str, contiguous } from "../shape.ts";
import { type Type, typeInfo, typeName } from "../types.ts";
import { toDot, toText } from "./print.ts";
import { expand, type Program } from "./program.ts";
import { Tensor } from "./tensor.ts";

/** A memory plan as the user sees it. */
export interface Plan {
  /** bytes of the compute buffer, scratch included */
  readonly nBytes: number;
  /** no placement can need fewer bytes, given the lifetimes */
  readonly lowerBound: number;
  toText(): string;
  toJSON(): unknown;
  /** picture of the plan: x = step, y = offset */
  toSVG(): string;
}

/** Options of {@link Graph.compute}. */
export interface ComputeOptions {
  readonly signal?: AbortSignal | undefined;
}

/** What a graph needs of the engine it belongs to. */
export interface GraphHost {
  plan(graphs: readonly Graph[]): readonly Plan[];
  compute(graph: Graph, options: ComputeOptions): Promise<void>;
  release(graph: Graph): void;
}

/**
 * A static graph. Build it, mark outputs, {@link plan} once, then write inputs, {@link compute} and read outputs as
 * often as you like: nothing is allocated any more.
 */
export class Graph {
  readonly #host: GraphHost;
  readonly #created: Tensor[] = [];
  readonly #roots: Tensor[] = [];
  /** I32 scalar: columns (outermost dimension) of a batch that hold data; nodes built while it is set compute only those */
  live: Tensor | undefined;

  constructor(host: GraphHost) {
    this.#host = host;
  }

  // ---- leafs

  /** A tensor you write before runs. `ne` are elements per dimension, innermost first. */
  input(name: string, type: Type, ne: readonly number[]): Tensor {
    return this.leaf(name, type, ne).asInput();
  }

  /** A tensor with memory of its own that runs do not touch (or only where an operator writes into a view of it). */
  weight(name: string, type: Type, ne: readonly number[]): Tensor {
    const t = this.leaf(name, type, ne);
    t.flags |= Flag.EXTERNAL;
    return t;
  }

  /** A leaf without flags: its memory is planned. */
  leaf(name: string, type: Type, ne: readonly number[]): Tensor {
    const t = leaf(name, type, ne);
    this.#created.push(t);
    return t;
  }

  // ---- outputs, plan, run

  /** Also computes `t` (and what it needs) in each run, in the order of the calls: for effects on a cache. */
  expand(t: Tensor): Tensor {
    this.#roots.push(t);
    return t;
  }

  /** Leafs and nodes in execution order: depth-first from what was expanded and marked as output. */
  program(): Program {
    const outputs = this.#created.filter((t) => (t.flags & Flag.OUTPUT) !== 0 && !t.isLeaf);
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
   * @throws {GraphError} bad-plan, unsupported-op
   * @throws {DeviceError} out-of-memory, with both sizes in bytes
   */
  plan(): Plan {
    return this.#host.plan([this])[0]!;
  }

  /**
   * Runs every node once.
   *
   * @throws {GraphError} not-planned, disposed
   * @throws {DeviceError} trap, timeout
   */
  compute(options: ComputeOptions = {}): Promise<void> {
    return this.#host.compute(this, options);
  }

  /** Gives back the memory of the plan. The graph can be planned again. */
  dispose(): void {
    this.#host.release(this);
  }

  [Symbol.dispose](): void {
    this.dispose();
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

/**
 * A leaf tensor, contiguous.
 *
 * @throws {GraphError} bad-type, bad-shape, too-large
 */
export function leaf(name: string, type: Type, ne: readonly number[]): Tensor {
  const info = typeInfo(type);
  if (info === undefined) throw new GraphError("bad-type", `${name}: ${typeName(type)} is no element type`);
  if (ne.length > 4 || !ne.every((n) => Number.isSafeInteger(n) && n >= 0)) {
    throw new GraphError("bad-shape", `${name}: shape ${str(ne)}, expected up to 4 counts, innermost first`, { actual: ne });
  }
  const shape = shape4(ne);
  if (shape[0] % info.blockSize !== 0) {
    throw new GraphError("bad-shape", `${name}: ne[0] is ${shape[0]}, expected a multiple of ${info.blockSize}, the block of ${info.name}`);
  }
  if (!Number.isSafeInteger(nelements(shape) * info.typeSize)) {
    throw new GraphError("too-large", `${name}: ${info.name} ${str(shape)} has more than 2^53 bytes`, { tensor: name });
  }
  return new Tensor({ op: Op.NONE, type, ne: shape, nb: contiguous(type, shape), name });
}
