// Memory of the leafs that graphs made with weight(): who uses it, and when it is given back.

import type { Graph } from "../graph/graph.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Buffer, Planned } from "./backend.ts";

/** Leafs with one buffer. */
interface Lot {
  readonly buffer: Buffer;
  readonly tensors: readonly Tensor[];
  /** the graph that was planned first with them, and every plan that reads them */
  readonly users: Set<Graph | Planned>;
}

/** All lots of an engine. A lot is given back when its last user leaves. */
export class WeightLots {
  readonly #lots = new Map<Tensor, Lot>();

  /** True when `graph` brought a lot before. */
  has(graph: Graph): boolean {
    return [...this.#lots.values()].some((lot) => lot.users.has(graph));
  }

  add(graph: Graph, tensors: readonly Tensor[], buffer: Buffer): void {
    const lot = { buffer, tensors, users: new Set<Graph | Planned>([graph]) };
    for (const t of tensors) this.#lots.set(t, lot);
  }

  /** The plan reads the weights of its program, whoever brought them. */
  use(planned: Planned): void {
    for (const t of planned.program.leafs) this.#lots.get(t)?.users.add(planned);
  }

  leave(user: Graph | Planned): void {
    for (const lot of new Set(this.#lots.values())) {
      if (lot.users.delete(user) && lot.users.size === 0) this.#free(lot);
    }
  }

  #free(lot: Lot): void {
    for (const t of lot.tensors) {
      this.#lots.delete(t);
      t.place(undefined);
    }
    lot.buffer.dispose();
  }
}
