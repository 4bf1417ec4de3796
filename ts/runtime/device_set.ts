// The backends of an engine: which are used, which were left and why, what happens when one is lost.

import type { DeviceReport } from "./arena.ts";
import type { Backend } from "./backend.ts";
import { type BackendInfo, type DeviceSearch, left, reasonOf } from "./devices.ts";
import type { Logger } from "./options.ts";

/** What an engine knows of how it came about. */
export interface DeviceContext {
  readonly logger?: Logger | undefined;
  readonly search?: DeviceSearch | undefined;
}

/** Backends in order of preference. */
export class DeviceSet {
  /** the last one takes what the others refuse; a device that is opened again takes the place of the lost one */
  readonly list: readonly Backend[];
  readonly #list: Backend[];
  readonly #logger: Logger | undefined;
  /** lost and replaced */
  readonly #gone: Backend[] = [];
  #search: DeviceSearch;
  #disposed = false;

  constructor(backends: readonly Backend[], { logger, search = {} }: DeviceContext) {
    this.list = this.#list = [...backends];
    this.#logger = logger;
    this.#search = search;
  }

  /** Those that compute, in order of preference, and those that were looked at and left, with the reason. */
  infos(): readonly BackendInfo[] {
    const { opened, info } = this.#search;
    const infos = this.list.map((b): BackendInfo => ({
      name: b.name,
      used: b.lost === undefined,
      description: b.name === opened?.backend.name ? opened.description : undefined,
      reason: b.lost?.message,
      refused: b.refused?.(),
      speed: b.costs.speed,
    }));
    return info === undefined ? infos : [...infos, info];
  }

  /** Bytes that they hold. */
  report(): readonly DeviceReport[] {
    return this.list.flatMap((backend) => {
      const use = backend.held?.();
      if (use === undefined) return [];
      const { name } = backend;
      return [{ name, ...use, total: use.weights + use.kv + use.compute + use.staging }];
    });
  }

  /** Opens another device in place of each lost one, once in the life of an engine. */
  async reopenLost(): Promise<void> {
    for (const [b, backend] of this.list.entries()) {
      if (backend.lost !== undefined) await this.#reopen(b, backend);
    }
  }

  // Without another device the CPU takes over.
  async #reopen(b: number, backend: Backend): Promise<void> {
    const { reopen } = this.#search;
    if (reopen === undefined) return;
    const reason = backend.lost!.message;
    this.#search = { ...left(reason), opened: this.#search.opened };
    let reopened = false;
    try {
      const opened = await reopen();
      if (this.#disposed) return opened.backend.dispose();
      this.#list[b] = opened.backend;
      this.#gone.push(backend);
      this.#search = { ...this.#search, opened };
      reopened = true;
    } catch (error) {
      this.#logger?.warn?.(`${reasonOf(error)}: the CPU computes`);
    }
    this.#logger?.warn?.(`${reason}: graphs must be planned again`);
    this.#logger?.onEvent?.({ type: "device-lost", name: backend.name, reopened });
  }

  /** Lets go of all devices, lost ones too. */
  dispose(): void {
    this.#disposed = true;
    for (const b of [...this.list, ...this.#gone]) b.dispose();
  }
}
