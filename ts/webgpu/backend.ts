// The GPU as a backend: which nodes it takes, and programs compiled for it.

import { type DeviceError, GraphError } from "../errors.ts";
import { ALL_FUSIONS, type Fusions } from "../graph/fusion.ts";
import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type {
  Backend,
  Buffer,
  Costs,
  DeviceUse,
  Executable,
  Planned,
  VerdictStore,
} from "../runtime/backend.ts";
import { GpuBuffer, GpuBufferType } from "./buffer.ts";
import { fullName, type GpuDevice } from "./device.ts";
import type { Bind, Caps, Dispatch, GpuKernel, Kernels } from "./kernel.ts";
import { fuse } from "./fuse.ts";
import { kernelFor } from "./kernels/fused.ts";
import { KERNELS } from "./kernels/index.ts";
import { lowerForGpu } from "./lower.ts";
import { Pipelines } from "./pipeline.ts";
import { GpuPlan, isSilent, type Runs } from "./plan.ts";
import { KeptVerdicts } from "./selftest/kept.ts";
import { SelfTest } from "./selftest/selftest.ts";

/** Dispatches in one submit: the GPU starts early, and no submit takes long enough for a watchdog. */
const BATCH = 48;
/** Submits under way at most; more wait. */
const IN_FLIGHT = 8;

class GpuExecutable implements Executable {
  readonly #backend: GpuBackend;
  readonly #plan: GpuPlan;

  readonly #nNodes: number;
  readonly #ready: Promise<void>;

  constructor(backend: GpuBackend, plan: GpuPlan, nNodes: number, ready: Promise<void>) {
    this.#backend = backend;
    this.#plan = plan;
    this.#nNodes = nNodes;
    this.#ready = ready;
  }

  run(signal?: AbortSignal, first = 0, last: number = this.#nNodes): Promise<void> {
    return this.#backend.exclusive(() => this.#run(signal, first, last));
  }

  async #run(signal: AbortSignal | undefined, first: number, last: number): Promise<void> {
    signal?.throwIfAborted();
    await this.#ready;
    this.#plan.checkIds(first, last);
    const steps = this.#plan.stepsOf(first, last);
    await this.#plan.prepare(steps);
    for (let at = 0; at < steps.length; at += BATCH) {
      await this.#backend.turn();
      signal?.throwIfAborted();
      this.#plan.submit(steps, at, Math.min(steps.length, at + BATCH));
    }
  }

  dispose(): void {
    this.#plan.dispose();
  }
}

/** A GPU as a device. */
export class GpuBackend implements Backend {
  readonly name = "webgpu";
  readonly gpu: GpuDevice;
  readonly bufferType: GpuBufferType;
  readonly #kernels: Kernels;
  readonly #pipelines: Pipelines;
  readonly #selfTest: SelfTest;
  readonly costs: Costs;
  readonly #fusions: Fusions;
  /** dispatches of more operands than the device binds, and what is said of them */
  readonly #wide = new Map<string, string>();
  #tail: Promise<unknown> = Promise.resolve();
  #submitted = 0;
  #done: Promise<unknown> = Promise.resolve();

  /** @param verdicts where verdicts on kernels are kept between processes */
  constructor(
    gpu: GpuDevice,
    kernels: Kernels = KERNELS,
    fusions: Fusions = ALL_FUSIONS,
    verdicts?: VerdictStore,
  ) {
    this.gpu = gpu;
    this.#kernels = kernels;
    this.#fusions = fusions;
    this.bufferType = new GpuBufferType(gpu);
    this.#pipelines = new Pipelines(gpu);
    this.#selfTest = new SelfTest(
      this,
      (node) => this.#dispatchesOf(node),
      verdicts && new KeptVerdicts(verdicts, fullName(gpu.device.adapterInfo)),
    );
    this.costs = { speed: gpu.adapter.software ? 0.1 : 10, roundTripMs: 4 };
  }

  get lost(): DeviceError | undefined {
    return this.gpu.failure;
  }

  supportsOp(tensor: Tensor, src: readonly (Tensor | undefined)[]): boolean {
    return isSilent(tensor) || this.#isTrusted({ tensor, src });
  }

  #isTrusted(node: ProgramNode): boolean {
    const dispatches = this.#dispatchesOf(node);
    return dispatches?.every((d) => this.#selfTest.reason(d.key) === undefined) === true;
  }

  // What a node runs; undefined when there is no kernel that can.
  #dispatchesOf(node: ProgramNode): readonly Dispatch[] | undefined {
    if (isSilent(node.tensor)) return [];
    const kernel = kernelFor(node, this.#kernels);
    if (kernel === undefined) return undefined;
    const caps = this.#capsOf(node, kernel);
    if (!kernel.supports(node, caps)) return undefined;
    const dispatches = kernel.dispatches(node, caps);
    return dispatches.every((d) => this.#fits(d, node)) ? dispatches : undefined;
  }

  // What a node's kernel may use: no f16 where the one with it failed its test.
  #capsOf(node: ProgramNode, kernel: GpuKernel): Caps {
    const { caps } = this.gpu;
    if (!caps.f16 || this.#selfTest.refused().size === 0 || !kernel.supports(node, caps)) return caps;
    const refused = kernel
      .dispatches(node, caps)
      .some((d) => d.enable?.includes("f16") === true && this.#selfTest.reason(d.key) !== undefined);
    return refused ? { ...caps, f16: false } : caps;
  }

  /** Compares kernels that were not tested yet with the CPU's; those that fail are refused from now on. */
  async prepare(program: Program, signal?: AbortSignal): Promise<void> {
    const fused = fuse(
      program,
      new Set(),
      (node) => this.#dispatchesOf(node) !== undefined,
      this.#fusions,
    ).nodes;
    await this.#selfTest.test(
      [...program.nodes, ...fused.filter((node) => node.fused !== undefined)],
      signal,
    );
  }

  held(): DeviceUse {
    return this.gpu.held();
  }

  /** Kernels refused by their self-test or for having too many operands, and why. */
  refused(): ReadonlyMap<string, string> {
    return new Map([...this.#selfTest.refused(), ...this.#wide]);
  }

  // In the worst of places each operand lies in a window of its own.
  #fits({ bind, label }: Dispatch, node: ProgramNode): boolean {
    const most = this.gpu.device.limits.maxStorageBuffersPerShaderStage;
    if (bind.length > most)
      this.#wide.set(label, `${bind.length} operands; the device binds ${most} at once`);
    return bind.length <= most && bind.every((b) => this.#bytesOf(b, node) <= this.gpu.caps.maxBinding);
  }

  #bytesOf({ of, offset = 0, bytes }: Bind, node: ProgramNode): number {
    if (bytes !== undefined) return bytes;
    if (of === "fault") return 0;
    if (of === "scratch") return this.scratch(node) - offset;
    const t = of === "dst" ? node.tensor : node.src[of];
    return (t?.nBytes ?? 0) - offset;
  }

  /** Kernels read activations as they are: nodes change places, and pairs of them become one. */
  lower(program: Program, kept: ReadonlySet<Tensor>): Program {
    return fuse(lowerForGpu(program), kept, (node) => this.#isTrusted(node), this.#fusions);
  }

  inPlace(node: ProgramNode): boolean {
    return kernelFor(node, this.#kernels)?.inPlace !== false;
  }

  scratch(node: ProgramNode): number {
    if (isSilent(node.tensor)) return 0;
    const kernel = kernelFor(node, this.#kernels);
    return kernel?.scratch?.(node, this.#capsOf(node, kernel)) ?? 0;
  }

  compile(planned: Planned, buffers: readonly Buffer[]): Executable {
    this.gpu.check();
    const compute = buffers.filter((b) => b instanceof GpuBuffer);
    if (compute.length < buffers.length) throw new GraphError("bad-plan", "webgpu: memory of another device");
    const runs = (node: ProgramNode): Runs => ({
      dispatches: this.#dispatchesOf(node)!,
      scratch: this.scratch(node),
    });
    const plan = new GpuPlan(this.gpu, this.#pipelines, runs, planned, compute);
    return new GpuExecutable(this, plan, planned.program.nodes.length, allReady(compute));
  }

  /** One run at a time: graphs may share a compute buffer. */
  exclusive(run: () => Promise<void>): Promise<void> {
    const result = this.#tail.then(run, run);
    this.#tail = result.catch(() => undefined);
    return result;
  }

  /** Waits for work that was submitted long ago, so that little is under way at any time. */
  async turn(): Promise<void> {
    if (++this.#submitted % IN_FLIGHT !== 0) return;
    const before = this.#done;
    this.#done = this.gpu.device.queue.onSubmittedWorkDone().catch(() => undefined);
    await before;
    this.gpu.check();
  }

  /** Ends the device and forgets its memory. */
  dispose(): void {
    this.bufferType.dispose();
    this.gpu.dispose();
  }
}

// Nobody has to wait for it.
function allReady(buffers: readonly Buffer[]): Promise<void> {
  const ready = Promise.all(buffers.map((b) => b.ready)).then(() => undefined);
  ready.catch(() => undefined);
  return ready;
}
