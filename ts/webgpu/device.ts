// A GPU device: where it comes from, what it can do, what became of it.

import { DeviceError } from "../errors.ts";
import type { DeviceUse } from "../runtime/backend.ts";
import { within } from "../within.ts";
import type { Caps } from "./kernel.ts";

/** Where a device comes from. */
export interface GpuOptions {
  /** an entry point other than navigator.gpu, such as `create([])` of the npm package "webgpu" */
  readonly gpu?: GPU | undefined;
  /** a device of the caller's, who also destroys it */
  readonly device?: GPUDevice | undefined;
  /** leaves WGSL extensions unused even where the adapter has them */
  readonly without?: readonly ("f16" | "subgroups")[] | undefined;
  /** largest binding, bytes; for tests of what lies in windows */
  readonly maxBinding?: number | undefined;
  /** "default": the limits that every WebGPU device has; the adapter's when absent */
  readonly limits?: "default" | undefined;
}

/** Offsets of storage bindings, bytes: the largest minStorageBufferOffsetAlignment there is. */
export const ALIGN = 256;
/** Limits that kernels and buffers profit from. */
const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupStorageSize",
] as const;
const FEATURES = { f16: "shader-f16", subgroups: "subgroups" } as const;
/** Drivers that compute on the CPU, as adapters call them. */
const SOFTWARE = /swiftshader|llvmpipe|lavapipe|softpipe|microsoft basic render|\bwarp\b/i;

/** Longest wait for an adapter, and for its device, ms. */
const ANSWER_MS = 20_000;
/** Longest wait for news of a loss, ms. */
const LOSS_MS = 100;

/** Counters, for reports and tests: what was made so far and what is alive. */
export interface GpuCounts {
  buffers: number;
  /** bytes of buffers made and not yet destroyed */
  liveBytes: number;
  bindGroups: number;
  pipelines: number;
  submits: number;
  dispatches: number;
}

/** A buffer that was asked for. */
export interface GpuMemory {
  readonly buffer: GPUBuffer;
  /** resolves when it is known to exist */
  readonly ready: Promise<void>;
}

/** An adapter, for messages and caches of verdicts. */
export interface AdapterName {
  readonly name: string;
  readonly software: boolean;
}

/** All that is known of an adapter and its driver. */
export function fullName(info: GPUAdapterInfo): string {
  return [info.vendor, info.architecture, info.device, info.description].join(" | ");
}

/** Name of an adapter and whether it is known to compute on the CPU. */
export function adapterName(info: GPUAdapterInfo): AdapterName {
  const parts = [info.vendor, info.architecture, info.device, info.description];
  const name = parts.filter((p, i) => p !== "" && parts.indexOf(p) === i).join(" ");
  const fallback = (info as { readonly isFallbackAdapter?: boolean }).isFallbackAdapter === true;
  return { name: name === "" ? "unnamed adapter" : name, software: fallback || SOFTWARE.test(name) };
}

/**
 * The entry point of WebGPU: navigator.gpu, or in Node the package "webgpu" where the user has installed it.
 *
 * @throws {DeviceError} unsupported
 */
export async function findGpu(): Promise<GPU> {
  const { gpu } = (globalThis as { readonly navigator?: { readonly gpu?: GPU } }).navigator ?? {};
  if (gpu !== undefined && gpu !== null) return gpu;
  const isNode = (globalThis as { readonly process?: { readonly release?: { name?: string } } }).process;
  if (isNode?.release?.name !== "node") {
    throw new DeviceError("unsupported", "webgpu: navigator.gpu is missing here (pages need https)");
  }
  const name = "webgpu"; // out of sight of bundlers: it is the user's, and 130 MB
  try {
    const { create } = (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as {
      create(flags: readonly string[]): GPU;
    };
    return create([]);
  } catch (cause) {
    throw new DeviceError("unsupported", 'webgpu: Node needs the package "webgpu" beside this one', {
      cause,
    });
  }
}

/**
 * Opens a device with all that the adapter offers.
 *
 * @throws {DeviceError} unsupported, with the reason
 */
export async function openDevice(options: GpuOptions = {}): Promise<GpuDevice> {
  if (options.device !== undefined) return new GpuDevice(options.device, undefined, options);
  const gpu = options.gpu ?? (await findGpu());
  let adapter: GPUAdapter | null;
  try {
    adapter = await answered(gpu.requestAdapter({ powerPreference: "high-performance" }), "requestAdapter");
  } catch (cause) {
    throw new DeviceError("unsupported", `webgpu: no adapter: ${String(cause)}`, { cause });
  }
  if (adapter === null) throw new DeviceError("unsupported", "webgpu: there is no adapter");
  const { name } = adapterName(adapter.info);
  try {
    const asked = adapter.requestDevice(wanted(adapter, options));
    const device = await answered(asked, "requestDevice", (late) => late.destroy());
    return new GpuDevice(device, gpu, options);
  } catch (cause) {
    throw new DeviceError("unsupported", `webgpu: ${name} gave no device: ${String(cause)}`, { cause });
  }
}

// A driver that hangs must not keep the engine from starting. What comes too late is given to `drop`.
async function answered<T>(asked: Promise<T>, what: string, drop?: (late: T) => void): Promise<T> {
  try {
    return await within(asked, ANSWER_MS, `${what} did not answer in ${ANSWER_MS / 1000} s`);
  } catch (cause) {
    asked.then(drop, () => undefined);
    throw cause;
  }
}

function wanted(adapter: GPUAdapter, { limits, without = [] }: GpuOptions): GPUDeviceDescriptor {
  const { f16, subgroups } = FEATURES;
  const features = [f16, subgroups].filter((f) => adapter.features.has(f));
  const left = without.map((w) => FEATURES[w] as string);
  const requiredLimits: Record<string, number> = {};
  if (limits !== "default") for (const name of LIMITS) requiredLimits[name] = adapter.limits[name];
  return { requiredFeatures: features.filter((f) => !left.includes(f)), requiredLimits };
}

function capsOf(device: GPUDevice, gpu: GPU | undefined, maxBinding: number = 2 ** 32 - ALIGN): Caps {
  const { limits, features } = device;
  const info = device.adapterInfo as
    { readonly subgroupMinSize?: number; readonly subgroupMaxSize?: number } | undefined;
  const subgroups = features.has(FEATURES.subgroups);
  const known = gpu as { readonly wgslLanguageFeatures?: ReadonlySet<string> } | undefined; // Deno's types lack it
  const language = known?.wgslLanguageFeatures;
  return {
    f16: features.has(FEATURES.f16),
    subgroups,
    subgroupMin: subgroups ? (info?.subgroupMinSize ?? 4) : 1,
    subgroupMax: subgroups ? (info?.subgroupMaxSize ?? 128) : 1,
    dot4: language?.has("packed_4x8_integer_dot_product") === true,
    maxBinding: Math.min(limits.maxStorageBufferBindingSize, maxBinding) - 2 * ALIGN,
    maxInvocations: Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
    maxWorkgroupBytes: limits.maxComputeWorkgroupStorageSize,
  };
}

/** A device, its counters and its end. */
export class GpuDevice {
  readonly device: GPUDevice;
  readonly caps: Caps;
  readonly adapter: AdapterName;
  readonly counts: GpuCounts = {
    buffers: 0,
    liveBytes: 0,
    bindGroups: 0,
    pipelines: 0,
    submits: 0,
    dispatches: 0,
  };
  // Without a reference to it, Node's package ends the device when the object is collected.
  readonly #gpu: GPU | undefined;
  readonly #owned: boolean;
  readonly #onLost: (() => void)[] = [];
  /** bytes alive by the labels of their buffers */
  readonly #held = new Map<string, number>();
  #failure: DeviceError | undefined;
  #disposed = false;

  constructor(device: GPUDevice, gpu: GPU | undefined, options: GpuOptions) {
    this.device = device;
    this.#gpu = gpu;
    this.#owned = options.device === undefined;
    const { gpu: standard } = (globalThis as { readonly navigator?: { readonly gpu?: GPU } }).navigator ?? {};
    this.caps = capsOf(device, gpu ?? standard, options.maxBinding);
    this.adapter = adapterName(device.adapterInfo);
    void device.lost.then(({ message }) => {
      if (!this.#disposed) this.#fail("device-lost", `webgpu: ${this.adapter.name} was lost: ${message}`);
      for (const f of this.#onLost) f();
    });
    device.addEventListener("uncapturederror", (event) => {
      const { error } = event as GPUUncapturedErrorEvent;
      this.#fail("gpu-error", `webgpu: ${error.message}`);
    });
  }

  /** What ended the device or made its results doubtful; undefined while all is well. */
  get failure(): DeviceError | undefined {
    return this.#failure;
  }

  /** The entry point the device came from. */
  get gpu(): GPU | undefined {
    return this.#gpu;
  }

  /**
   * Refuses to go on after a loss or an error.
   *
   * @throws {DeviceError} device-lost, gpu-error, disposed
   */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#disposed) throw new DeviceError("disposed", "webgpu: the device was given back");
  }

  /**
   * To be asked when something failed for no known reason: a loss may be heard of a little later.
   *
   * @throws {DeviceError} as {@link check}
   */
  async newsOfLoss(): Promise<void> {
    const later = new Promise<void>((resolve) => void setTimeout(resolve, LOSS_MS));
    await Promise.race([this.device.lost, later]);
    this.check();
  }

  /** Says that something failed which nobody waits for: results are not to be trusted. */
  doubt(what: string): void {
    this.#fail("gpu-error", `webgpu: ${what}`);
  }

  /** Runs `f` when the device is lost or destroyed. */
  onLost(f: () => void): void {
    this.#onLost.push(f);
  }

  /** A buffer, counted. `ready` rejects with out-of-memory; nobody has to listen. */
  createBuffer(size: number, usage: number, label: string, mappedAtCreation = false): GpuMemory {
    this.check();
    this.device.pushErrorScope("out-of-memory");
    this.device.pushErrorScope("validation");
    const buffer = this.device.createBuffer({ size, usage, label, mappedAtCreation });
    const invalid = this.device.popErrorScope();
    const tooMuch = this.device.popErrorScope();
    const what = `webgpu: ${label} of ${size} bytes`;
    const ready = Promise.all([
      this.#scope(tooMuch, "out-of-memory", what, size),
      this.#scope(invalid, "gpu-error", what, size),
    ]).then(() => undefined);
    ready.catch(() => undefined);
    this.counts.buffers++;
    this.#count(buffer, size);
    return { buffer, ready };
  }

  /** Destroys what {@link createBuffer} made. */
  destroyBuffer(buffer: GPUBuffer): void {
    this.#count(buffer, -buffer.size);
    buffer.destroy();
  }

  #count({ label }: GPUBuffer, nBytes: number): void {
    this.counts.liveBytes += nBytes;
    this.#held.set(label, (this.#held.get(label) ?? 0) + nBytes);
  }

  /** Bytes alive by use. */
  held(): DeviceUse {
    const of = (label: string): number => this.#held.get(label) ?? 0;
    const weights = of("weights");
    const kv = of("kv");
    const compute = of("compute") + of("parameters");
    return { weights, kv, compute, staging: this.counts.liveBytes - weights - kv - compute };
  }

  async #scope(
    scope: Promise<GPUError | null>,
    code: "gpu-error" | "out-of-memory",
    what: string,
    actual: number,
  ): Promise<void> {
    const error = await scope.catch(() => null); // the device was lost: said by check()
    if (error !== null) throw new DeviceError(code, `${what}: ${error.message}`, { actual });
    this.check();
  }

  #fail(code: "device-lost" | "gpu-error", message: string): void {
    if (this.#failure !== undefined && code !== "device-lost") return;
    this.#failure = new DeviceError(code, message);
  }

  /** Ends a device of ours. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    if (this.#owned) this.device.destroy();
  }
}
