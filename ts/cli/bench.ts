// slackwater bench: prompt and generation rates, as llama-bench gives them.

import type { Model } from "../llm/index.ts";
import { parse } from "./args.ts";
import { interruptSignal, MODEL_OPTIONS, openModel } from "./model_options.ts";

/** Prints rates of R runs: P prompt tokens, then N generated ones; end tokens are ignored, no prompt is cached. */
export async function benchCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater bench [MODEL] [--pp N] [--tg N] [--reps R]", argv, {
    pp: { type: "string", help: "prompt tokens; default 256" },
    tg: { type: "string", help: "generated tokens; default 64" },
    reps: { type: "string", short: "r", help: "runs; default 3" },
    ...MODEL_OPTIONS,
  });
  if (args === undefined) return;
  const [pp, tg, reps] = [
    count(args.number("pp"), 256),
    count(args.number("tg"), 64),
    count(args.number("reps"), 3),
  ];
  const signal = interruptSignal();
  const start = performance.now();
  const model = await openModel(args, signal);
  const loadMs = performance.now() - start;
  try {
    const rates = await measure(model, pp, tg, reps, signal);
    const { nThreads: threads, build } = model.engine;
    const result = {
      loadMs,
      threads,
      build,
      pp: { n: pp, tps: rates.pp },
      tg: { n: tg, tps: rates.tg },
      memory: model.memory(),
    };
    if (args.json) console.log(JSON.stringify(result));
    else {
      console.log(
        `pp${pp}: ${median(rates.pp).toFixed(1)} tokens/s   tg${tg}: ${median(rates.tg).toFixed(1)} tokens/s`,
      );
      console.log(
        `(median of ${reps}; ${threads} threads, ${build} build, loaded in ${loadMs.toFixed(0)} ms)`,
      );
    }
  } finally {
    model.dispose();
  }
}

async function measure(
  model: Model,
  pp: number,
  tg: number,
  reps: number,
  signal: AbortSignal,
): Promise<{ pp: number[]; tg: number[] }> {
  if (pp + tg > model.nCtx)
    throw new TypeError(`bench: ${pp} + ${tg} tokens, but the context is ${model.nCtx}; see --ctx`);
  const rates = { pp: [] as number[], tg: [] as number[] };
  const { nVocab } = model.params;
  // Any ids will do; a fixed pattern over the vocabulary keeps runs alike.
  const prompt = Array.from({ length: pp }, (_, i) => (i * 7919 + 17) % nVocab);
  const options = { temperature: 0, maxTokens: tg, ignoreEos: true, cachePrompt: false, signal };
  await model.complete(prompt.slice(0, 2), { ...options, maxTokens: 2 }); // warm-up: tier-up of the kernels
  for (let i = 0; i < reps; i++) {
    const { timings } = await model.complete(prompt, options);
    rates.pp.push(timings.promptTokensPerSecond);
    rates.tg.push(timings.tokensPerSecond);
  }
  return rates;
}

function count(n: number | undefined, fallback: number): number {
  if (n === undefined) return fallback;
  if (Number.isInteger(n) && n >= 1) return n;
  throw new TypeError(`bench: ${n}, expected a count of at least 1`);
}

function median(xs: readonly number[]): number {
  const sorted = [...xs].sort((a, b) => a - b);
  const mid = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[mid]! : (sorted[mid - 1]! + sorted[mid]!) / 2;
}
