// A short measurement: how fast each backend is at what models do most, products of weights with a few columns.

import { Type } from "../../assembly/abi.ts";
import type { Graph } from "../graph/graph.ts";
import type { Tensor } from "../graph/tensor.ts";
import type { Backend, Costs } from "./backend.ts";

/** Side of the weights, columns, and products in a row: some 40 ms on one thread. */
const SIDE = 768;
const COLUMNS = 8;
const DEPTH = 8;
const RUNS = 3;

/** What is needed of an engine. */
export interface Bench {
  /** the CPU */
  readonly backend: Backend;
  graph(): Graph;
  pin(t: Tensor, backend: string): void;
}

/** Best time of a few runs that are waited for, ms. The first is not counted. */
async function bestMs(engine: Bench, name: string, depth: number): Promise<number> {
  using g = engine.graph();
  const x = g.input("x", Type.F32, [SIDE, COLUMNS]);
  const w = g.weight("w", Type.F32, [SIDE, SIDE]);
  engine.pin(w, name);
  let y: Tensor = x;
  for (let i = 0; i < depth; i++) {
    y = g.mulMat(w, y);
    engine.pin(y, name);
  }
  y.asOutput("y");
  g.plan();
  w.write(new Float32Array(SIDE * SIDE));
  x.write(new Float32Array(SIDE * COLUMNS));
  let best = Infinity;
  for (let i = 0; i <= RUNS; i++) {
    const start = performance.now();
    await g.compute();
    await y.read();
    if (i > 0) best = Math.min(best, performance.now() - start);
  }
  return best;
}

/**
 * Speed of a backend against the CPU of the same engine, and its round trip.
 *
 * @throws what running on it throws
 */
export async function measureCosts(engine: Bench, name: string): Promise<Costs> {
  const cpu = await bestMs(engine, engine.backend.name, DEPTH);
  const roundTripMs = await bestMs(engine, name, 1);
  const device = await bestMs(engine, name, DEPTH);
  return { speed: cpu / device, roundTripMs };
}
