// A thread that reads its own stretch of memory over and over for a while, and tells its best rate; or does nothing but dots,
// and tells the mean. The roof of several threads is the sum.
import { parentPort, workerData } from "node:worker_threads";
import type { RoofJob } from "../roof.ts";

const { module, mib, ms } = workerData as RoofJob;
const DOTS = 1 << 20; // times eight vectors
const bytes = mib * 2 ** 20;
const memory = new WebAssembly.Memory({ initial: Math.max(1, mib * 16), maximum: 65536 });
new Uint32Array(memory.buffer).fill(0x01020304);
const { dot16, read } = new WebAssembly.Instance(module, { env: { memory } }).exports as unknown as {
  dot16(p: number, n: number): number;
  read(p: number, end: number): number;
};
const work = mib === 0 ? (): number => dot16(0, DOTS) : (): number => read(0, bytes);
const amount = mib === 0 ? DOTS * 8 * 16 : bytes;
for (let i = 0; i < 3; i++) work();
parentPort!.on("message", () => {
  let best = 0;
  let times = 0;
  const start = performance.now();
  let last = start;
  while (last - start < ms) {
    work();
    const now = performance.now();
    best = Math.max(best, amount / (now - last) / 1e6);
    times++;
    last = now;
  }
  parentPort!.postMessage(mib === 0 ? (times * amount) / (last - start) / 1e6 : best);
  parentPort!.close();
});
parentPort!.postMessage("ready");
