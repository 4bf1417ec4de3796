// The CPU side of an engine: the core, its memory, its threads.

import { CPU_ALIGN } from "../../assembly/abi.ts";
import { DeviceError } from "../errors.ts";
import { readFusions } from "../graph/fusion.ts";
import { Arena } from "./arena.ts";
import { CpuBackend } from "./cpu.ts";
import { type EngineOptions, type Logger, PAGE, START_PAGES } from "./options.ts";
import { rehearse } from "./rehearsal.ts";
import { canShare, defaultThreads, type PoolOptions, reportedCores, ThreadPool } from "./threads.ts";
import { compileCore, type Core, createMemory, type Exports, instantiate } from "./wasm.ts";

/** Parts of an engine. */
export interface EngineParts {
  /** which build of the core it is */
  readonly build: Core["build"];
  readonly core: Exports;
  readonly arena: Arena;
}

/**
 * Compiles the core, takes memory, starts the threads.
 *
 * @throws {DeviceError} no-simd, bad-wasm, wasm-blocked, out-of-memory
 */
export async function startCpu(options: EngineOptions): Promise<EngineParts & { readonly cpu: CpuBackend }> {
  const { nThreads, logger, maxMemory = 65536 * PAGE } = options;
  const wanted = nThreads ?? defaultThreads(reportedCores());
  const shared = wanted > 1 && canShare();
  if (wanted > 1 && !shared) {
    logger?.warn?.("memory cannot be shared here (a page must be cross-origin isolated): one thread");
  }
  const { module, build } = await compileCore(options.wasm, shared);
  const { memory, maxPages } = createMemory(
    START_PAGES,
    shared,
    Math.min(65536, Math.floor(maxMemory / PAGE)),
  );
  const core = instantiate(module, memory);
  core.probeDot();
  const arena = new Arena(memory, maxPages * PAGE, core);
  const pool = startPool(
    { module, memory, core, nThreads: shared ? wanted : 1, workerUrl: options.workerUrl },
    logger,
  );
  rehearse({ memory, exports: core });
  const cpu = new CpuBackend(arena, await pool, CPU_ALIGN, readFusions(options.fuse));
  return { build, core, arena, cpu };
}

async function startPool(options: PoolOptions, logger: Logger | undefined): Promise<ThreadPool> {
  try {
    return await ThreadPool.start(options);
  } catch (error) {
    if (!(error instanceof DeviceError && error.code === "worker-blocked")) throw error;
    logger?.warn?.(`${error.message}: one thread`);
    return ThreadPool.single(options);
  }
}
