// One layer of attention over weights that are the same in every engine, for tests of what several graphs share.
import type { Graph } from "../ts/graph/graph.ts";
import { leaf, type Tensor } from "../ts/graph/tensor.ts";
import type { Engine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";

/** Elements of a token. */
export const WIDTH = 24;

/** Weights of q, k, v and the output, [WIDTH, WIDTH] each. */
export type Weights = readonly Tensor[];

/** The layer for some number of tokens. */
export interface Layer {
  readonly g: Graph;
  readonly x: Tensor;
  readonly y: Tensor;
}

/** Weights in memory of this engine. */
export function weights(engine: Engine): Weights {
  const all = ["q", "k", "v", "o"].map((name) => leaf(name, Type.F32, [WIDTH, WIDTH]));
  engine.allocate(all, "weights");
  all.forEach((t, k) =>
    t.write(Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => Math.sin(i * (k + 1)) / 5)),
  );
  return all;
}

/** Attention of `n` tokens: one is a decode step, more are a prompt. The wiring is the same for all n. */
export function layer(engine: Engine, [wq, wk, wv, wo]: Weights, n: number): Layer {
  const g = engine.graph();
  const x = g.input("x", Type.F32, [WIDTH, n]);
  const [q, k, v] = [g.mulMat(wq!, x), g.mulMat(wk!, x), g.mulMat(wv!, x)];
  const s = g.softMax(g.scale(g.mulMat(k, q), 0.2));
  const o = g.mulMat(g.cont(g.transpose(v)), s);
  return { g, x, y: g.add(g.mulMat(wo!, o), x).asOutput("y") };
}

/** What a planned layer makes of the same tokens each time. */
export async function results({ g, x, y }: Layer): Promise<Float32Array> {
  const n = x.ne[1];
  x.write(Float32Array.from({ length: WIDTH * n }, (_, i) => Math.cos(i * 0.7 + n)));
  await g.compute();
  return (await y.read()) as Float32Array;
}
