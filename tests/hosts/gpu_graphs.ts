// In Deno: random graphs on the GPU, some nodes pinned to the CPU, against the CPU alone. The last line is
// { results, apart } as JSON: how many results were compared, and those that differ.
import { Op } from "../../assembly/abi.ts";
import { fromBF16, fromF16 } from "../../ts/graph/elements.ts";
import type { Tensor } from "../../ts/graph/tensor.ts";
import { createEngine, type Engine, startEngine } from "../../ts/runtime/engine.ts";
import { Type } from "../../ts/types.ts";
import { GpuBackend } from "../../ts/webgpu/backend.ts";
import { openDevice } from "../../ts/webgpu/device.ts";
import { fill, grow, random } from "../graph_fuzz.ts";

const GRAPHS = 32;
/** Squared differences over squares. Rounding grows along a graph: a wrong kernel is far above. */
const LIMIT = 1e-3;

interface Outcome {
  readonly name: string;
  /** the CPU rounds its activations, the GPU does not: from here on results may be anything */
  readonly rounded: boolean;
  readonly type: Type;
  readonly bytes: Uint8Array;
}

function scatter(engine: Engine, t: Tensor, rng: () => number): void {
  if (t.viewSrc !== undefined || rng() < 0.7) return;
  engine.pin(t, engine.backend.name);
}

/** All results of a random graph. */
async function run(engine: Engine, seed: number, writing: boolean, pins: boolean): Promise<Outcome[]> {
  using g = engine.graph();
  const { inputs, nodes } = grow(g, random(seed), 20, writing);
  for (const t of nodes) g.expand(t.asOutput());
  const rng = random(seed + 3);
  if (pins) for (const { tensor } of g.program().nodes) scatter(engine, tensor, rng);
  g.plan();
  inputs.forEach((t, k) => t.placement !== undefined && fill(t, random(seed + k)));
  await g.compute();
  const all: Outcome[] = [];
  for (const t of nodes) {
    const rounded = t.op === Op.MUL_MAT && t.src[0]!.type !== Type.F32;
    all.push({ name: Op[t.op]!, rounded, type: t.type, bytes: await t.readBytes() });
  }
  return all;
}

function valuesOf({ type, bytes }: Outcome): ArrayLike<number> {
  const { buffer } = bytes.slice();
  switch (type) {
    case Type.F32:
      return new Float32Array(buffer);
    case Type.F16:
      return Float32Array.from(new Uint16Array(buffer), fromF16);
    case Type.BF16:
      return Float32Array.from(new Uint16Array(buffer), fromBF16);
    case Type.I32:
      return new Int32Array(buffer);
    default:
      return []; // blocks: what is read from them is compared
  }
}

/** Squared differences over squares; infinite where one is a number and the other is not. */
function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let error = 0;
  let norm = 0;
  for (let i = 0; i < a.length; i++) {
    if (Number.isFinite(a[i]) !== Number.isFinite(b[i])) return Infinity;
    if (!Number.isFinite(a[i])) continue;
    error += (a[i]! - b[i]!) ** 2;
    norm += a[i]! ** 2;
  }
  return error === 0 ? 0 : error / norm;
}

const backend = new GpuBackend(await openDevice());
const opened = { backend, description: "", software: true };
const gpu = await startEngine({ nThreads: 1, device: "webgpu" }, () => Promise.resolve(opened));
const cpu = await createEngine({ nThreads: 1, device: "cpu" });
const apart: string[] = [];
let results = 0;
for (let i = 0; i < GRAPHS; i++) {
  const seed = 1078 + 77 * i;
  const [writing, pins] = [i % 2 === 1, i % 3 === 2];
  const want = await run(cpu, seed, writing, pins);
  const got = await run(gpu, seed, writing, pins);
  const rounded = want.findIndex((w) => w.rounded);
  const compared = rounded < 0 ? want : want.slice(0, rounded);
  results += compared.length;
  // what follows the first one that differs follows from it
  const first = compared.findIndex((w, k) => distance(valuesOf(w), valuesOf(got[k]!)) > LIMIT);
  if (first >= 0) apart.push(`graph ${seed}, node ${first}: ${want[first]!.name}`);
}
if (backend.lost !== undefined) apart.push(backend.lost.message);
gpu.dispose();
cpu.dispose();
console.log(JSON.stringify({ results, apart, dispatches: backend.gpu.counts.dispatches }));
