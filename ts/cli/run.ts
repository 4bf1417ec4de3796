// slackwater run: generates text from a prompt.

import { type Generation, type GenerateOptions, type Model } from "../llm/index.ts";
import { type Args, type Option, parse } from "./args.ts";
import { MODEL_OPTIONS, onInterrupt, openModel } from "./model_options.ts";
import { progressLine } from "./progress.ts";
import { SAMPLING, samplingOptions } from "./sampling_options.ts";

const OPTIONS: Record<string, Option> = {
  prompt: { type: "string", short: "p", help: 'prompt; default "Once upon a time"' },
  "n-tokens": { type: "string", short: "n", help: "tokens at most; default: to the end of the context" },
  stop: { type: "string", help: "text that ends the generation" },
  logprobs: { type: "string", help: "with --json: log-probabilities, and of this many alternatives" },
  "shift-keep": {
    type: "string",
    help: "when the context is full, keep this many tokens and forget older ones",
  },
  ...SAMPLING,
  ...MODEL_OPTIONS,
};

/** Prints the prompt and its continuation as it comes; with --json one object with ids, text, timings and memory. */
export async function runCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater run [MODEL] [options]", argv, OPTIONS);
  if (args === undefined) return;
  using interrupt = onInterrupt();
  const options = generateOptions(args, interrupt.signal);
  const prompt = args.text("prompt") ?? "Once upon a time";
  using model = await openModel(args, interrupt.signal);
  if (args.json) printJson(model, await model.complete(prompt, options));
  else await tell(model, prompt, options);
}

function generateOptions(args: Args, signal: AbortSignal): GenerateOptions {
  const keep = args.number("shift-keep");
  return {
    maxTokens: args.number("n-tokens"),
    stop: args.text("stop") === undefined ? undefined : [args.text("stop")!],
    logprobs: args.number("logprobs"),
    contextShift: keep === undefined ? undefined : { keep },
    signal,
    onProgress: progressLine(),
    ...samplingOptions(args),
  };
}

function printJson(model: Model, generation: Generation): void {
  const { tokens, text, promptTokens, stopReason, timings, logprobs } = generation;
  const result = { tokens, text, promptTokens, stopReason, timings, logprobs, memory: model.memory() };
  console.log(JSON.stringify(result));
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
