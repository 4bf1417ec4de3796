// What the machine can do at most with 128-bit wasm: bytes read per second, integer and float products per second.
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import binaryen from "binaryen";
import { repeat, type Spent } from "./measure.ts";

const unrolled = (n: number, f: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => f(i)).join("\n");

// Operations per pass of a peak, each with an accumulator of its own. With two operands x and `OPERANDS` q no vector spills, whatever
// an operation needs beside them; ten chains hide a latency of five where two operations start at a time.
const CHAINS = 10;
const OPERANDS = 2;

function peak(name: string, op: (x: string, q: string, acc: string) => string): string {
  return `(func (export "${name}") (param $p i32) (param $n i32) (result i32)
    ${unrolled(CHAINS, (i) => `(local $a${i} v128)`)} ${unrolled(OPERANDS, (i) => `(local $q${i} v128)`)} (local $x0 v128) (local $x1 v128)
    ${unrolled(OPERANDS, (i) => `(local.set $q${i} (v128.load offset=${4096 + 16 * i} (local.get $p)))`)}
    (loop $l
      (local.set $x0 (v128.load (i32.add (local.get $p) (i32.and (local.get $n) (i32.const 2032)))))
      (local.set $x1 (v128.load offset=2048 (i32.add (local.get $p) (i32.and (local.get $n) (i32.const 2032)))))
      ${unrolled(CHAINS, (i) => `(local.set $a${i} ${op(`(local.get $x${((2 * i) / CHAINS) >> 0})`, `(local.get $q${i % OPERANDS})`, `(local.get $a${i})`)})`)}
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    ${unrolled(CHAINS - 1, (i) => `(local.set $a0 (v128.xor (local.get $a0) (local.get $a${i + 1})))`)}
    (i32x4.extract_lane 0 (local.get $a0)))`;
}

const source = (relaxed: boolean): string => `(module (import "env" "memory" (memory 1 65536))
  (func (export "read") (param $p i32) (param $end i32) (result i32) ${unrolled(4, (i) => `(local $a${i} v128)`)}
    (loop $l
      ${unrolled(4, (i) => `(local.set $a${i} (v128.xor (local.get $a${i}) (v128.load offset=${16 * i} (local.get $p))))`)}
      (br_if $l (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 64))) (local.get $end))))
    (i32x4.extract_lane 0 (v128.xor (v128.xor (local.get $a0) (local.get $a1)) (v128.xor (local.get $a2) (local.get $a3)))))
  ${relaxed ? peak("dot", (x, q, a) => `(i32x4.relaxed_dot_i8x16_i7x16_add_s ${x} ${q} ${a})`) : ""}
  ${relaxed ? peak("madd", (x, q, a) => `(f32x4.relaxed_madd ${x} ${q} ${a})`) : ""}
  ${peak("dot16", (x, q, a) => `(i32x4.add (i32x4.dot_i16x8_s ${x} ${q}) ${a})`)}
  ${peak("mulAdd", (x, q, a) => `(f32x4.add (f32x4.mul ${x} ${q}) ${a})`)})`;

interface RoofCore {
  read(p: number, end: number): number;
  dot?(p: number, n: number): number;
  madd?(p: number, n: number): number;
  dot16(p: number, n: number): number;
  mulAdd(p: number, n: number): number;
}

/** Rates by wall clock and by processor time. */
export interface Rate {
  readonly wall: number;
  readonly cpu: number;
}

/** `amount` per second, in 1e9. */
export function rate(amount: number, { ms, cpuMs }: Spent): Rate {
  return { wall: amount / ms / 1e6, cpu: amount / cpuMs / 1e6 };
}

// A multiplication and an addition can take less than both fused, where units for additions stand beside those for fused ones.
function faster(a: Rate, b: Rate): Rate {
  return a.cpu > b.cpu ? a : b;
}

function assemble(relaxed: boolean): Uint8Array<ArrayBuffer> {
  const text = binaryen.parseText(source(relaxed));
  text.setFeatures(binaryen.Features.All);
  return new Uint8Array(text.emitBinary());
}

/** Reads so many MiB of memory of its own, once a call. */
export async function reader(mib: number): Promise<() => void> {
  const memory = new WebAssembly.Memory({ initial: mib * 16, maximum: 65536 });
  new Uint32Array(memory.buffer).fill(0x01020304); // pages of zeros would all be the same one
  const { instance } = await WebAssembly.instantiate(assemble(false), { env: { memory } });
  const core = instance.exports as unknown as RoofCore;
  return () => void core.read(0, mib * 2 ** 20);
}

/** One thread's roofs: GB/s read from memory and from the caches, GOP/s, GFLOP/s. Best of some tenths of a second each. */
export async function roofs(dramMiB = 512, cacheMiB = 8): Promise<Record<string, Rate>> {
  const relaxed = assemble(true);
  const bytes = WebAssembly.validate(relaxed) ? relaxed : assemble(false);
  const memory = new WebAssembly.Memory({ initial: dramMiB * 16, maximum: 65536 });
  const words = new Uint32Array(memory.buffer);
  // bytes 0..127, floats 0.5 to 1: products that are subnormal would take many times as long
  for (let i = 0; i < words.length; i++) words[i] = (Math.imul(i, 2654435761) & 0x007f7f7f) | 0x3f000000;
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  const core = instance.exports as unknown as RoofCore;
  const best = async (amount: number, f: () => unknown): Promise<Rate> => {
    for (let i = 0; i < 3; i++) f();
    return rate(amount, (await repeat(f, 400)).best);
  };
  const mib = 2 ** 20;
  const n = 1 << 20;
  return {
    "DRAM read GB/s": await best(dramMiB * mib, () => core.read(0, dramMiB * mib)),
    "cache read GB/s": await best(16 * cacheMiB * mib, () => {
      for (let i = 0; i < 16; i++) core.read(0, cacheMiB * mib);
    }),
    "dot GOP/s": await best(CHAINS * (core.dot === undefined ? 16 : 32) * n, () =>
      (core.dot ?? core.dot16)(0, n),
    ),
    "f32 GFLOP/s": faster(
      await best(CHAINS * 8 * n, () => (core.madd ?? core.mulAdd)(0, n)),
      await best(CHAINS * 8 * n, () => core.mulAdd(0, n)),
    ),
  };
}

/** What a thread of {@link readRoof} or {@link dotRoof} is given. */
export interface RoofJob {
  readonly module: WebAssembly.Module;
  /** to read; 0: multiplies what stays in registers and the nearest cache */
  readonly mib: number;
  readonly ms: number;
}

/** GB/s that so many threads read from memory together, each from its own stretch. Best of so many times. */
export async function readRoof(threads: number, mib = 256, ms = 300, times = 3): Promise<number> {
  const module = await WebAssembly.compile(assemble(false));
  let best = 0;
  for (let i = 0; i < times; i++) best = Math.max(best, await runTogether({ module, mib, ms }, threads));
  return best;
}

/** GOP/s of so many threads that do nothing but integer dots, all the time: what else runs on the machine counts. */
export async function dotRoof(threads: number, ms: number): Promise<number> {
  return runTogether({ module: await WebAssembly.compile(assemble(false)), mib: 0, ms }, threads);
}

async function runTogether(workerData: RoofJob, threads: number): Promise<number> {
  const path = join(import.meta.dirname, "peers/read.js");
  const workers = Array.from({ length: threads }, () => new Worker(path, { workerData }));
  const answers = (): Promise<unknown[]> =>
    Promise.all(
      workers.map((w) => new Promise((resolve, reject) => w.once("message", resolve).once("error", reject))),
    );
  await answers();
  const rates = answers();
  for (const w of workers) w.postMessage("go");
  return ((await rates) as number[]).reduce((a, b) => a + b, 0);
}
