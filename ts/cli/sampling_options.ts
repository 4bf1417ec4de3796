// Options of commands that sample tokens.

import { SAMPLING_DEFAULTS as D, type SamplingOptions } from "../llm/index.ts";
import type { Args, Option } from "./args.ts";

/** Command line options for {@link samplingOptions}. */
export const SAMPLING: Readonly<Record<string, Option>> = {
  temp: { type: "string", help: `temperature; 0 = always the most likely token; default ${D.temperature}` },
  "top-k": { type: "string", help: `keep the k most likely; 0 = all; default ${D.topK}` },
  "typical-p": {
    type: "string",
    help: `keep the most typical up to this probability; default ${D.typicalP} = all`,
  },
  "top-p": { type: "string", help: `keep the most likely up to this probability; default ${D.topP}` },
  "min-p": { type: "string", help: `keep those this fraction as likely as the best; default ${D.minP}` },
  "repeat-penalty": {
    type: "string",
    help: `divide logits of recent tokens by this; default ${D.repeatPenalty}`,
  },
  "frequency-penalty": { type: "string", help: "subtract from them for each time; default 0" },
  "presence-penalty": { type: "string", help: "subtract from them once; default 0" },
  "repeat-last-n": { type: "string", help: `how many tokens are recent; default ${D.repeatLastN}` },
  "dry-multiplier": { type: "string", help: "penalty on going on with a repetition; default 0 = off" },
  "dry-base": { type: "string", help: `growth of it per token; default ${D.dryBase}` },
  "dry-allowed-length": {
    type: "string",
    help: `repetition that costs nothing; default ${D.dryAllowedLength}`,
  },
  "dry-last-n": { type: "string", help: `tokens looked through for repetitions; default ${D.dryLastN}` },
  "logit-bias": { type: "string", help: "ID=BIAS,ID=BIAS ...: added to logits; -Infinity forbids" },
  seed: { type: "string", short: "s", help: "seed of the random choice" },
};

/**
 * Sampling options from arguments; those not given are left out.
 *
 * @throws {TypeError} for values that are no numbers
 */
export function samplingOptions(args: Args): SamplingOptions {
  const bias = args.text("logit-bias");
  const all: SamplingOptions = {
    temperature: args.number("temp"),
    topK: args.number("top-k"),
    typicalP: args.number("typical-p"),
    topP: args.number("top-p"),
    minP: args.number("min-p"),
    repeatPenalty: args.number("repeat-penalty"),
    frequencyPenalty: args.number("frequency-penalty"),
    presencePenalty: args.number("presence-penalty"),
    repeatLastN: args.number("repeat-last-n"),
    dryMultiplier: args.number("dry-multiplier"),
    dryBase: args.number("dry-base"),
    dryAllowedLength: args.number("dry-allowed-length"),
    dryLastN: args.number("dry-last-n"),
    logitBias: bias === undefined ? undefined : readBias(bias),
    seed: args.number("seed"),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function readBias(text: string): Record<number, number> {
  const entries = text.split(",").map((entry) => {
    const [, id, bias] = /^\s*(\d+)\s*=\s*(\S+)\s*$/.exec(entry) ?? [];
    if (id === undefined || Number.isNaN(Number(bias))) {
      throw new TypeError(`--logit-bias: "${entry}", expected ID=BIAS`);
    }
    return [id, Number(bias)];
  });
  return Object.fromEntries(entries) as Record<number, number>;
}
