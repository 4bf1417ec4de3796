// Memory of the leafs that graphs made with weight(): who uses it, and when it is given back.

import type { Graph } from "../graph/graph.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Allocation } from "./allocation.ts";
import type { PlannedProgram } from "./plan_program.ts";

/** Leafs whose memory was taken together. */
interface Lot {
  readonly memory: Allocation;
  readonly tensors: readonly Tensor[];
  /** the graph that was planned first with them, and every plan that reads them */
  readonly users: Set<Graph | PlannedProgram>;
}

/** All lots of an engine. A lot is given back when its last user leaves. */
export class WeightLots {
  readonly #lots = new Map<Tensor, Lot>();

  /** True when `graph` brought a lot before. */
  has(graph: Graph): boolean {
    return [...this.#lots.values()].some((lot) => lot.users.has(graph));
  }

  add(graph: Graph, tensors: readonly Tensor[], memory: Allocation): void {
    const lot = { memory, tensors, users: new Set<Graph | PlannedProgram>([graph]) };
    for (const t of tensors) this.#lots.set(t, lot);
  }

  /** The plan reads the weights of its program, whoever brought them. */
  use(planned: PlannedProgram): void {
    for (const t of planned.program.leafs) this.#lots.get(t)?.users.add(planned);
  }

  leave(user: Graph | PlannedProgram): void {
    for (const lot of new Set(this.#lots.values())) {
      if (lot.users.delete(user) && lot.users.size === 0) this.#free(lot);
    }
  }

  /** Forgets lots that were on a device which is gone: their graphs may bring them anew. */
  dropLost(): void {
    for (const lot of new Set(this.#lots.values())) if (lot.memory.lost) this.#free(lot);
  }

  #free(lot: Lot): void {
    for (const t of lot.tensors) this.#lots.delete(t);
    lot.memory.dispose();
  }
}
