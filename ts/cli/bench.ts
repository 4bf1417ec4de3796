// slackwater bench: prompt and generation rates, as llama-bench gives them.

import { writeFileSync } from "node:fs";
import type { Model } from "../llm/index.ts";
import { Profile, type ProfileRow } from "../runtime/profile.ts";
import { parse } from "./args.ts";
import { MODEL_OPTIONS, onInterrupt, openModel } from "./model_options.ts";

/** Prints rates of R runs: P prompt tokens, then N generated ones; end tokens are ignored, no prompt is cached. */
export async function benchCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater bench [MODEL] [--pp N] [--tg N] [--reps R] [--profile TRACE]", argv, {
    pp: { type: "string", help: "prompt tokens; default 256" },
    tg: { type: "string", help: "generated tokens; default 64" },
    reps: { type: "string", short: "r", help: "runs; default 3" },
    profile: {
      type: "string",
      help: "time each node, to this file as a Chrome trace; nodes then run one by one, so rates are lower",
    },
    ...MODEL_OPTIONS,
  });
  if (args === undefined) return;
  const [pp, tg, reps] = [
    count(args.number("pp"), 256),
    count(args.number("tg"), 64),
    count(args.number("reps"), 3),
  ];
  using interrupt = onInterrupt();
  const { signal } = interrupt;
  const start = performance.now();
  using model = await openModel(args, signal);
  const loadMs = performance.now() - start;
  const path = args.text("profile");
  const profile = path === undefined ? undefined : new Profile(model.engine);
  const rates = await measure(model, { pp, tg, reps }, signal, profile);
  profile?.stop();
  if (path !== undefined) writeFileSync(path, JSON.stringify(profile!.trace()));
  const { nThreads: threads, build, vectors } = model.engine;
  const result = {
    loadMs,
    threads,
    build,
    vectors,
    pp: { n: pp, tps: rates.pp },
    tg: { n: tg, tps: rates.tg },
    memory: model.memory(),
    ...(profile === undefined ? {} : { profile: profileOf(profile) }),
  };
  if (profile !== undefined && !args.json) printProfile(profile);
  if (args.json) console.log(JSON.stringify(result));
  else {
    console.log(
      `pp${pp}: ${median(rates.pp).toFixed(1)} tokens/s   tg${tg}: ${median(rates.tg).toFixed(1)} tokens/s`,
    );
    console.log(
      `(median of ${reps}; ${threads} threads, ${build} build, ${vectors}-bit vectors, loaded in ${loadMs.toFixed(0)} ms)`,
    );
  }
}

/** Parts of a run. */
const PHASES = ["prompt", "generation"] as const;

function profileOf(profile: Profile): object {
  return Object.fromEntries(
    PHASES.map((phase) => [
      phase,
      {
        ms: profile.total(phase),
        outsideProducts: profile.outsideProducts(phase),
        ops: profile.byOp(phase),
        nodes: profile.byNode(phase),
      },
    ]),
  );
}

function printProfile(profile: Profile): void {
  for (const phase of PHASES) {
    const outside = (100 * profile.outsideProducts(phase)).toFixed(1);
    console.log(
      `${phase}: ${profile.total(phase).toFixed(1)} ms in nodes, ${outside} % of it outside products and attention`,
    );
    for (const rows of [profile.byOp(phase), profile.byNode(phase).slice(0, 20)]) console.log(lines(rows));
  }
}

function lines(rows: readonly ProfileRow[]): string {
  const line = ({ name, count, ms, share }: ProfileRow): string =>
    `${(100 * share).toFixed(1).padStart(6)} %${ms.toFixed(2).padStart(10)} ms${String(count).padStart(7)} x  ${name}`;
  return `${rows.map(line).join("\n")}\n`;
}

async function measure(
  model: Model,
  { pp, tg, reps }: { readonly pp: number; readonly tg: number; readonly reps: number },
  signal: AbortSignal,
  profile: Profile | undefined,
): Promise<{ pp: number[]; tg: number[] }> {
  if (pp + tg > model.nCtx)
    throw new TypeError(`bench: ${pp} + ${tg} tokens, but the context is ${model.nCtx}; see --ctx`);
  const rates = { pp: [] as number[], tg: [] as number[] };
  const { nVocab } = model.params;
  // Any ids will do; a fixed pattern over the vocabulary keeps runs alike.
  const prompt = Array.from({ length: pp }, (_, i) => (i * 7919 + 17) % nVocab);
  const options = { temperature: 0, maxTokens: tg, ignoreEos: true, cachePrompt: false, signal };
  await model.complete(prompt.slice(0, 2), { ...options, maxTokens: 2 }); // warm-up: tier-up of the kernels
  const onToken = (): void => {
    if (profile !== undefined) profile.phase = PHASES[1];
  };
  for (let i = 0; i < reps; i++) {
    if (profile !== undefined) profile.phase = PHASES[0];
    const { timings } = await model.complete(prompt, { ...options, onToken });
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
