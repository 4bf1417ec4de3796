// Decoding without waiting: the device chooses each token and goes on from it, the host hears of tokens late.
//
//   device    step 1 -> id -> step 2 -> id -> step 3 -> id -> ...      the id is written where the next step reads it
//   host          \ submit 1, 2, 3, 4    wait for the first id, submit 5, wait for the second ...
//
// Steps computed beyond the last wanted token are thrown away: they only wrote cache rows after the position, and nobody
// reads those.

import { Flag } from "../../assembly/abi.ts";
import { FormatError } from "../errors.ts";
import type { Graph } from "../graph/graph.ts";
import { leaf, type Tensor } from "../graph/tensor.ts";
import type { Allocation } from "../runtime/allocation.ts";
import type { Engine } from "../runtime/engine.ts";
import type { Reservation } from "../runtime/reservation.ts";
import { Type } from "../types.ts";
import type { BatchWriter } from "./batch.ts";
import { type Choice, choiceInput, setRandom } from "./device_sampling.ts";
import type { Sampler } from "./sampler.ts";

/** Steps under way at most. What is not wanted costs no more than three of them. */
const DEPTH = 4;

/** The graph of a step that chooses its token. */
export interface LoopGraph {
  readonly graph: Graph;
  readonly writer: BatchWriter;
  readonly choice: Choice;
  readonly state: LoopState;
}

/** What stays on the device from step to step. */
export interface LoopState {
  /** the next token, I32 [1] */
  readonly token: Tensor;
  /** sum of the logits it was chosen from, F32 [1]: no number unless all of them are numbers */
  readonly sum: Tensor;
}

/** Leafs of a loop, without memory yet. */
export function loopState(): LoopState {
  const token = leaf("next_token", Type.I32, [1]);
  const sum = leaf("logit_sum", Type.F32, [1]);
  for (const t of [token, sum]) t.flags |= Flag.EXTERNAL;
  return { token, sum };
}

/** A step under way. */
interface Flight {
  readonly bytes: Uint8Array;
  readonly read: Promise<void>;
}

/** The steps of a context that choose their tokens by themselves. */
export class DecodeLoop {
  readonly #graph: LoopGraph;
  readonly #memory: Allocation;
  /** oldest first */
  readonly #flights: Flight[] = [];
  readonly #idle: Uint8Array[];
  readonly #sampling: Float32Array = new Float32Array(4);
  /** bytes from the token to the end of the sum, which lies behind it */
  readonly #span: number;
  #sampler: Sampler | undefined;

  private constructor(graph: LoopGraph, memory: Allocation) {
    this.#graph = graph;
    this.#memory = memory;
    const { token, sum } = graph.state;
    this.#span = sum.placement!.offset - token.placement!.offset + 4;
    this.#idle = Array.from({ length: DEPTH }, () => new Uint8Array(this.#span));
  }

  /**
   * Plans a step over the compute buffer of the others.
   *
   * @returns undefined unless one device computes all of it
   * @throws {DeviceError} out-of-memory, device-lost
   */
  static async open(
    engine: Engine,
    reservation: Reservation,
    graph: LoopGraph,
    signal?: AbortSignal,
  ): Promise<DecodeLoop | undefined> {
    await engine.prepare([graph.graph], signal);
    const { token, sum } = graph.state;
    engine.prefer([token, sum], engine.devices[0]!.name);
    const [split, ...others] = engine.splits(graph.graph);
    const where = engine.devices.find((d) => d.name === split?.backend);
    if (others.length > 0 || where === undefined || where.bufferType.isHost) return undefined;
    const memory = engine.allocate([token, sum], "kv");
    try {
      await memory.ready();
      reservation.plan(graph.graph);
      return new DecodeLoop(graph, memory);
    } catch (error) {
      memory.dispose();
      throw error;
    }
  }

  /** The memory it needs is gone with its device. */
  get lost(): boolean {
    return this.#memory.lost;
  }

  /** Begins a text; random numbers are the sampler's, one a step. */
  begin(sampler: Sampler): void {
    this.drop();
    this.#sampler = sampler;
    choiceInput(sampler.settings, this.#sampling);
  }

  /**
   * The token after `id`, which stands at `position`; the next call goes on from it.
   *
   * @param most tokens wanted from here on: so many steps are submitted at most
   * @throws {FormatError} non-finite; {DeviceError} device-lost; the reason of `signal`
   */
  async next(id: number, position: number, most: number, signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted();
    const flights = this.#flights;
    if (flights.length === 0) this.#graph.state.token.write(Int32Array.of(id)); // else it is there
    while (flights.length < Math.min(DEPTH, most)) await this.#submit(position + flights.length, signal);
    const { bytes, read } = flights[0]!;
    await read;
    flights.shift();
    this.#idle.push(bytes);
    return this.#chosen(new DataView(bytes.buffer), id);
  }

  /** Forgets the steps under way. */
  drop(): void {
    // Those bytes are still being written, so others take their place.
    for (const _ of this.#flights.splice(0)) this.#idle.push(new Uint8Array(this.#span));
  }

  /** Gives back its memory. */
  dispose(): void {
    this.drop();
    this.#graph.graph.dispose();
    this.#memory.dispose();
  }

  async #submit(position: number, signal: AbortSignal | undefined): Promise<void> {
    const { graph, writer, choice, state } = this.#graph;
    writer.writeNext(position);
    if (choice.input !== undefined) {
      setRandom(this.#sampling, this.#sampler!.random.next());
      choice.input.write(this.#sampling);
    }
    await graph.compute({ signal });
    const { memory, offset } = state.token.placement!;
    const bytes = this.#idle.pop()!;
    const read = memory.readInto(offset, bytes);
    read.catch(() => undefined); // steps that nobody waits for any more
    this.#flights.push({ bytes, read });
  }

  #chosen(view: DataView, id: number): number {
    const sum = view.getFloat32(view.byteLength - 4, true);
    if (Number.isFinite(sum)) return view.getInt32(0, true);
    throw new FormatError("non-finite", `logits: their sum is ${sum} after token ${id}`, { actual: sum });
  }
}
