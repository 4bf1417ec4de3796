// slackwater eval: likelihood of a text under a model.

import { readFileSync } from "node:fs";
import { existing, parse } from "./args.ts";
import { kvType, MODEL_OPTIONS, onInterrupt, openModel } from "./model_options.ts";

/** Prints the mean negative log-likelihood of a text file, taken byte for byte. */
export async function evalCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater eval [MODEL] --text-file FILE", argv, {
    "text-file": { type: "string", short: "f", help: "the text, UTF-8, taken as it is" },
    ...MODEL_OPTIONS,
  });
  if (args === undefined) return;
  const path = args.text("text-file");
  if (path === undefined) throw new TypeError("eval: --text-file FILE is missing");
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(readFileSync(existing(path)));
  using interrupt = onInterrupt();
  const { signal } = interrupt;
  using model = await openModel(args, signal);
  const { nTokens, meanNll } = await model.evaluate(text, { kvType: kvType(args), signal });
  if (args.json) console.log(JSON.stringify({ nTokens, meanNll }));
  else
    console.log(
      `${nTokens} tokens, mean NLL ${meanNll.toFixed(4)}, perplexity ${Math.exp(meanNll).toFixed(3)}`,
    );
}
