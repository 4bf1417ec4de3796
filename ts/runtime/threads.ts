// The thread pool: starts workers with a handshake, hands out runs, ends them.
//
//   no shared memory, or one thread:  runs happen here
//   this thread may block:            this is thread 0; workers 1.. sleep in wasm between runs. In Node nobody waits
//                                     for them to start: until all have come, thread 0 computes alone
//   a page's main thread:             a leader worker is thread 0; this thread awaits its message

import {
  CTRL_ABORT,
  CTRL_ERROR_NODE,
  CTRL_PATIENCE,
  CTRL_READY,
  CTRL_SPIN,
  MAX_THREADS,
  Status,
} from "../../assembly/abi.ts";
import workerSource from "../../build/worker.txt";
import { builtinModule } from "../builtin.ts";
import { within } from "../within.ts";
import type { Exports, WasmMemory, WasmModule } from "./instance.ts";
import { PAGE } from "./options.ts";
import { runGuarded, type WorkerInit, type WorkerRun } from "./worker.ts";

/** Time a worker has to answer the first message, ms. */
const HANDSHAKE_MS = 10_000;
/** Time for a turn of the event loop: an answer may be there, behind long work of this thread. */
const TURN_MS = 100;
/** Threads taken by default at most: beyond, barriers cost more than they bring on small models. */
const DEFAULT_MAX = 8;
/**
 * Looks at a barrier cell before sleeping: some 0.2 ms. Waking a sleeper takes longer than most nodes of a decode step, and
 * between two tokens the host takes a while to choose one: a tenth of it costs a small model two fifths of its rate.
 */
const SPIN = 40_000;
/** Steps of 100 ms that a thread waits for another within a run before it counts as dead. */
const PATIENCE = 600;

/** A worker of either kind of host. */
export interface Thread {
  post(message: WorkerInit | WorkerRun): void;
  /** next message; rejects when the worker fails or is ended */
  next(): Promise<unknown>;
  terminate(): void;
}

/** Workers that start, without a module yet. */
export interface Crew {
  readonly nThreads: number;
  /** this thread may block: it is thread 0, and there is no leader among the workers */
  readonly blocking: boolean;
  /** they start without help from this thread's event loop or a page's policy, and need not be waited for */
  readonly late: boolean;
  readonly workers: readonly Thread[];
  /** why there are none, where there should be some */
  readonly refused?: unknown;
}

/** What the pool is made of. */
export interface PoolOptions {
  readonly module: WasmModule;
  readonly memory: WasmMemory;
  readonly core: Exports;
  /** how long threads wait for each other within a run, in steps of 100 ms; default a minute */
  readonly patience?: number | undefined;
  /** hears why there is only one thread */
  readonly warn?: ((message: string) => void) | undefined;
}

/** Makes a worker; `url` of its script, default: the one inside. */
export type MakeThread = (url: string | URL | undefined) => Thread;

let make: MakeThread | undefined;

/** Has this script's workers made elsewhere; see llm/remote/crew.ts. */
export function makeThreadsBy(f: MakeThread): void {
  make = f;
}

/** Sane thread count from what the host reports: at least 1, at most 8; a missing or absurd report counts as 1. */
export function defaultThreads(reported: number | undefined): number {
  if (reported === undefined || !Number.isFinite(reported) || reported < 1) return 1;
  return Math.min(Math.floor(reported), DEFAULT_MAX);
}

/** Cores the host reports; undefined when it does not say. */
export function reportedCores(): number | undefined {
  const os = builtinModule<{ availableParallelism?(): number }>("node:os");
  return os?.availableParallelism?.() ?? globalThis.navigator?.hardwareConcurrency;
}

/** Why there can be only one thread here; undefined where there can be more. */
export function whyAlone(): string | undefined {
  const { crossOriginIsolated } = globalThis as { crossOriginIsolated?: boolean };
  if (typeof SharedArrayBuffer !== "function" || crossOriginIsolated === false) {
    return "memory cannot be shared here (a page must be cross-origin isolated)";
  }
  if (make === undefined && inWorkerOfFirefox()) {
    return "in Firefox a worker that makes workers may wait for them forever (a page's loadModel has threads)";
  }
  return undefined;
}

function inWorkerOfFirefox(): boolean {
  const { navigator } = globalThis as { navigator?: { readonly userAgent?: string } };
  return !("document" in globalThis) && navigator?.userAgent?.includes("Firefox/") === true;
}

function canBlock(): boolean {
  try {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1, 0);
    return true;
  } catch {
    return false;
  }
}

/** The control block. */
function cellsOf(memory: WasmMemory): Int32Array {
  return new Int32Array(memory.buffer, 0, 4096 / 4);
}

/**
 * Starts `nThreads - 1` workers (as many as threads on a page's main thread), which takes them a while: before the module
 * is compiled, so that they need not be waited for later.
 */
export function hire(nThreads: number, workerUrl?: string | URL): Crew {
  const blocking = nThreads <= 1 || canBlock();
  const late = blocking && workerUrl === undefined && nodeWorkers() !== undefined;
  const workers: Thread[] = [];
  try {
    for (let ith = blocking ? 1 : 0; ith < Math.min(nThreads, MAX_THREADS); ith++) {
      workers.push(spawn(workerUrl));
    }
    return { nThreads, blocking, late, workers };
  } catch (refused) {
    return { nThreads, blocking, late, workers, refused };
  }
}

/** Ends a crew that is not needed. */
export function dismiss({ workers }: Crew): void {
  for (const w of workers) w.terminate();
}

// Tells the workers what to compute with. @returns that each is ready
function brief({ module, memory }: PoolOptions, { blocking, workers }: Crew): Promise<unknown>[] {
  return workers.map((worker, i) => {
    const ith = blocking ? i + 1 : i;
    worker.post({ module, memory, ith, leader: ith === 0 });
    return worker.next();
  });
}

/** Threads that run node ranges together. */
export class ThreadPool {
  /** Settles when all workers have come, or none will; never rejects. */
  readonly arrived: Promise<void>;
  #nThreads: number;
  readonly #core: Exports;
  readonly #memory: WasmMemory;
  readonly #warn: PoolOptions["warn"];
  #view: Int32Array;
  #workers: readonly Thread[];
  #leader: Thread | undefined;
  #complete = false;
  /** the others have been told to touch memory, and not yet to leave off */
  #touching = false;

  private constructor(options: PoolOptions, crew: Crew) {
    this.#nThreads = crew.nThreads;
    this.#core = options.core;
    this.#memory = options.memory;
    this.#warn = options.warn;
    this.#view = cellsOf(options.memory);
    this.#workers = crew.workers;
    this.#leader = crew.blocking ? undefined : crew.workers[0];
    this.arrived = crew.nThreads > 1 ? this.#gather(options, crew) : Promise.resolve();
  }

  // Plain memory that grows detaches its views.
  get #cells(): Int32Array {
    if (this.#view.length === 0) this.#view = cellsOf(this.#memory);
    return this.#view;
  }

  /** Threads that compute; those that are still starting count. */
  get nThreads(): number {
    return this.#nThreads;
  }

  /** A pool without workers. */
  static single(options: PoolOptions): ThreadPool {
    return new ThreadPool(options, hire(1));
  }

  /**
   * Gives a crew its module and memory, and waits for all of it unless it may come late. With a worker that does not come,
   * by then or later, all are ended and this thread computes alone; `warn` hears of it.
   */
  static async start(options: PoolOptions, crew: Crew): Promise<ThreadPool> {
    const pool = new ThreadPool(options, crew);
    if (!crew.late) await pool.arrived;
    return pool;
  }

  async #gather(options: PoolOptions, crew: Crew): Promise<void> {
    const cells = this.#cells;
    cells[CTRL_PATIENCE / 4] = options.patience ?? PATIENCE;
    cells[CTRL_SPIN / 4] = crew.nThreads <= (reportedCores() ?? 1) ? SPIN : 0;
    try {
      if (crew.refused !== undefined) throw crew.refused;
      const answers = Promise.all(brief(options, crew));
      await within(answers, HANDSHAKE_MS).catch(() => within(answers, TURN_MS));
      this.#complete = true;
    } catch {
      if (this.#nThreads === 1) return; // disposed meanwhile
      this.dispose();
      options.warn?.(
        "threads: a worker did not start; a page's policy must allow it (worker-src blob:, or pass workerUrl): one thread",
      );
    }
  }

  // Threads for the next run. Once all workers are counted they take every job; see assembly/control.ts.
  #present(): number {
    const n = this.#workers.length;
    this.#complete ||= n > 0 && Atomics.load(this.#cells, CTRL_READY / 4) >= n;
    return this.#complete ? this.#nThreads : 1;
  }

  /** Runs nodes [first, last). Resolves at once where this thread computes itself. */
  run(records: number, first: number, last: number): Status | Promise<Status> {
    this.#cells[CTRL_ABORT / 4] = 0;
    this.#endTouch();
    if (this.#leader === undefined) return runGuarded(this.#core, records, first, last, this.#present());
    this.#leader.post({ records, first, last, nth: this.nThreads });
    return this.#leader.next().catch(() => Status.TIMEOUT) as Promise<Status>; // it died, or was ended
  }

  /**
   * Has the other threads, once all are there, touch memory [from, to), its end first, while this one fills it from its
   * start: on a virtual machine the first touch of a page takes longer than to read it. A run ends it too.
   *
   * @returns what ends it
   */
  touch(from: number, to: number): () => void {
    let ended = this.#leader !== undefined;
    void this.arrived.then(() => {
      if (ended || this.#nThreads === 1) return;
      this.#endTouch();
      this.#core.touch(Math.ceil(from / PAGE), Math.floor(to / PAGE));
      this.#touching = true;
    });
    return () => {
      if (!ended) this.#endTouch();
      ended = true;
    };
  }

  #endTouch(): void {
    if (!this.#touching) return;
    this.#touching = false;
    if (this.#nThreads === 1 || this.#core.endTouch(this.#nThreads) !== Status.TIMEOUT) return;
    this.dispose();
    this.#warn?.("threads: a worker stopped answering: one thread");
  }

  /** Ends a run after its current node. Only a run on other threads can be reached. */
  abort(): void {
    Atomics.store(this.#cells, CTRL_ABORT / 4, 1);
  }

  /** Index of the record that the failed run stopped at. */
  get failedRecord(): number {
    return this.#cells[CTRL_ERROR_NODE / 4]!;
  }

  /** Ends all workers; later runs happen on this thread alone. */
  dispose(): void {
    if (this.#nThreads === 1) return;
    this.#nThreads = 1;
    this.#core.leave();
    for (const w of this.#workers) w.terminate();
    this.#workers = [];
    this.#leader = undefined;
  }
}

interface NodeWorker {
  postMessage(message: unknown): void;
  on(event: "error" | "exit", listener: (value: unknown) => void): void;
  once(event: "message", listener: (value: unknown) => void): void;
  ref(): void;
  unref(): void;
  terminate(): Promise<number>;
}

interface WorkerThreads {
  readonly Worker: new (source: string | URL, options: { eval: boolean }) => NodeWorker;
}

// Node's kind of workers, where it is this script that makes them and of this kind.
function nodeWorkers(): WorkerThreads | undefined {
  if (make !== undefined || "document" in globalThis) return undefined;
  return builtinModule<WorkerThreads>("node:worker_threads");
}

function spawn(url: string | URL | undefined): Thread {
  if (make !== undefined) return make(url);
  const node = nodeWorkers();
  if (node === undefined) return webThread(url);
  return nodeThread(new node.Worker(url ?? workerSource, { eval: url === undefined }));
}

// Held by the process only while an answer is awaited, so that a program ends by itself.
function nodeThread(worker: NodeWorker): Thread {
  worker.unref();
  let failed: unknown;
  let tell: ((reason: unknown) => void) | undefined;
  // It may fail before anybody waits for it.
  const fail = (reason: unknown): void => {
    failed ??= reason;
    tell?.(failed);
  };
  worker.on("error", fail);
  worker.on("exit", () => fail(new Error("ended")));
  return {
    post: (message) => worker.postMessage(message),
    next: () => {
      if (failed !== undefined) return Promise.reject(failed as Error);
      worker.ref();
      const answer = new Promise((resolve, reject) => {
        tell = reject;
        worker.once("message", resolve);
      });
      return answer.finally(() => worker.unref());
    },
    terminate: () => {
      void worker.terminate();
      fail(new Error("ended"));
    },
  };
}

function newWorker(url: string | URL, release: () => void): Worker {
  try {
    return new Worker(url, { type: "module" });
  } catch (error) {
    release();
    throw error;
  }
}

/** A worker of a browser's. */
export function webThread(url: string | URL | undefined): Thread {
  const blob =
    url === undefined
      ? URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" }))
      : undefined;
  const release = (): void => {
    if (blob !== undefined) URL.revokeObjectURL(blob);
  };
  const worker = newWorker(url ?? blob!, release);
  let failed: Error | undefined;
  const keep = (reason: Error): void => void (failed ??= reason);
  let give = keep;
  // A worker that a content security policy blocks only raises this event, with an empty message, at any time.
  worker.onerror = (e) => give(new Error(e.message || "the worker was blocked"));
  return {
    post: (message) => worker.postMessage(message),
    next: () =>
      new Promise((resolve, reject) => {
        if (failed !== undefined) return reject(failed);
        give = reject;
        worker.onmessage = (e) => {
          give = keep;
          release();
          resolve(e.data);
        };
      }),
    terminate: () => {
      worker.terminate();
      release();
      give(new Error("ended")); // whoever waits for an answer: none will come
    },
  };
}
