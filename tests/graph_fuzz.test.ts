// Random graphs through the public builder: threads, in-place and shared memory must not change a bit.
//
// Each graph is built from a list of numbers, so that the same one can be planned in several ways: as it is, and with
// every tensor an output, which leaves the planner nothing to re-use. Both run on one thread and on three; nodes as small as
// these would be left to one of them, so some graphs share out all of their nodes, and some a part.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Graph } from "../ts/graph/graph.ts";
import type { Tensor } from "../ts/graph/tensor.ts";
import type { CpuBackend } from "../ts/runtime/cpu.ts";
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { nelements } from "../ts/shape.ts";
import { Type } from "../ts/types.ts";
import { grow, type Grown, random } from "./graph_fuzz.ts";

const GRAPHS = 60;
const NODES = 30;

let one: Engine;
let three: Engine;

beforeAll(async () => {
  one = await createEngine({ nThreads: 1 });
  three = await createEngine({ nThreads: 3 });
  await three.arrived;
});

afterAll(() => {
  one.dispose();
  three.dispose();
});

// Every kind of number a graph can meet, from a seed.
function fill(t: Tensor, rng: () => number): void {
  const n = nelements(t.ne);
  if (t.type === Type.I32) return t.write(Int32Array.from({ length: n }, () => Math.floor(rng() * 3)));
  t.write(Float32Array.from({ length: n }, () => (rng() < 0.02 ? 0 : 4 * rng() - 2)));
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

/** Bytes of the chosen outputs after two runs, which must agree. */
async function run(engine: Engine, seed: number, wiring: Wiring): Promise<readonly Uint8Array[]> {
  const graph = engine.graph();
  const grown = grow(graph, random(seed), NODES, wiring.ordered);
  const outputs = mark(graph, grown, seed, wiring);
  graph.plan();
  const results: Uint8Array[][] = [];
  for (let i = 0; i < 2; i++) {
    grown.inputs.forEach((t, k) => t.placement !== undefined && fill(t, random(seed + k)));
    await graph.compute();
    results.push(await Promise.all(outputs.map((t) => t.readBytes())));
  }
  results[0]!.forEach((bytes, i) => expect(equal(bytes, results[1]![i]!), outputs[i]!.label()).toBe(true));
  graph.dispose();
  return results[0]!;
}

interface Wiring {
  /** every tensor is an output: nothing shares memory */
  readonly all: boolean;
  /** every node runs, in the order it was made; needed where nodes write into others */
  readonly ordered: boolean;
}

// The same few outputs whatever the wiring, read in the order of their making.
function mark(graph: Graph, { inputs, nodes }: Grown, seed: number, { all, ordered }: Wiring): Tensor[] {
  const rng = random(seed + 2);
  const chosen = nodes.filter((_, i) => i === nodes.length - 1 || rng() < 0.12);
  if (ordered) for (const t of nodes) graph.expand(t);
  for (const t of all ? [...inputs, ...nodes] : chosen) t.asOutput();
  return chosen;
}

describe.each([true, false])("random graphs, nodes that write into others: %s", (ordered) => {
  test(`${GRAPHS} of them give the same bits on one thread, on three, and when no memory is used twice`, async () => {
    for (let i = 0; i < GRAPHS; i++) {
      const seed = 1000 * i + (ordered ? 1 : 500);
      (three.backend as CpuBackend).soloWork = [0, 0, 100, 1000][i % 4]!;
      const plain = await run(one, seed, { all: false, ordered });
      const threaded = await run(three, seed, { all: false, ordered });
      const apart = await run(one, seed, { all: true, ordered });
      const differ = (other: readonly Uint8Array[]): number[] =>
        plain.flatMap((bytes, k) => (equal(bytes, other[k]!) ? [] : [k]));
      expect([seed, "threads", ...differ(threaded)]).toEqual([seed, "threads"]);
      expect([seed, "memory", ...differ(apart)]).toEqual([seed, "memory"]);
    }
  }, 60_000);
});
