// Choosing the next token inside a graph, so that nobody waits for logits: the same filters as the sampler's, in F32.
//
//   greedy    logits -> argmax
//   else      logits -> top-k, best first -> top-p and min-p cut off the end -> draw, by a random number from outside

import { Unary } from "../../assembly/abi.ts";
import type { GraphBuilder } from "../graph/builder.ts";
import type { Tensor } from "../graph/tensor.ts";
import { Type } from "../types.ts";
import { logProbability } from "./random.ts";
import type { Settings } from "./sampling.ts";

/** Candidates that a graph chooses among at most. */
const MAX_K = 256;
/** Largest F32 below 1 whose products stay below the other factor. */
const BELOW_ONE = 1 - 2 ** -22;
/** Stand-ins for infinity: F32 that a product with a difference of logits does not make infinite. */
const FAR = 1e30;
const STEEPEST = 1e6;

/** A choice in a graph. */
export interface Choice {
  /** the token, I32 [1] */
  readonly id: Tensor;
  /** what it depends on, F32 [4]: see {@link choiceInput}; absent when greedy */
  readonly input: Tensor | undefined;
}

/**
 * How many of the best candidates decide by these settings; 0: the best alone. Undefined for what only the sampler can do:
 * penalties, bias, typical-p, more than 256 candidates.
 */
export function deviceCandidates(s: Settings, nVocab: number): number | undefined {
  const counts = s.repeatPenalty !== 1 || s.frequencyPenalty !== 0 || s.presencePenalty !== 0;
  const adjusts = (counts && s.repeatLastN > 0) || s.dryMultiplier > 0 || s.logitBias.size > 0;
  if (adjusts || s.typicalP < 1) return undefined;
  if (s.temperature === 0) return 0;
  const k = s.topK === 0 ? nVocab : Math.min(s.topK, nVocab);
  return k <= MAX_K ? k : undefined;
}

/** Adds the choice among the `k` best of logits [V, 1], as {@link deviceCandidates} counts them. */
export function chooseToken(g: GraphBuilder, logits: Tensor, k: number): Choice {
  if (k === 0) return { id: g.argmax(logits), input: undefined };
  const input = g.input("sampling", Type.F32, [4]);
  const [topP, reach, steepness, uniform] = [0, 1, 2, 3].map((i) => g.view(input, [1], { offset: 4 * i }));
  const step = (x: Tensor): Tensor => g.unary(x, Unary.STEP);
  const ids = g.topK(logits, k); //                                          [K]
  const x = g.reshape(g.getRows(g.reshape(logits, [1, logits.ne[0]]), ids), [k]);
  const p = g.softMax(x); //                                                 [K], best first
  const before = g.sub(g.cumsum(p), p);
  const below = g.sub(x, g.view(x, [1])); //                                 distance from the best, not above 0
  const beyond = step(g.sub(before, topP!));
  const unlikely = step(g.add(g.unary(below, Unary.NEG), reach!));
  const out = g.scale(g.add(beyond, unlikely), FAR);
  const sums = g.cumsum(g.unary(g.sub(g.mul(below, steepness!), out), Unary.EXP));
  const goal = g.mul(g.view(sums, [1], { offset: 4 * (k - 1) }), uniform!);
  const after = g.sum(step(g.sub(sums, goal))); //                           candidates from the drawn one on
  const at = g.cast(g.clamp(g.scale(after, -1, k), 0, k - 1), Type.I32); //    none when logits are no numbers
  return { id: g.reshape(g.getRows(g.reshape(ids, [1, k]), at), [1]), input };
}

/** Values of a choice's input: top-p, min-p as a distance, 1 / temperature, a random number in [0, 1). */
export function choiceInput({ topP, minP, temperature }: Settings, target: Float32Array): void {
  target[0] = topP < 1 ? topP : 2;
  target[1] = minP > 0 ? logProbability(minP) : -FAR;
  target[2] = Math.min(1 / temperature, STEEPEST);
}

/** Sets the random number. */
export function setRandom(target: Float32Array, uniform: number): void {
  target[3] = Math.min(uniform, BELOW_ONE);
}
