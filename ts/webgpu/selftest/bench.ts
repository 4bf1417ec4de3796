// Where the self-test runs replicas: a small arena with the CPU's kernels on one thread, and the device under test.

import { CPU_ALIGN } from "../../../assembly/abi.ts";
import { Arena } from "../../runtime/arena.ts";
import type { Backend, Buffer } from "../../runtime/backend.ts";
import { CpuBackend, CpuBuffer } from "../../runtime/cpu.ts";
import { bindProgram, planProgram } from "../../runtime/plan_program.ts";
import { oneSplit } from "../../runtime/scheduler/splits.ts";
import { ThreadPool } from "../../runtime/threads.ts";
import { compileCore, createMemory, type Exports, instantiate } from "../../runtime/wasm.ts";
import type { Replica } from "./replica.ts";

const START_PAGES = 64;
/** 1 GiB: no replica comes near it */
const MAX_PAGES = 16384;
const PAGE = 65536;

/** An engine in small, for one test after the other. */
export class Bench {
  readonly cpu: CpuBackend;
  readonly #arena: Arena;
  readonly #core: Exports;

  private constructor(core: Exports, arena: Arena, cpu: CpuBackend) {
    this.#core = core;
    this.#arena = arena;
    this.cpu = cpu;
  }

  static async open(): Promise<Bench> {
    const { module } = await compileCore(undefined, false);
    const { memory, maxPages } = createMemory(START_PAGES, false, MAX_PAGES);
    const core = instantiate(module, memory);
    const arena = new Arena(memory, maxPages * PAGE, core);
    const pool = ThreadPool.single({ module, memory, core });
    return new Bench(core, arena, new CpuBackend(arena, pool, CPU_ALIGN));
  }

  /** Bytes of the result on a backend, from these bytes of the sources. */
  async run(backend: Backend, replica: Replica, data: ReadonlyMap<number, Uint8Array>): Promise<Uint8Array> {
    const { program, node, bases } = replica;
    const schedule = oneSplit(program, [backend], 0);
    const planned = planProgram(this.#arena, this.#core, schedule, {
      backends: [backend],
      addressOf: () => undefined,
    });
    const buffers: Buffer[] = [];
    try {
      for (const n of planned.sizes[0]!) buffers.push(backend.bufferType.alloc(n, "compute"));
      bindProgram(this.#arena, planned, [buffers], addressOf);
      const executable = backend.compile(planned.splits[0]!, buffers);
      try {
        for (const [slot, base] of bases) base.write(data.get(slot)!);
        await executable.run();
        return await node.tensor.readBytes();
      } finally {
        executable.dispose();
      }
    } finally {
      planned.unplace();
      for (const buffer of buffers) buffer.dispose();
      this.#arena.free(planned.records);
    }
  }

  dispose(): void {
    this.cpu.dispose();
  }
}

function addressOf(buffer: Buffer): number | undefined {
  return buffer instanceof CpuBuffer ? buffer.address : undefined;
}
