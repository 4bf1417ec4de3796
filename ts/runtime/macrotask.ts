// Turns of the event loop: long work must let timers, signals and input through; awaiting promises alone does not.

let channel: MessageChannel | undefined;
const waiting: (() => void)[] = [];

/** Resolves in a later macrotask. */
export function macrotask(): Promise<void> {
  if (typeof setImmediate === "function") return new Promise((resolve) => void setImmediate(resolve));
  if (typeof MessageChannel !== "function") return new Promise((resolve) => void setTimeout(resolve, 0));
  if (channel === undefined) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => waiting.shift()?.();
  }
  return new Promise((resolve) => {
    waiting.push(resolve);
    channel!.port2.postMessage(0);
  });
}

declare const setImmediate: ((f: () => void) => unknown) | undefined;

/** Longest stretch of work between two turns, ms. */
const STRETCH_MS = 30;

/** Measures a stretch of work; `due()` says when it is time for a turn of the event loop. */
export class Stretch {
  #start: number = performance.now();

  due(): boolean {
    return performance.now() - this.#start > STRETCH_MS;
  }

  /** Lets the event loop turn once and starts a new stretch. */
  async turn(): Promise<void> {
    await macrotask();
    this.#start = performance.now();
  }
}
