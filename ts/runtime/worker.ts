// Source of a worker thread, bundled to text and inlined. Takes its instance's place in the thread pool.
//
// A plain worker enters wasm and sleeps there between jobs. The leader of a page's pool stays in the event loop and
// runs thread 0 on request, because a page's main thread must not block.

import { Status } from "../../assembly/abi.ts";
import { type Exports, instanceOf, type WasmMemory, type WasmModule } from "./instance.ts";
import { openPort, type Port } from "./port.ts";

/** First message to a worker. */
export interface WorkerInit {
  readonly module: WasmModule;
  readonly memory: WasmMemory;
  readonly ith: number;
  readonly leader: boolean;
}

/** A run that the leader is asked for. */
export interface WorkerRun {
  readonly records: number;
  readonly first: number;
  readonly last: number;
  readonly nth: number;
}

/** Runs thread 0 and turns a trap into a status. */
export function runGuarded(core: Exports, records: number, first: number, last: number, nth: number): Status {
  try {
    return core.run(records, first, last, nth);
  } catch {
    core.fail(0, Status.TRAP);
    const status = nth > 1 ? core.join(nth) : Status.TRAP;
    return status === Status.OK ? Status.TRAP : status;
  }
}

function serve(core: Exports, ith: number, seen: number): void {
  for (;;) {
    try {
      return core.serve(ith, seen);
    } catch {
      // A trap. The job number is read before thread 0 learns that this thread is done, so the next job is not missed.
      core.fail(ith, Status.TRAP);
      seen = core.jobNumber();
      core.done();
    }
  }
}

function start(port: Port): void {
  let core: Exports | undefined;
  port.onMessage((data) => {
    if (core !== undefined) {
      const { records, first, last, nth } = data as WorkerRun;
      port.postMessage(runGuarded(core, records, first, last, nth));
      return;
    }
    const { module, memory, ith, leader } = data as WorkerInit;
    core = instanceOf(module, memory);
    const seen = core.jobNumber();
    core.ready();
    port.postMessage("ready");
    if (!leader) serve(core, ith, seen);
  });
}

/** Entry of the bundled worker. */
export function main(): void {
  start(openPort());
}
