// slackwater run: generates text from a prompt.

import { type Generation, type GenerateOptions, type Model } from "../llm/index.ts";
import { type Args, type Option, parse } from "./args.ts";
import { interruptSignal, MODEL_OPTIONS, openModel, progressLine } from "./model_options.ts";

const OPTIONS: Record<string, Option> = {
  prompt: { type: "string", short: "p", help: 'prompt; default "Once upon a time"' },
  "n-tokens": { type: "string", short: "n", help: "tokens at most; default: to the end of the context" },
  temp: { type: "string", help: "temperature; 0 = always the most likely token; default 0.8" },
  "top-k": { type: "string", help: "keep the k most likely; 0 = all; default 40" },
  "top-p": { type: "string", help: "keep the most likely up to this probability; default 0.95" },
  "min-p": { type: "string", help: "keep those this fraction as likely as the best; default 0.05" },
  "repeat-penalty": { type: "string", help: "divide logits of recent tokens by this; default 1" },
  "repeat-last-n": { type: "string", help: "how many tokens are recent; default 64" },
  seed: { type: "string", short: "s", help: "seed of the random choice" },
  stop: { type: "string", help: "text that ends the generation" },
  ...MODEL_OPTIONS,
};

/** Prints the prompt and its continuation as it comes; with --json one object with ids, text, timings and memory. */
export async function runCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater run [MODEL] [options]", argv, OPTIONS);
  if (args === undefined) return;
  const signal = interruptSignal();
  const options = generateOptions(args, signal);
  const prompt = args.text("prompt") ?? "Once upon a time";
  const model = await openModel(args, signal);
  try {
    if (args.json) printJson(model, await model.complete(prompt, options));
    else await tell(model, prompt, options);
  } finally {
    model.dispose();
  }
}

function generateOptions(args: Args, signal: AbortSignal): GenerateOptions {
  const all: GenerateOptions = {
    maxTokens: args.number("n-tokens"),
    stop: args.text("stop") === undefined ? undefined : [args.text("stop")!],
    signal,
    onProgress: progressLine(),
  };
  const sampling = {
    temperature: args.number("temp"),
    topK: args.number("top-k"),
    topP: args.number("top-p"),
    minP: args.number("min-p"),
    repeatPenalty: args.number("repeat-penalty"),
    repeatLastN: args.number("repeat-last-n"),
    seed: args.number("seed"),
  };
  return { ...all, ...Object.fromEntries(Object.entries(sampling).filter(([, v]) => v !== undefined)) };
}

function printJson(model: Model, { tokens, text, promptTokens, stopReason, timings }: Generation): void {
  console.log(JSON.stringify({ tokens, text, promptTokens, stopReason, timings, memory: model.memory() }));
}

async function tell(model: Model, prompt: string, options: GenerateOptions): Promise<void> {
  const run = model.generate(prompt, options);
  let begun = false;
  for (;;) {
    const step = await run.next();
    if (!begun) process.stdout.write(prompt);
    begun = true;
    if (step.done) return finish(step.value, model);
    process.stdout.write(step.value);
  }
}

function finish({ promptTokens, tokens, timings, stopReason }: Generation, model: Model): void {
  process.stdout.write("\n");
  console.error(
    `\nprompt ${promptTokens.length} tokens, ${timings.promptTokensPerSecond.toFixed(1)} tokens/s; ` +
      `generated ${tokens.length}, ${timings.tokensPerSecond.toFixed(1)} tokens/s (${stopReason}); ` +
      `${model.engine.nThreads} threads, ${model.engine.build} build`,
  );
}
