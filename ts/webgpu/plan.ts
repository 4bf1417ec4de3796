// A compiled program: its dispatches, their parameters and bind groups, made once and encoded again for each run.

import { Op } from "../../assembly/abi.ts";
import { DeviceError, GraphError } from "../errors.ts";
import type { ProgramNode } from "../graph/program.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Planned } from "../runtime/backend.ts";
import { nelements } from "../shape.ts";
import { bindOperands, type Place, type Window } from "./binding.ts";
import { GpuBuffer } from "./buffer.ts";
import type { GpuDevice, GpuMemory } from "./device.ts";
import { FAULT_BYTES, type Faults } from "./faults.ts";
import { HostIds, idsOf } from "./ids.ts";
import { type Bind, type Dispatch, MAX_DISPATCH_PARAMS } from "./kernel.ts";
import { type Job, mergeRuns } from "./merge.ts";
import { MAX_JOBS, packSlot, SLOT_WORDS } from "./module.ts";
import { accessOf, type Pipelines } from "./pipeline.ts";

const UNIFORM_COPY_DST = 0x48; // GPUBufferUsage
const SLOT_BYTES = 4 * SLOT_WORDS;
const MAX_GRID = 65535;

/** One dispatch, or several that run as one, ready to be encoded. */
interface Step extends Job {
  readonly node: number;
  readonly jobs: number;
  readonly group: GPUBindGroup;
  /** offset of its slot in the parameter buffer, as setBindGroup wants it */
  readonly slot: Uint32Array;
  readonly x: number;
  readonly y: number;
  pipeline: GPUComputePipeline | undefined;
}

/** What a node runs, and its bytes of scratch. */
export interface Runs {
  readonly dispatches: readonly Dispatch[];
  readonly scratch: number;
}

/** A node to be run, and its bytes of scratch. */
interface Work {
  readonly node: ProgramNode;
  readonly index: number;
  readonly scratch: number;
}

/** Workgroups in two dimensions. */
export function gridOf(groups: number): readonly [x: number, y: number] {
  if (groups <= MAX_GRID) return [groups, 1];
  const y = Math.ceil(groups / MAX_GRID);
  return [Math.ceil(groups / y), y];
}

/** True for nodes that run nothing: views, and results without elements. */
export function isSilent({ op, ne }: Tensor): boolean {
  return op <= Op.TRANSPOSE || nelements(ne) === 0;
}

/** Dispatches of a program whose tensors have their places. */
export class GpuPlan {
  /** what a whole run encodes */
  readonly steps: readonly Step[];
  /** the same, each dispatch by itself: for runs of a part */
  readonly #single: readonly Step[];
  readonly #gpu: GpuDevice;
  readonly #pipelines: Pipelines;
  readonly #params: GPUBuffer;
  /** rejects when there is no memory for the parameters */
  readonly #ready: Promise<void>;
  readonly #paramsGroup: GPUBindGroup;
  readonly #compute: readonly GPUBuffer[];
  readonly #planned: Planned;
  readonly #faults: Faults;
  /** numbers of the nodes that may note a bad id */
  readonly #sites: number[] = [];
  readonly #ids: HostIds;
  /** index of the first step of each node, and the number of steps */
  readonly #first: number[] = [];
  #disposed = false;

  /** @throws {DeviceError} unsupported, device-lost */
  constructor(
    gpu: GpuDevice,
    pipelines: Pipelines,
    runs: (node: ProgramNode) => Runs,
    planned: Planned,
    compute: readonly GpuBuffer[],
  ) {
    this.#gpu = gpu;
    this.#pipelines = pipelines;
    this.#planned = planned;
    this.#compute = compute.map((b) => b.memory);
    this.#faults = compute[0]!.type.faults;
    const groups = new BindGroups(gpu, pipelines);
    const slots: Uint8Array<ArrayBuffer>[] = [];
    const steps: Step[] = [];
    planned.program.nodes.forEach((node, index) => {
      this.#first.push(steps.length);
      if (isSilent(node.tensor)) return;
      const { dispatches, scratch } = runs(node);
      const work = { node, index, scratch };
      steps.push(...dispatches.map((d) => this.#step(d, work, groups, slots)));
    });
    this.#first.push(steps.length);
    this.#ids = new HostIds(planned.program);
    this.#single = steps;
    this.steps = merged(steps);
    ({ buffer: this.#params, ready: this.#ready } = this.#parameters(slots));
    this.#paramsGroup = gpu.device.createBindGroup({
      layout: pipelines.paramsLayout,
      entries: [{ binding: 0, resource: { buffer: this.#params, size: MAX_JOBS * SLOT_BYTES } }],
    });
    gpu.counts.bindGroups++;
  }

  #parameters(slots: readonly Uint8Array<ArrayBuffer>[]): GpuMemory {
    const size = (slots.length + MAX_JOBS) * SLOT_BYTES; // a binding at the last slot shows this much
    const memory = this.#gpu.createBuffer(size, UNIFORM_COPY_DST, "parameters");
    const bytes = new Uint8Array(size);
    slots.forEach((slot, i) => bytes.set(slot, i * SLOT_BYTES));
    this.#gpu.device.queue.writeBuffer(memory.buffer, 0, bytes);
    return memory;
  }

  #step(dispatch: Dispatch, work: Work, groups: BindGroups, slots: Uint8Array<ArrayBuffer>[]): Step {
    const { node, index } = work;
    if (dispatch.params.length > MAX_DISPATCH_PARAMS) {
      throw new DeviceError("unsupported", `webgpu: ${dispatch.label}: ${dispatch.params.length} parameters`);
    }
    const places = dispatch.bind.map((b) => this.#place(b, work));
    const { pattern, windows, starts } = bindOperands(dispatch, places, this.#gpu.caps.maxBinding);
    const { maxStorageBuffersPerShaderStage: most } = this.#gpu.device.limits;
    if (windows.length > most) {
      throw new DeviceError("unsupported", `webgpu: ${dispatch.label}: ${windows.length} windows`, {
        expected: most,
        actual: windows.length,
      });
    }
    const slot = new Uint8Array(SLOT_BYTES);
    const site = dispatch.bind.some((b) => b.of === "fault") ? this.#site(node, index) : 0;
    const at = starts.map((start, i) => (dispatch.bind[i]!.of === "fault" ? site : start));
    packSlot(dispatch, at, new DataView(slot.buffer));
    const [x, y] = gridOf(dispatch.groups);
    const group = groups.get(accessOf(pattern), windows);
    const offset = Uint32Array.of(slots.length * SLOT_BYTES);
    slots.push(slot);
    return {
      node: index,
      jobs: 1,
      dispatch,
      pattern,
      group,
      places,
      slot: offset,
      x,
      y,
      pipeline: undefined,
    };
  }

  #site(node: ProgramNode, index: number): number {
    const site = this.#faults.add({ node: index, tensor: node.tensor, rows: idsOf(node)!.rows });
    this.#sites.push(site);
    return site;
  }

  #place({ of, offset = 0, bytes }: Bind, { node: { tensor, src }, index, scratch }: Work): Place {
    if (of === "scratch") {
      const at = this.#planned.scratch(index)!;
      const memory = this.#compute[at.chunk]!;
      return { memory, start: at.offset + offset, bytes: bytes ?? scratch - offset };
    }
    if (of === "fault") return { memory: this.#faults.memory, start: 0, bytes: FAULT_BYTES };
    const t = of === "dst" ? tensor : src[of]!;
    const at = t.placement;
    if (!(at?.memory instanceof GpuBuffer)) {
      throw new GraphError("bad-source", `${t.label()}: does not lie in memory of the GPU`, {
        tensor: t.name,
      });
    }
    return { memory: at.memory.memory, start: at.offset + offset, bytes: bytes ?? t.nBytes - offset };
  }

  /** Steps that run nodes [first, last). */
  stepsOf(first: number, last: number): readonly Step[] {
    const whole = first === 0 && last === this.#first.length - 1;
    return whole ? this.steps : this.#single.slice(this.#first[first], this.#first[last]);
  }

  /**
   * Looks at the ids of nodes [first, last) that the host wrote.
   *
   * @throws {DeviceError} trap
   */
  checkIds(first: number, last: number): void {
    this.#ids.check(first, last);
  }

  /**
   * Makes the pipelines that are missing, all at once.
   *
   * @throws {DeviceError} bad-shader, out-of-memory, device-lost
   */
  async prepare(steps: readonly Step[]): Promise<void> {
    const missing = steps.filter((s) => s.pipeline === undefined);
    if (missing.length === 0) return;
    await this.#ready;
    const made = await Promise.all(missing.map((s) => this.#pipelines.get(s.dispatch, s.pattern, s.jobs)));
    missing.forEach((s, i) => (s.pipeline = made[i]!));
  }

  /** Encodes and submits steps [first, last) of a list; all must be prepared. */
  submit(steps: readonly Step[], first: number, last: number): void {
    this.#gpu.check();
    if (this.#disposed) throw new GraphError("disposed", "graph: its plan was given back while it ran");
    const encoder = this.#gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    let pipeline: GPUComputePipeline | undefined;
    let group: GPUBindGroup | undefined;
    for (let i = first; i < last; i++) {
      const step = steps[i]!;
      if (step.pipeline !== pipeline) pass.setPipeline((pipeline = step.pipeline!));
      pass.setBindGroup(0, this.#paramsGroup, step.slot, 0, 1);
      if (step.group !== group) pass.setBindGroup(1, (group = step.group));
      pass.dispatchWorkgroups(step.x, step.y);
    }
    pass.end();
    this.#gpu.device.queue.submit([encoder.finish()]);
    this.#gpu.counts.submits++;
    this.#gpu.counts.dispatches += last - first;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#gpu.destroyBuffer(this.#params);
    for (const site of this.#sites) this.#faults.remove(site);
    this.#ids.dispose();
  }
}

// Steps with those put together that may run as one.
function merged(steps: readonly Step[]): Step[] {
  const firsts = mergeRuns(steps);
  return firsts.map((first, i) => {
    const run = steps.slice(first, firsts[i + 1] ?? steps.length);
    if (run.length === 1) return run[0]!;
    const [x, y] = gridOf(run.reduce((n, s) => n + s.dispatch.groups, 0));
    return { ...run[0]!, jobs: run.length, x, y };
  });
}

/** Bind groups of one plan by what they show. */
class BindGroups {
  readonly #gpu: GpuDevice;
  readonly #pipelines: Pipelines;
  readonly #ids = new Map<GPUBuffer, number>();
  readonly #made = new Map<string, GPUBindGroup>();

  constructor(gpu: GpuDevice, pipelines: Pipelines) {
    this.#gpu = gpu;
    this.#pipelines = pipelines;
  }

  get(access: string, windows: readonly Window[]): GPUBindGroup {
    const key = `${access} ${windows.map((w) => `${this.#id(w.memory)}+${w.offset}:${w.size}`).join(" ")}`;
    let group = this.#made.get(key);
    if (group === undefined) {
      group = this.#gpu.device.createBindGroup({
        layout: this.#pipelines.layout(access),
        entries: windows.map(({ memory, offset, size }, binding) => ({
          binding,
          resource: { buffer: memory, offset, size },
        })),
      });
      this.#gpu.counts.bindGroups++;
      this.#made.set(key, group);
    }
    return group;
  }

  #id(memory: GPUBuffer): number {
    const id = this.#ids.get(memory) ?? this.#ids.size;
    this.#ids.set(memory, id);
    return id;
  }
}
