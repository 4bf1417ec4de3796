// A worker's line to the thread that made it, the same in Node and in browsers.

import { builtinModule } from "../builtin.ts";

/** Posts and hears messages. */
export interface Port {
  postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
  onMessage(listener: (data: unknown) => void): void;
}

interface NodePort {
  postMessage(message: unknown, transfer?: readonly ArrayBuffer[]): void;
  on(event: "message", listener: (data: unknown) => void): void;
}

/** The port of the worker that this code runs in. */
export function openPort(): Port {
  const node = builtinModule<{ parentPort: NodePort | null }>("node:worker_threads");
  const parent = node?.parentPort;
  if (parent) {
    return {
      postMessage: (m, transfer) => parent.postMessage(m, transfer),
      onMessage: (f) => parent.on("message", f),
    };
  }
  const scope = globalThis as unknown as Pick<NodePort, "postMessage">;
  return {
    postMessage: (m, transfer = []) => scope.postMessage(m, transfer),
    onMessage: (f) => globalThis.addEventListener("message", (e) => f((e as MessageEvent).data)),
  };
}
