// Workers for models: made from the script inside or given by the caller, in browsers and in Node.

import { builtinModule } from "../../builtin.ts";
import { DeviceError } from "../../errors.ts";
import { hostLocks } from "./locks.ts";
import type { ToWorker } from "./protocol.ts";

const BLOB_HINT = "a page's policy must allow it (worker-src blob:, or pass a worker of your own)";
const NODE_HINT = "this process may not make threads";

/** A worker, seen from the thread that uses it. */
export interface Peer {
  /** name of the lock that it is to hold while it lives; "" where its end is heard of by itself */
  readonly lock: string;
  /** whether this thread is to make the worker's threads, see crew.ts */
  readonly crew: boolean;
  /** what could be done when it does not start */
  readonly hint: string;
  post(message: ToWorker, transfer?: readonly ArrayBuffer[]): void;
  listen(hear: (data: unknown) => void, lost: (cause: Error) => void): void;
  /** it has answered the first message */
  started(): void;
  /** keep the process (not) alive for its sake */
  hold(held: boolean): void;
  /** may be called twice */
  end(): void;
}

/** A browser's Worker, as far as it is used. */
export interface WorkerLike {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  addEventListener(type: string, listener: (event: unknown) => void): void;
  terminate(): void;
}

interface NodeWorker {
  postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
  on(event: string, listener: (value: unknown) => void): void;
  ref(): void;
  unref(): void;
  terminate(): Promise<number>;
}

interface WorkerThreads {
  readonly Worker: new (source: string, options: { eval: boolean }) => NodeWorker;
}

/**
 * A new worker from the script inside; undefined when the host has no workers, or the sources run as they are.
 *
 * @throws {DeviceError} worker-blocked
 */
export async function makePeer(): Promise<Peer | undefined> {
  // A chunk of its own in the bundles, so that nobody loads it who has no use for it.
  const { modelWorkerScript } = await import("../../runtime/model_worker.ts");
  const script = await modelWorkerScript();
  if (script === undefined) return undefined;
  const node = builtinModule<WorkerThreads>("node:worker_threads");
  const inNode = node !== undefined && !("document" in globalThis);
  if (!inNode && typeof Worker !== "function") return undefined;
  try {
    return inNode ? nodePeer(new node.Worker(script, { eval: true })) : blobPeer(script);
  } catch (cause) {
    throw blocked(inNode ? NODE_HINT : BLOB_HINT, cause);
  }
}

/** The error of a worker that does not start, with what could be done. */
export function blocked(hint: string, cause: unknown): DeviceError {
  return new DeviceError("worker-blocked", `loadModel: the model's worker did not start; ${hint}`, { cause });
}

function blobPeer(script: string): Peer {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const release = (): void => URL.revokeObjectURL(url);
  try {
    return webPeer(new Worker(url), BLOB_HINT, release);
  } catch (error) {
    release();
    throw error;
  }
}

/** A browser's worker. `release`: called once it has started or is ended. */
export function webPeer(worker: WorkerLike, hint: string, release: () => void = () => undefined): Peer {
  const lock = `slackwater-${Math.random().toString(36).slice(2)}`;
  const watch = new AbortController();
  let lost: (cause: Error) => void = () => undefined;
  return {
    lock,
    crew: true,
    hint,
    post: (message, transfer = []) => worker.postMessage(message, [...transfer]),
    listen: (hear, onLost) => {
      lost = onLost;
      worker.addEventListener("message", (e) => hear((e as MessageEvent).data));
      // A worker that a content security policy blocks only raises this event, with an empty message.
      worker.addEventListener("error", (e) => {
        (e as ErrorEvent).preventDefault();
        onLost(new Error((e as ErrorEvent).message || "the worker was blocked"));
      });
      worker.addEventListener("messageerror", () => onLost(new Error("a message could not be read")));
    },
    // A worker that is terminated says nothing; but its lock falls to whoever waits for it.
    started: () => {
      release();
      void hostLocks()
        ?.request(lock, { signal: watch.signal }, () => lost(new Error("it was terminated")))
        .catch(() => undefined);
    },
    hold: () => undefined,
    end: () => {
      watch.abort();
      worker.terminate();
      release();
    },
  };
}

// Held by the process only while an answer is awaited, so that a program ends by itself.
function nodePeer(worker: NodeWorker): Peer {
  worker.unref();
  return {
    lock: "",
    crew: false,
    hint: NODE_HINT,
    post: (message, transfer) => worker.postMessage(message, transfer),
    listen: (hear, lost) => {
      worker.on("message", hear);
      worker.on("error", (error) => lost(error as Error));
      worker.on("exit", () => lost(new Error("it was terminated")));
    },
    started: () => undefined,
    hold: (held) => (held ? worker.ref() : worker.unref()),
    end: () => void worker.terminate(),
  };
}
