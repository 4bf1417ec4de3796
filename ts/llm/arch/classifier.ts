// The classifier on top of an encoder: a dense layer and the labels' rows, each of which a file may lack.

import type { Tensor } from "../../graph/tensor.ts";
import type { Net } from "./net.ts";

/** Scores of pooled rows x [E, S]: [labels, S]. */
export function classifier(net: Net, x: Tensor, act: (x: Tensor) => Tensor): Tensor {
  const dense = net.has("cls.weight");
  if (dense) x = act(net.resized(x, "cls")); //                                  [E, S]
  if (net.has("cls.norm.weight")) x = net.plainLayerNorm(x, "cls.norm");
  return dense && !net.has("cls.output.weight") ? x : net.linear(x, "cls.output", net.p.nLabels);
}
