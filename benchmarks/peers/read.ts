// A thread that reads its own stretch of memory over and over for a while, and tells at which rate: the read roof of several
// threads is the sum.
import { parentPort, workerData } from "node:worker_threads";
import type { ReadJob } from "../roof.ts";

const { module, mib, ms } = workerData as ReadJob;
const bytes = mib * 2 ** 20;
const memory = new WebAssembly.Memory({ initial: mib * 16, maximum: 65536 });
new Uint32Array(memory.buffer).fill(0x01020304);
const { read } = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as {
  read(p: number, end: number): number;
};
for (let i = 0; i < 3; i++) read(0, bytes);
parentPort!.on("message", () => {
  let best = 0;
  const start = performance.now();
  for (let last = start; last - start < ms;) {
    read(0, bytes);
    const now = performance.now();
    best = Math.max(best, bytes / (now - last) / 1e6);
    last = now;
  }
  parentPort!.postMessage(best);
  parentPort!.close();
});
parentPort!.postMessage("ready");
