// An engine whose graphs all run on one GPU.
import { Engine } from "../ts/runtime/engine.ts";
import { Arena } from "../ts/runtime/arena.ts";
import { compileCore, createMemory, instantiate } from "../ts/runtime/wasm.ts";
import { GpuBackend } from "../ts/webgpu/backend.ts";
import { type GpuOptions, openDevice } from "../ts/webgpu/device.ts";

/** Opens it, with the host's own entry point unless another is given; throws where there is no adapter. */
export async function gpuEngine(options: GpuOptions = {}): Promise<{ engine: Engine; backend: GpuBackend }> {
  const backend = new GpuBackend(await openDevice(options));
  return { engine: await engineOver(backend), backend };
}

/** An engine whose graphs all run on a backend. */
export async function engineOver(backend: GpuBackend): Promise<Engine> {
  const core = await compileCore(undefined, false);
  const { memory, maxPages } = createMemory(32, false, 65536);
  const exports = instantiate(core.module, memory);
  const arena = new Arena(memory, maxPages * 65536, exports);
  return new Engine({ build: core.build, vectors: 128, core: exports, arena }, [backend]);
}
