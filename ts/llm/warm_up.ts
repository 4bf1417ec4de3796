// A small model of the same architecture and types, run on zeros while the weights of the real one are read slowly. Engines
// compile a function of wasm well only after it has run for a while; the first prompt would pay for that.

import { Flag } from "../../assembly/abi.ts";
import { quadLeafs } from "../graph/quads.ts";
import type { Tensor } from "../graph/tensor.ts";
import { Engine } from "../runtime/engine.ts";
import { macrotask } from "../runtime/macrotask.ts";
import { leafsFor } from "./arch/index.ts";
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
/** Memory that it may take; what needs more, as many experts do, is left out. */
const MOST_BYTES = 32 * 2 ** 20;
/** Bytes read before it is asked whether reading leaves time to warm up, and that are then yet to come; bytes a ms below which it does. */
const LOOK_BYTES = 2 ** 23;
const SLOW_BYTES = 1e5;

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

/** A run of the small model, in an engine of its own on the same compiled core. */
export class WarmUp {
  /** batches that have run */
  batches = 0;
  readonly #engine: Engine;
  readonly #context: Context;
  readonly #running: Promise<void>;
  #ended = false;

  private constructor(engine: Engine, p: Params, leafs: readonly Tensor[], graphs: ContextGraphs) {
    this.#engine = engine;
    engine.allocate(leafs, "weights"); // fresh memory: zeros
    this.#context = new Context(engine, graphs, p);
    this.#running = this.#run();
  }

  /**
   * Starts it on the CPU, unless the model computes on a device or no small one can be made of it. Nothing depends on it: what
   * goes wrong in it ends it, and is not reported.
   *
   * @param quads weights of the model lie in quads
   */
  static start(
    { aside, devices }: Engine,
    { header, context }: ModelPlan,
    quads: boolean,
  ): WarmUp | undefined {
    if (context === undefined || devices.length > 1 || aside === undefined) return undefined;
    let engine: Engine | undefined;
    try {
      const parts = aside(MOST_BYTES);
      engine = new Engine(parts, [parts.cpu]);
      const p = smallParams(header.params);
      const weights = leafsFor(p, header.tensors.values());
      const leafs = [...weights.values()];
      for (const t of leafs) t.flags |= Flag.EXTERNAL;
      const { kvType, nBatch } = context.shape;
      const shape = { nCtx: N_CTX, nBatch: Math.min(nBatch, N_CTX), kvType, nOut: 1 };
      const graphs = contextGraphs(engine, header.build, p, weights, shape);
      // Zeros are the same in quads.
      if (quads) for (const t of quadLeafs(graphList(graphs).map((g) => g.program()))) t.flags |= Flag.QUADS;
      return new WarmUp(engine, p, leafs, graphs);
    } catch {
      engine?.dispose();
      return undefined;
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
          this.batches++;
        }
      }
    } catch {
      // the model itself will tell
    }
  }

  /** Ends it after the batch under way. May be called twice. */
  async end(): Promise<void> {
    this.#ended = true;
    await this.#running;
    this.#engine.dispose();
  }
}

/** Starts a {@link WarmUp} once a load has turned out to be slow: whoever reads as fast as memory fills has no time for it. */
export class SlowLoad {
  readonly #begun = performance.now();
  readonly #start: () => WarmUp | undefined;
  #looked = false;
  #warmUp: WarmUp | undefined;

  constructor(start: () => WarmUp | undefined) {
    this.#start = start;
  }

  /** @param loaded bytes so far, of `total` */
  look(loaded: number, total: number): void {
    if (this.#looked || loaded < LOOK_BYTES) return;
    this.#looked = true;
    const slow = loaded <= SLOW_BYTES * (performance.now() - this.#begun);
    if (slow && total - loaded >= LOOK_BYTES) this.#warmUp = this.#start();
  }

  async end(): Promise<void> {
    await this.#warmUp?.end();
  }
}
