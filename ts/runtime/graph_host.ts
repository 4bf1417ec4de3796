// The engine as the host of graphs: decides where they run, plans them, gives them memory, runs them.

import { Flag, NODE_BYTES } from "../../assembly/abi.ts";
import { checkOptions, GraphError } from "../errors.ts";
import { type ComputeOptions, Graph, type GraphHost } from "../graph/graph.ts";
import type { Plan, PlanOrder } from "../graph/plan.ts";
import { tensorsOf } from "../graph/program.ts";
import type { Memory, Tensor } from "../graph/tensor.ts";
import {
  allocate,
  type Allocation,
  allocBuffer,
  type DeviceBytes,
  measureLeafs,
  probe,
} from "./allocation.ts";
import type { Arena, MemoryReport } from "./arena.ts";
import type { Backend, BufferUse, Executable } from "./backend.ts";
import { CpuBackend, CpuBuffer } from "./cpu.ts";
import type { EngineParts } from "./cpu_start.ts";
import { type DeviceContext, DeviceSet } from "./device_set.ts";
import type { BackendInfo } from "./devices.ts";
import type { Logger } from "./options.ts";
import {
  bindProgram,
  type Buffers,
  planProgram,
  type PlannedProgram,
  type PlanSettings,
  type Sizes,
} from "./plan_program.ts";
import type { GraphPlanView } from "./plan_view.ts";
import { PlanCache } from "./plan_cache.ts";
import { QuadWindows, toQuads } from "./quads.ts";
import { recordCount } from "./records.ts";
import { largest, Reservation, type ReservationHost } from "./reservation.ts";
import { MixedExecutable } from "./scheduler/mixed.ts";
import { Scheduler } from "./scheduler/scheduler.ts";
import { splitsToText, type SplitView, viewSplits } from "./scheduler/text.ts";
import type { VectorBits } from "./vectors.ts";
import { WeightLots } from "./weight_lots.ts";
import type { Core, Exports } from "./wasm.ts";

/** Bytes by place. */
export interface GraphMemory {
  /** of node records, in linear memory */
  readonly records: number;
  /** in linear memory */
  readonly arena: number;
  /** of devices beside the CPU that have some */
  readonly devices: readonly DeviceBytes[];
}

/** An engine. Several may live side by side; each has a memory of its own. */
export class Engine implements GraphHost {
  /** backends in order of preference; the last one takes what the others refuse */
  readonly devices: readonly Backend[];
  readonly arena: Arena;
  readonly core: Exports;
  /** which build of the core runs */
  readonly build: Core["build"];
  /** bits of the vectors that its kernels are shaped for */
  readonly vectors: VectorBits;
  /** see {@link EngineParts.aside} */
  readonly aside: EngineParts["aside"];
  readonly #deviceSet: DeviceSet;
  readonly #logger: Logger | undefined;
  readonly #allocations = new Set<Allocation>();
  readonly #plans = new PlanCache();
  readonly #graphs = new Map<Graph, Reservation>();
  readonly #weights = new WeightLots();
  readonly #onDispose: (() => void)[] = [];
  readonly #sched: Scheduler;
  #tail: Promise<unknown> = Promise.resolve();
  #disposed = false;

  constructor(
    { core, arena, build, vectors, aside }: EngineParts,
    devices: readonly Backend[],
    context: DeviceContext = {},
  ) {
    this.#logger = context.logger;
    this.build = build;
    this.vectors = vectors;
    this.aside = aside;
    this.core = core;
    this.arena = arena;
    this.#deviceSet = new DeviceSet(devices, context);
    this.devices = this.#deviceSet.list;
    this.#sched = new Scheduler(this.devices);
  }

  /** Backends that compute, in order of preference, and those that were looked at and left, with the reason. */
  backends(): readonly BackendInfo[] {
    return this.#deviceSet.infos();
  }

  /** The last of the backends: the CPU, unless it was left out. */
  get backend(): Backend {
    return this.devices.at(-1)!;
  }

  /** Threads of the CPU that compute. In Node they may still be starting; runs have one until all have come. */
  get nThreads(): number {
    return this.backend instanceof CpuBackend ? this.backend.pool.nThreads : 1;
  }

  /** Settles when all threads have come, or none will, for which there is a notice then; never rejects. */
  get arrived(): Promise<void> {
    return this.backend instanceof CpuBackend ? this.backend.pool.arrived : Promise.resolve();
  }

  /** See {@link Graph.pin}. */
  pin(tensor: Tensor, backend: string | undefined): void {
    this.#alive();
    this.#sched.pin(tensor, backend);
  }

  /** Leafs should have their memory there, as long as all that goes with them can. @throws {GraphError} bad-param */
  prefer(leafs: Iterable<Tensor>, backend: string): void {
    this.#alive();
    this.#sched.prefer(leafs, backend);
  }

  /**
   * Lets backends get ready for graphs that are about to be planned: pipelines, tests of kernels.
   *
   * @returns whether there was anything to do: what backends can may have changed
   */
  async prepare(graphs: readonly Graph[], signal?: AbortSignal): Promise<boolean> {
    this.#alive();
    const able = this.devices.filter((b) => b.prepare !== undefined);
    for (const b of able) for (const g of graphs) await b.prepare!(g.program(), signal);
    return able.length > 0;
  }

  /** Graphs that read one of these leafs run on one backend as a whole. @throws {GraphError} bad-param */
  confine(leafs: Iterable<Tensor>, backend: string): void {
    this.#alive();
    this.#sched.confine(leafs, backend);
  }

  /** How a graph is divided between backends, or would be. */
  splits(graph: Graph): readonly SplitView[] {
    this.#alive();
    return viewSplits(this.#sched.schedule(graph), this.devices);
  }

  /** {@link splits} to read. */
  splitsText(graph: Graph): string {
    return splitsToText(this.splits(graph));
  }

  /** An empty graph. */
  graph(): Graph {
    this.#alive();
    return new Graph(this);
  }

  /**
   * Bytes of linear memory by use, exact; the parts add up to `total`, the size of the memory. `devices` has the bytes of
   * other devices, those of plans among their `compute`.
   */
  memory(): MemoryReport {
    this.#alive();
    return { ...this.arena.report(), devices: this.#deviceSet.report() };
  }

  /**
   * Gives leafs memory of their own, on the backend that graphs planned or measured before want them on, else on the
   * preferred one. Loaders fill weights through it; caches live in it.
   *
   * @returns the memory; the caller disposes it
   * @throws {GraphError} too-large
   * @throws {DeviceError} out-of-memory, buffer-too-large
   */
  allocate(tensors: readonly Tensor[], use: BufferUse): Allocation {
    this.#alive();
    const memory = allocate(
      tensors,
      (t) => this.#sched.homeOf(t),
      (backend, size) => allocBuffer(backend, size, use),
      () => this.#allocations.delete(memory),
    );
    this.#allocations.add(memory);
    return memory;
  }

  /**
   * Interleaves the rows of leafs, eight by eight, where they lie, so that products read them faster; those whose type, rows
   * or scales do not allow it stay as they are. To be done once they hold their data and before graphs over them are
   * planned: only MUL_MAT, MUL_MAT_ID and GET_ROWS read such leafs, and their bytes can no longer be read or written.
   */
  toQuads(leafs: readonly Tensor[]): void {
    this.#alive();
    toQuads(
      this.arena,
      this.core,
      leafs.filter((t) => (t.flags & Flag.QUADS) === 0 && addressOf(t) !== undefined),
      (t) => addressOf(t)!,
    );
  }

  /** Puts leafs in quads on their way from a file into linear memory; see {@link QuadWindows}. */
  quadWindows(leafs: readonly Tensor[], room: number): QuadWindows {
    this.#alive();
    return new QuadWindows(this.arena, this.core, leafs, room, (t) => addressOf(t)!);
  }

  /** Plans graphs, each over a buffer they share; see {@link Graph.plan} and {@link reserve}. */
  plan(graphs: readonly Graph[], options: PlanOrder = {}): readonly Plan[] {
    const { plans } = this.reserve(graphs, options);
    const list = [...new Set(graphs)];
    return graphs.map((g) => plans[list.indexOf(g)]!);
  }

  /**
   * Plans several graphs over one compute buffer of each backend (several where its largest is too small), as large as the
   * largest of them needs. They run one at a time: a run of one overwrites inputs and results of the others. Further shapes
   * join with {@link Reservation.plan}.
   */
  reserve(graphs: readonly Graph[], options: PlanOrder = {}): Reservation {
    this.#alive();
    checkOrder("reserve", options, ["order"]);
    for (const g of graphs) {
      if (!g.belongsTo(this)) throw new GraphError("bad-plan", "graph: belongs to another engine");
    }
    const reservation = new Reservation(this.#reservationHost(options));
    reservation.planAll([...new Set(graphs)]);
    return reservation;
  }

  /** The plan of a graph that is not kept: to look at, with a budget and a seed of your own. */
  planOnly(
    graph: Graph,
    options: PlanOrder & { readonly budget?: number | undefined; readonly seed?: number | undefined } = {},
  ): GraphPlanView {
    this.#alive();
    checkOrder("planOnly", options, ["order", "budget", "seed"]);
    const { budget, seed } = options;
    const settings = { ...this.#settings(), cache: undefined, budget, seed };
    const schedule = this.#sched.schedule(graph, options);
    const { plan, records } = planProgram(this.arena, this.core, schedule, settings);
    this.arena.free(records);
    return plan;
  }

  /** Bytes that {@link reserve} would take for these graphs; nothing is kept. */
  measure(graphs: readonly Graph[]): GraphMemory {
    this.#alive();
    let records = 0;
    const sizes: Sizes[] = [];
    for (const g of graphs) {
      const planned = planProgram(this.arena, this.core, this.#sched.schedule(g), this.#settings());
      this.arena.free(planned.records);
      records += this.arena.regionBytes(recordCount(planned.program) * NODE_BYTES);
      sizes.push(planned.sizes);
    }
    const compute = largest(sizes).map((chunks) => chunks.reduce((sum, n) => sum + n, 0));
    return { records, ...this.#byPlace(compute) };
  }

  /** Bytes that {@link allocate} would take for these leafs. */
  measureLeafs(tensors: readonly Tensor[]): Omit<GraphMemory, "records"> {
    this.#alive();
    const bytes = measureLeafs(tensors, (t) => this.#sched.homeOf(t));
    return this.#byPlace(this.devices.map((b) => bytes.get(b) ?? 0));
  }

  #byPlace(bytes: readonly number[]): Omit<GraphMemory, "records"> {
    const isHere = (b: number): boolean => this.devices[b] instanceof CpuBackend;
    const here = bytes.reduce((sum, n, b) => sum + (isHere(b) ? n : 0), 0);
    const devices = bytes.flatMap((n, b) =>
      isHere(b) || n === 0 ? [] : [{ name: this.devices[b]!.name, bytes: n }],
    );
    return { arena: here === 0 && devices.length > 0 ? 0 : this.arena.regionBytes(here), devices };
  }

  /** Decides where leafs of these graphs, which have no memory yet, will have it. */
  settle(graphs: readonly Graph[]): void {
    this.#alive();
    if (this.devices.length > 1) for (const g of graphs) this.#sched.schedule(g);
  }

  /** See {@link probe}. */
  async probe(bytes: readonly DeviceBytes[]): Promise<void> {
    this.#alive();
    await probe(this.devices, bytes);
  }

  /** Runs a planned graph once; see {@link Graph.compute}. */
  async compute(graph: Graph, options: ComputeOptions): Promise<void> {
    this.#alive();
    const reservation = this.#graphs.get(graph);
    if (reservation === undefined) throw new GraphError("not-planned", "graph: plan() it before compute()");
    try {
      await reservation.run(graph, options);
    } catch (error) {
      await this.recover();
      throw error;
    }
  }

  /** Looks for devices that were lost: their memory is forgotten, and one more is opened, once. */
  async recover(): Promise<void> {
    this.#noticeLoss();
    await this.#deviceSet.reopenLost();
  }

  // All that was in the memory of a device that is gone has no place any more.
  #noticeLoss(): void {
    for (const { lost, bufferType } of this.devices) {
      if (lost === undefined) continue;
      for (const memory of this.#allocations) memory.lose(bufferType);
      this.#weights.dropLost();
    }
  }

  /**
   * Gives back the memory of a graph's plan and of the weights it made: at once, or when runs under way have ended and
   * no other planned graph reads the weights.
   */
  release(graph: Graph): void {
    this.#unplan(graph);
    this.#weights.leave(graph);
  }

  #unplan(graph: Graph): void {
    this.#graphs.get(graph)?.remove(graph);
    this.#graphs.delete(graph);
  }

  #reservationHost(options: PlanOrder): ReservationHost {
    return {
      enter: (graph, reservation) => {
        if (!graph.belongsTo(this)) throw new GraphError("bad-plan", "graph: belongs to another engine");
        this.#unplan(graph);
        this.#graphs.set(graph, reservation);
      },
      prepare: (graphs, reserved) => this.#prepareAll(graphs, reserved, options),
      alloc: (b, nBytes) => allocBuffer(this.devices[b]!, nBytes, "compute"),
      isOf: (b, buffer) => this.devices[b]!.bufferType === buffer.type,
      bind: (planned, buffers) => this.#bind(planned, buffers),
      exclusive: (run) => this.#exclusive(run),
      drop: (planned) => this.#drop(planned),
      grown: (from, to, graphs) => this.#grown(from, to, graphs),
    };
  }

  #bind(planned: PlannedProgram, buffers: Buffers): Executable {
    bindProgram(this.arena, planned, buffers, startOf);
    const { splits } = planned.schedule;
    const executables = splits.map(({ backend }, i) =>
      this.devices[backend]!.compile(planned.splits[i]!, buffers[backend]!),
    );
    return executables.length === 1 ? executables[0]! : new MixedExecutable(splits, executables);
  }

  #exclusive(run: () => Promise<void>): Promise<void> {
    const result = this.#tail.then(run, run);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  #grown(from: number, to: number, graphs: number): void {
    this.#logger?.info?.(`plan: the compute buffer grows from ${from} to ${to} bytes; ${graphs} graphs move`);
    this.#logger?.onEvent?.({ type: "grow", from, to, graphs });
  }

  #drop(planned: PlannedProgram): void {
    this.arena.free(planned.records);
    this.#weights.leave(planned);
  }

  /** Runs `f` when the engine is disposed. */
  onDispose(f: () => void): void {
    this.#onDispose.push(f);
  }

  /** Ends the threads and lets go of the memory. May be called twice; later use throws. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const f of this.#onDispose) f();
    for (const reservation of this.#graphs.values()) reservation.end();
    this.#graphs.clear();
    this.#deviceSet.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #prepareAll(
    graphs: readonly Graph[],
    reserved: readonly PlannedProgram[],
    options: PlanOrder,
  ): readonly PlannedProgram[] {
    this.#alive();
    this.#noticeLoss();
    const planned: PlannedProgram[] = [];
    try {
      for (const g of graphs) planned.push(this.#prepare(g, reserved, options));
      checkOwners(planned);
      return planned;
    } catch (error) {
      for (const p of planned) this.#drop(p);
      throw error;
    }
  }

  // Weights made by g.weight() get their buffer on the first plan and keep it.
  #prepare(graph: Graph, reserved: readonly PlannedProgram[], options: PlanOrder): PlannedProgram {
    const schedule = this.#sched.schedule(graph, options);
    const weights = schedule.program.leafs.filter((t) => (t.flags & Flag.EXTERNAL) !== 0);
    const fresh = weights.filter((t) => t.placement === undefined);
    if (fresh.length > 0) this.#addWeights(graph, fresh);
    const settings = this.#settings();
    const planned = planProgram(
      this.arena,
      this.core,
      schedule,
      settings,
      reserved.map((p) => p.stored),
    );
    this.#weights.use(planned);
    return planned;
  }

  #settings(): PlanSettings {
    return {
      backends: this.devices,
      addressOf,
      cache: this.#plans,
      made: (nTensors, nBytes, ms) => {
        this.#logger?.debug?.(`plan: ${nTensors} tensors in ${nBytes} bytes, ${ms.toFixed(2)} ms`);
        this.#logger?.onEvent?.({ type: "plan", nTensors, nBytes });
      },
    };
  }

  #addWeights(graph: Graph, tensors: readonly Tensor[]): void {
    if (this.#weights.has(graph)) {
      throw new GraphError("bad-plan", "graph: weights added after the first plan; make them before it", {
        actual: tensors.map((t) => t.name),
      });
    }
    this.#weights.add(graph, tensors, this.allocate(tensors, "weights"));
  }

  #alive(): void {
    if (this.#disposed) throw new GraphError("disposed", "engine: disposed");
  }
}

// A plan fixes the place of each of its tensors, so no tensor but a weight can be in two plans.
function checkOwners(planned: readonly PlannedProgram[]): void {
  const seen = new Set<Tensor>();
  for (const { program } of planned) {
    for (const t of tensorsOf(program)) {
      if ((t.flags & Flag.EXTERNAL) !== 0 || t.viewSrc !== undefined) continue;
      if (!seen.has(t) && t.placement === undefined) {
        seen.add(t);
        continue;
      }
      throw new GraphError(
        "bad-plan",
        `${t.label()}: planned in another graph too; only weights can be shared`,
        {
          tensor: t.name,
        },
      );
    }
  }
}

function checkOrder(what: string, options: PlanOrder, known: readonly string[]): void {
  checkOptions(what, options, known);
  const { order = "graph" } = options;
  if (order === "graph" || order === "memory") return;
  throw new GraphError("bad-param", `${what}: order is "${String(order)}", expected "graph" or "memory"`, {
    actual: order,
  });
}

// Address in linear memory; undefined for memory of another device.
function startOf(memory: Memory): number | undefined {
  return memory instanceof CpuBuffer ? memory.address : undefined;
}

function addressOf(t: Tensor): number | undefined {
  const at = t.placement;
  const start = at === undefined ? undefined : startOf(at.memory);
  return start === undefined ? undefined : start + at!.offset;
}
