// The tensors of a file as weights of a graph, and states that a graph carries from run to run.

import { type Graph, type Tensor, Type } from "../../ts/index.ts";
import type { LegacyTensor } from "./tensors.ts";

/** Weights and states of one graph: made while it is built, written once it is planned. */
export class Weights {
  readonly #g: Graph;
  readonly #file: ReadonlyMap<string, LegacyTensor>;
  readonly #made = new Map<string, Tensor>();
  readonly #states: { readonly t: Tensor; readonly value: number }[] = [];

  constructor(g: Graph, file: ReadonlyMap<string, LegacyTensor>) {
    this.#g = g;
    this.#file = file;
  }

  /** The weight of a name, in the type and shape of the file. */
  get(name: string): Tensor {
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const stored = this.#file.get(name);
    if (stored === undefined) throw new Error(`no tensor ${name} in the file`);
    const t = this.#g.weight(name, stored.type, stored.ne);
    this.#made.set(name, t);
    return t;
  }

  /** An F32 vector that keeps its values from run to run; `value` before the first. */
  state(name: string, n: number, value = 0): Tensor {
    const t = this.#g.weight(name, Type.F32, [n]);
    this.#states.push({ t, value });
    return t;
  }

  /** Fills weights and states, after the graph is planned. */
  write(): void {
    for (const [name, t] of this.#made) t.write(this.#file.get(name)!.bytes);
    this.reset();
  }

  /** States as before the first run. */
  reset(): void {
    for (const { t, value } of this.#states) t.write(new Float32Array(t.ne[0]).fill(value));
  }
}
