// The CPU side of an engine: the core, its memory, its threads.

import { CPU_ALIGN, CTRL_VECTORS } from "../../assembly/abi.ts";
import { readFusions } from "../graph/fusion.ts";
import { Arena } from "./arena.ts";
import { CpuBackend } from "./cpu.ts";
import type { WasmMemory, WasmModule } from "./instance.ts";
import { type EngineOptions, PAGE, START_PAGES } from "./options.ts";
import { rehearse } from "./rehearsal.ts";
import { defaultThreads, dismiss, hire, reportedCores, ThreadPool, whyAlone } from "./threads.ts";
import { type VectorBits, widenVectors } from "./vectors.ts";
import { compileCore, type Core, createMemory, type Exports, instantiate } from "./wasm.ts";

/** Parts of an engine. */
export interface EngineParts {
  /** which build of the core it is */
  readonly build: Core["build"];
  /** what its kernels are shaped for */
  readonly vectors: VectorBits;
  readonly core: Exports;
  readonly arena: Arena;
  /** makes parts of one thread on the same compiled core, with memory of their own: so many bytes at most */
  readonly aside?: ((maxMemory: number) => CpuParts) | undefined;
}

/** Those of the CPU. */
export type CpuParts = EngineParts & { readonly cpu: CpuBackend };

/**
 * Starts the threads, compiles the core meanwhile, takes memory.
 *
 * @throws {DeviceError} no-simd, bad-wasm, wasm-blocked, out-of-memory
 */
export async function startCpu(options: EngineOptions): Promise<CpuParts> {
  const { nThreads, logger, maxMemory = 65536 * PAGE } = options;
  const vectors = options.vectors === 256 ? widenVectors() : 128;
  const wanted = nThreads ?? defaultThreads(reportedCores());
  const alone = wanted > 1 ? whyAlone() : undefined;
  if (alone !== undefined) logger?.warn?.(`${alone}: one thread`);
  const shared = wanted > 1 && alone === undefined;
  const crew = hire(shared ? wanted : 1, options.workerUrl);
  try {
    const { module, build } = await compileCore(options.wasm, shared);
    const fusions = readFusions(options.fuse);
    const home = (most: number): Home => homeOf(module, shared, vectors, most);
    const { memory, core, arena } = home(maxMemory);
    const warn = (message: string): void => logger?.warn?.(message);
    const pool = ThreadPool.start({ module, memory, core, warn }, crew);
    rehearse({ memory, exports: core });
    const cpu = new CpuBackend(arena, await pool, CPU_ALIGN, fusions);
    const aside = (most: number): CpuParts => {
      const own = home(most);
      const alone = ThreadPool.single({ module, memory: own.memory, core: own.core });
      return { build, vectors, ...own, cpu: new CpuBackend(own.arena, alone, CPU_ALIGN, fusions) };
    };
    return { build, vectors, core, arena, cpu, aside };
  } catch (error) {
    dismiss(crew);
    throw error;
  }
}

/** An instance of the core and its memory. */
interface Home {
  readonly memory: WasmMemory;
  readonly core: Exports;
  readonly arena: Arena;
}

function homeOf(module: WasmModule, shared: boolean, vectors: VectorBits, maxMemory: number): Home {
  const pages = Math.min(65536, Math.floor(maxMemory / PAGE));
  const { memory, maxPages } = createMemory(START_PAGES, shared, pages);
  const core = instantiate(module, memory);
  core.probeDot();
  if (vectors === 256) new Int32Array(memory.buffer)[CTRL_VECTORS / 4] = vectors;
  return { memory, core, arena: new Arena(memory, maxPages * PAGE, core) };
}
