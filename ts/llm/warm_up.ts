// A small model of the same architecture and types, run on zeros while the weights of the real one are read slowly. Engines
// compile a function of wasm well only after it has run for a while; the first prompt would pay for that.

import { Flag } from "../../assembly/abi.ts";
import { DeviceError, FormatError, GraphError } from "../errors.ts";
import { quadLeafs } from "../graph/quads.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Allocation } from "../runtime/allocation.ts";
import type { Engine } from "../runtime/engine.ts";
import { macrotask } from "../runtime/macrotask.ts";
import { leafsFor } from "./arch/index.ts";
import { cacheTensors } from "./cache.ts";
import { Context, contextGraphs, type ContextGraphs, graphList } from "./context.ts";
import type { Params } from "./params.ts";
import type { ModelPlan } from "./plan_model.ts";

/** Width of the small model: whole blocks of every type. */
const WIDTH = 256;
const N_CTX = 256;
/** Tokens of its batches: a few columns, a panel's worth, and single tokens. */
const BATCHES = [8, 64, 1, 1, 1, 1];
/** Most functions are compiled well after so many rounds of them. */
const ROUNDS = 4;
/** Time that its runs may take on a slow machine, ms. */
const MOST_MS = 200;

/** The same heads and types, in a fraction of the work: layers up to the first that has attention. */
function smallParams(p: Params): Params {
  const perKv = Math.ceil(p.nHead / p.nHeadKv);
  let nHeadKv = 1;
  while (nHeadKv < p.nHeadKv && (p.headDimV * perKv * nHeadKv) % WIDTH !== 0) nHeadKv++;
  const nHead = perKv * nHeadKv;
  const nLayer = Math.max(1, p.layers.findIndex(({ taps }) => taps === undefined) + 1);
  const layers = p.layers.slice(0, nLayer);
  return { ...p, nEmbd: WIDTH, nLayer, layers, nHead, nHeadKv, nFf: 2 * WIDTH, nVocab: WIDTH };
}

/** A run of the small model, in memory that {@link end} gives back. */
export class WarmUp {
  readonly #memory: Allocation;
  readonly #context: Context;
  readonly #running: Promise<void>;
  #ended = false;

  private constructor(engine: Engine, p: Params, leafs: readonly Tensor[], graphs: ContextGraphs) {
    this.#memory = engine.allocate(leafs, "weights");
    try {
      this.#memory.clear();
      this.#context = new Context(engine, graphs, p);
    } catch (error) {
      this.#memory.dispose();
      throw error;
    }
    this.#running = this.#run();
  }

  /**
   * Starts it on the CPU, unless the sizes of a small model of the architecture do not go together, or it needs more memory.
   * What goes wrong later ends it, and is not reported.
   *
   * @param quads weights of the model lie in quads
   * @param room bytes of the arena that it may take
   */
  static start(
    engine: Engine,
    { header, context }: ModelPlan,
    quads: boolean,
    room: number,
  ): WarmUp | undefined {
    if (context === undefined || engine.devices.length > 1) return undefined;
    const { kvType, nBatch } = context.shape;
    try {
      const p = smallParams(header.params);
      const weights = leafsFor(p, header.tensors.values());
      const leafs = [...weights.values()];
      for (const t of leafs) t.flags |= Flag.EXTERNAL;
      const shape = { nCtx: N_CTX, nBatch: Math.min(nBatch, N_CTX), kvType, nOut: 1 };
      const graphs = contextGraphs(engine, header.build, p, weights, shape);
      // Zeros are the same in quads.
      if (quads) for (const t of quadLeafs(graphList(graphs).map((g) => g.program()))) t.flags |= Flag.QUADS;
      const { records, arena } = engine.measure(graphList(graphs));
      const own = engine.measureLeafs([...leafs, ...cacheTensors(graphs.cache)]).arena;
      return records + arena + own > room ? undefined : new WarmUp(engine, p, leafs, graphs);
    } catch (error) {
      return ignore(error);
    }
  }

  async #run(): Promise<void> {
    const start = performance.now();
    try {
      for (let i = 0; i < ROUNDS; i++) {
        for (const n of BATCHES) {
          await macrotask();
          if (this.#ended || performance.now() - start > MOST_MS) return;
          this.#context.rewind();
          await this.#context.append(new Array<number>(n).fill(1));
        }
      }
    } catch (error) {
      ignore(error);
    }
  }

  /** Ends it after the batch under way, and gives its memory back. May be called twice. */
  async end(): Promise<void> {
    if (this.#ended) return this.#running;
    this.#ended = true;
    await this.#running;
    this.#context.dispose();
    this.#memory.dispose();
  }
}

// Nothing depends on it: what does not run here would have its own error in the real model.
function ignore(error: unknown): undefined {
  if (error instanceof GraphError || error instanceof DeviceError || error instanceof FormatError)
    return undefined;
  throw error;
}
