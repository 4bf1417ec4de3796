// Likelihood of a text under a model.

import { FormatError, GraphError } from "../errors.ts";
import type { Engine } from "../runtime/engine.ts";
import { Type } from "../types.ts";
import { checkKvType, type KvType } from "./cache.ts";
import { Context, contextGraphs } from "./context.ts";
import type { ModelPlan } from "./plan_model.ts";

/** Tokens per batch, each with its row of logits. */
const BATCH = 32;

/** Options of an evaluation. */
export interface EvaluateOptions {
  /** type of keys and values; default F32, so that nothing but the weights is rounded */
  readonly kvType?: KvType | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Their names. */
export const EVALUATE_OPTIONS: readonly string[] = ["kvType", "signal"];

/** What an evaluation came to. */
export interface Evaluation {
  /** tokens that were predicted */
  readonly nTokens: number;
  /** mean negative log-likelihood, nats per token */
  readonly meanNll: number;
}

/**
 * Evaluates token ids that begin with the start token, in a context of its own.
 *
 * @throws {GraphError} bad-data when there is nothing to predict; bad-param for a kvType that does not fit
 */
export async function evaluate(
  engine: Engine,
  plan: ModelPlan,
  ids: readonly number[],
  { kvType = Type.F32, signal }: EvaluateOptions = {},
): Promise<Evaluation> {
  const { params, build } = plan.header;
  checkKvType(params, kvType);
  if (ids.length < 2) throw new GraphError("bad-data", `evaluate: ${ids.length} tokens, expected at least 2`);
  const windows = cut(ids, params.nCtxTrain);
  const nCtx = Math.max(...windows.map((w) => w.length));
  const nBatch = Math.min(BATCH, nCtx);
  const shape = { nCtx, nBatch, nOut: nBatch, kvType };
  const context = new Context(engine, contextGraphs(engine, build, params, plan.weights, shape), params);
  try {
    let sum = 0;
    let nTokens = 0;
    for (const window of windows) {
      context.rewind();
      let i = 0;
      for await (const logits of context.appendAll(window.slice(0, -1), signal)) {
        sum += nll(logits, window[++i]!);
        nTokens++;
      }
    }
    return { nTokens, meanNll: sum / nTokens };
  } finally {
    context.dispose();
  }
}

// Windows of at most `nCtx` tokens, each with the first token of all in front.
function cut(ids: readonly number[], nCtx: number): (readonly number[])[] {
  const windows: (readonly number[])[] = [];
  const step = Math.max(1, nCtx - 1);
  for (let from = 1; from < ids.length; from += step)
    windows.push([ids[0]!, ...ids.slice(from, from + step)]);
  return windows;
}

/** -log softmax(logits)[id], in double precision. */
function nll(logits: Float32Array, id: number): number {
  let max = -Infinity;
  for (const x of logits) max = Math.max(max, x);
  let sum = 0;
  for (const x of logits) sum += Math.exp(x - max);
  const value = Math.log(sum) + max - logits[id]!;
  if (Number.isFinite(value)) return value;
  throw new FormatError("non-finite", "evaluate: the logits hold NaN or infinity", { actual: value });
}
