// The GPU as a backend: which nodes it takes, and programs compiled for it.

import type { Program, ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Backend, Executable, Planned } from "../runtime/backend.ts";
import { GpuBufferType } from "./buffer.ts";
import { GpuDevice, type GpuOptions, openDevice } from "./device.ts";
import type { Bind, Dispatch, Kernels } from "./kernel.ts";
import { KERNELS } from "./kernels/index.ts";
import { Pipelines } from "./pipeline.ts";
import { GpuPlan, isSilent } from "./plan.ts";

/** Dispatches in one submit: the GPU starts early, and no submit takes long enough for a watchdog. */
const BATCH = 48;
/** Submits under way at most; more wait. */
const IN_FLIGHT = 8;

/**
 * Opens the GPU as a backend.
 *
 * @throws {DeviceError} no-webgpu with the reason
 */
export async function openWebGpu(options: GpuOptions = {}): Promise<GpuBackend> {
  return new GpuBackend(await openDevice(options));
}

class GpuExecutable implements Executable {
  readonly #backend: GpuBackend;
  readonly #plan: GpuPlan;

  constructor(backend: GpuBackend, plan: GpuPlan) {
    this.#backend = backend;
    this.#plan = plan;
  }

  run(signal?: AbortSignal): Promise<void> {
    return this.#backend.exclusive(() => this.#run(signal));
  }

  async #run(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await this.#backend.gpu.settled();
    await this.#plan.prepare();
    const n = this.#plan.steps.length;
    for (let first = 0; first < n; first += BATCH) {
      await this.#backend.turn();
      signal?.throwIfAborted();
      this.#plan.submit(first, Math.min(n, first + BATCH));
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
  #tail: Promise<unknown> = Promise.resolve();
  #submitted = 0;
  #done: Promise<unknown> = Promise.resolve();

  constructor(gpu: GpuDevice, kernels: Kernels = KERNELS) {
    this.gpu = gpu;
    this.#kernels = kernels;
    this.bufferType = new GpuBufferType(gpu);
    this.#pipelines = new Pipelines(gpu);
  }

  supportsOp(tensor: Tensor, src: readonly (Tensor | undefined)[]): boolean {
    if (isSilent(tensor)) return true;
    const kernel = this.#kernels[tensor.op];
    const node = { tensor, src };
    if (kernel === undefined || !kernel.supports(node, this.gpu.caps)) return false;
    return kernel.dispatches(node, this.gpu.caps).every((d) => this.#fits(d, node));
  }

  #fits(dispatch: Dispatch, node: ProgramNode): boolean {
    return dispatch.bind.every((b) => bytesOf(b, node) <= this.gpu.caps.maxBinding);
  }

  /** Kernels read activations as they are: nothing is rewritten. */
  lower(program: Program): Program {
    return program;
  }

  compile({ program }: Planned): Executable {
    this.gpu.check();
    return new GpuExecutable(this, new GpuPlan(this.gpu, this.#pipelines, this.#kernels, program.nodes));
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
    this.bufferType.readback.dispose();
    this.bufferType.patch.dispose();
    this.gpu.dispose();
  }
}

function bytesOf({ of, offset = 0, bytes }: Bind, { tensor, src }: ProgramNode): number {
  if (bytes !== undefined) return bytes;
  if (of === "scratch") return 0;
  const t = of === "dst" ? tensor : src[of];
  return (t?.nBytes ?? 0) - offset;
}
