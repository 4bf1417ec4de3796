// Pipelines of a device: made once per kernel and pattern of operands, errors with the source that caused them.

import { DeviceError } from "../errors.ts";
import type { GpuDevice } from "./device.ts";
import type { Dispatch } from "./kernel.ts";
import { MAX_JOBS, moduleSource, type Pattern, patternKey, SLOT_WORDS } from "./module.ts";

const COMPUTE = 4; // GPUShaderStage.COMPUTE: Node has no such global

/** The pipelines of one device. */
export class Pipelines {
  readonly #gpu: GpuDevice;
  readonly #made = new Map<string, Promise<GPUComputePipeline>>();
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #programLayouts = new Map<string, GPUPipelineLayout>();
  #params: GPUBindGroupLayout | undefined;

  constructor(gpu: GpuDevice) {
    this.#gpu = gpu;
  }

  /** Layout of bind group 0: the parameter buffer with a dynamic offset. */
  get paramsLayout(): GPUBindGroupLayout {
    this.#params ??= this.#gpu.device.createBindGroupLayout({
      entries: [
        {
          binding: 0,
          visibility: COMPUTE,
          buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: 4 * SLOT_WORDS * MAX_JOBS },
        },
      ],
    });
    return this.#params;
  }

  /** Layout of bind group 1: storage bindings, "r" or "w" each. */
  layout(access: string): GPUBindGroupLayout {
    const known = this.#layouts.get(access);
    if (known !== undefined) return known;
    const layout = this.#gpu.device.createBindGroupLayout({
      entries: [...access].map((a, binding) => ({
        binding,
        visibility: COMPUTE,
        buffer: { type: a === "r" ? ("read-only-storage" as const) : ("storage" as const) },
      })),
    });
    this.#layouts.set(access, layout);
    return layout;
  }

  #programLayout(access: string): GPUPipelineLayout {
    const known = this.#programLayouts.get(access);
    if (known !== undefined) return known;
    const layout = this.#gpu.device.createPipelineLayout({
      bindGroupLayouts: [this.paramsLayout, this.layout(access)],
    });
    this.#programLayouts.set(access, layout);
    return layout;
  }

  /**
   * The pipeline of a dispatch whose operands are bound in a pattern, or of several that run as one; made on the first
   * call.
   *
   * @throws {DeviceError} bad-shader with the compiler's message and the numbered source; device-lost
   */
  get(dispatch: Dispatch, pattern: Pattern, jobs: number): Promise<GPUComputePipeline> {
    const key = `${dispatch.key} | ${patternKey(pattern)} | ${jobs}`;
    let made = this.#made.get(key);
    if (made === undefined) {
      made = this.#make(dispatch, pattern, jobs);
      made.catch(() => this.#made.delete(key)); // whoever awaits it hears of it
      this.#made.set(key, made);
    }
    return made;
  }

  async #make(dispatch: Dispatch, pattern: Pattern, jobs: number): Promise<GPUComputePipeline> {
    const { device } = this.#gpu;
    const code = moduleSource(dispatch, pattern, jobs);
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ code, label: dispatch.label });
    const scope = device.popErrorScope();
    const pipeline = device.createComputePipelineAsync({
      label: dispatch.label,
      layout: this.#programLayout(accessOf(pattern)),
      compute: { module, entryPoint: "entry" },
    });
    pipeline.catch(() => undefined); // heard of below, after the module's own error
    const error = await scope.catch(() => null);
    this.#gpu.check();
    if (error !== null) {
      await this.#gpu.newsOfLoss();
      throw await shaderError(dispatch, module, code, error.message);
    }
    try {
      const made = await pipeline;
      this.#gpu.counts.pipelines++;
      return made;
    } catch (cause) {
      await this.#gpu.newsOfLoss();
      throw await shaderError(dispatch, module, code, String(cause));
    }
  }
}

/** "r" or "w" for each storage binding. */
export function accessOf({ bindings }: Pattern): string {
  return bindings.map((b) => (b.writable ? "w" : "r")).join("");
}

const CONTEXT_LINES = 4;

async function shaderError(
  dispatch: Dispatch,
  module: GPUShaderModule,
  code: string,
  message: string,
): Promise<DeviceError> {
  const info = await module.getCompilationInfo().catch(() => undefined);
  const first = info?.messages.find((m) => m.type === "error");
  const lines = code.split("\n").map((l, i) => `${String(i + 1).padStart(4)} ${l}`);
  const at = first?.lineNum ?? 0;
  const shown = at > 0 ? lines.slice(Math.max(0, at - 1 - CONTEXT_LINES), at + CONTEXT_LINES) : lines;
  const what = first === undefined ? message : `line ${at}: ${first.message}`;
  return new DeviceError("bad-shader", `webgpu: ${dispatch.label}: ${what}\n${shown.join("\n")}`, {
    op: dispatch.label,
    actual: dispatch.key,
  });
}
