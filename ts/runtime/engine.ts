// Starts engines: the CPU always, a device where one is found and wanted.

import type { Backend, OpenDevice } from "./backend.ts";
import { startCpu } from "./cpu_start.ts";
import { findDevice, left, openOnDemand, reasonOf } from "./devices.ts";
import { Engine } from "./graph_host.ts";
import { measureCosts } from "./measure.ts";
import { checkEngineOptions, type EngineOptions } from "./options.ts";

export type { DeviceBytes } from "./allocation.ts";
export { Engine } from "./graph_host.ts";
export type { EngineEvent, EngineOptions, Logger } from "./options.ts";

/**
 * Starts an engine: starts the threads, compiles the core, takes memory, looks for a device.
 *
 * @throws {TypeError} for an unknown option
 * @throws {GraphError} bad-param
 * @throws {DeviceError} no-simd, bad-wasm, wasm-blocked, out-of-memory, unsupported
 */
export function createEngine(options: EngineOptions = {}): Promise<Engine> {
  return startEngine(options, openOnDemand);
}

/** {@link createEngine} with another way to open devices, or to measure them. */
export async function startEngine(
  options: EngineOptions,
  open: OpenDevice,
  measure: typeof measureCosts = measureCosts,
): Promise<Engine> {
  checkEngineOptions(options);
  const { device, logger } = options;
  const parts = await startCpu(options);
  const search = await findDevice(options, open);
  if (search.opened === undefined) {
    if (device === "webgpu" || typeof device === "object")
      logger?.warn?.(`${search.info!.reason!}: the CPU computes`);
    return new Engine(parts, [parts.cpu], { logger, search });
  }
  const engine = new Engine(parts, [search.opened.backend, parts.cpu], { logger, search });
  if (device === "webgpu" || typeof device === "object") return engine;
  const slow = await whySlow(engine, search.opened.backend, measure);
  if (slow === undefined) return engine;
  search.opened.backend.dispose();
  return new Engine(parts, [parts.cpu], { logger, search: left(slow, search.opened.description) });
}

// The reason not to take a device, by a short measurement; its costs are known afterwards.
async function whySlow(
  engine: Engine,
  backend: Backend,
  measure: typeof measureCosts,
): Promise<string | undefined> {
  try {
    await engine.arrived;
    backend.costs = await measure(engine, backend.name);
    const { speed } = backend.costs;
    return speed > 1 ? undefined : `measured at ${speed.toFixed(2)} times the speed of the CPU`;
  } catch (error) {
    return `the measurement failed: ${reasonOf(error)}`;
  }
}
