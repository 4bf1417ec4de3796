// Engines on the tests' GPU that end together.
import type { Engine } from "../ts/runtime/engine.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { type GpuOptions, openDevice } from "../ts/webgpu/device.ts";
import type { Kernels } from "../ts/webgpu/kernel.ts";
import { engineOver } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";

/** An engine whose graphs all run on one GPU, with its backend. */
export interface OnGpu {
  readonly engine: Engine;
  readonly backend: GpuBackend;
}

/** Opens engines and ends them. */
export class GpuEngines {
  readonly #open: Engine[] = [];

  /** One with the kernels of the backend, or others. */
  async open(options: GpuOptions = {}, kernels?: Kernels): Promise<OnGpu> {
    const backend = new GpuBackend(await openDevice({ gpu: await testGpu(), ...options }), kernels);
    return { engine: this.keep(await engineOver(backend)), backend };
  }

  /** Ends this one with the others. */
  keep(engine: Engine): Engine {
    this.#open.push(engine);
    return engine;
  }

  /** Ends those that are open. */
  dispose(): void {
    for (const engine of this.#open.splice(0)) engine.dispose();
  }
}
