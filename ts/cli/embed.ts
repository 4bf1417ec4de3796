// slackwater embed: texts in, vectors out, one JSON line each, as they come.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import type { Embedding, EmbedOptions, Model } from "../llm/index.ts";
import { type Args, existing, type Option, parse } from "./args.ts";
import { MODEL_OPTIONS, onInterrupt, openModel } from "./model_options.ts";

const OPTIONS: Record<string, Option> = {
  file: { type: "string", short: "f", help: "texts, one a line; default: standard input" },
  pooling: { type: "string", help: "none, mean, cls, last or rank; default: as the file says" },
  raw: { type: "boolean", help: "do not normalise the vectors" },
  truncate: { type: "boolean", help: "cut texts that are longer than the context" },
  ...MODEL_OPTIONS,
};

/** Texts that are computed together, at most. */
const TOGETHER = 32;

/** What was done, for --json. */
interface Summary {
  texts: number;
  tokens: number;
  truncated: number;
}

/** Reads lines, each a text, a JSON string or {"text": ...}; prints {"index", "embedding", "tokens"} for each. */
export async function embedCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater embed MODEL [--file FILE] < texts", argv, OPTIONS);
  if (args === undefined) return;
  const file = textsOf(args);
  using interrupt = onInterrupt();
  using model = await openModel(args, interrupt.signal);
  const input = file === undefined ? process.stdin : createReadStream(file);
  const summary = await embedLines(model, input, embedOptions(args, interrupt.signal));
  if (args.json) console.log(JSON.stringify(summary));
}

function embedOptions(args: Args, signal: AbortSignal): EmbedOptions {
  const pooling = args.text("pooling") as EmbedOptions["pooling"];
  return {
    ...(pooling === undefined ? {} : { pooling }),
    ...(args.flag("raw") ? { normalize: false } : {}),
    truncate: args.flag("truncate"),
    signal,
  };
}

// The file of texts; undefined for standard input.
function textsOf(args: Args): string | undefined {
  const file = args.text("file");
  if (file !== undefined) return existing(file);
  if (process.stdin.isTTY) throw new TypeError("embed: no texts: pipe them in, or name a --file");
  return undefined;
}

// Lines in groups: what has come while the group before was computed. Whoever writes one line and waits for its vector
// gets it.
async function* groups(input: Readable): AsyncGenerator<readonly string[], void> {
  const reader = createInterface({ input, crlfDelay: Infinity });
  const waiting: string[] = [];
  let open = true;
  let failure: Error | undefined;
  let wake = (): void => {};
  reader.on("line", (line) => {
    if (waiting.push(line) >= 4 * TOGETHER) reader.pause();
    wake();
  });
  reader.on("error", (error: Error) => {
    failure = error;
    wake();
  });
  reader.on("close", () => {
    open = false;
    wake();
  });
  try {
    for (;;) {
      if (failure !== undefined) throw failure;
      if (waiting.length > 0) yield waiting.splice(0, TOGETHER);
      else if (!open) return;
      else {
        reader.resume();
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  } finally {
    reader.close();
    input.destroy(); // a pipe whose writer lives on would hold the process
  }
}

async function embedLines(model: Model, input: Readable, options: EmbedOptions): Promise<Summary> {
  const summary: Summary = { texts: 0, tokens: 0, truncated: 0 };
  let number = 0;
  for await (const group of groups(input)) {
    const texts = group.flatMap((line) => (number++, line.trim() === "" ? [] : [textOf(line, number)]));
    for (const done of await model.embed(texts, options)) print(done, summary);
  }
  return summary;
}

function print({ embedding, nTokens, truncated }: Embedding, summary: Summary): void {
  const numbers = Array.from(embedding, (x) => Number(x.toPrecision(9))); // as many digits as f32 has
  const line = { index: summary.texts, embedding: numbers, tokens: nTokens };
  console.log(JSON.stringify(truncated ? { ...line, truncated } : line));
  summary.texts++;
  summary.tokens += nTokens;
  if (truncated) summary.truncated++;
}

/** Text of a line: JSON where it looks like that, else the line as it is. */
function textOf(line: string, number: number): string {
  if (!/^\s*["{]/.test(line)) return line;
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new TypeError(`embed: line ${number} is no JSON: ${(error as Error).message}`, { cause: error });
  }
  const text = typeof value === "string" ? value : (value as { text?: unknown } | null)?.text;
  if (typeof text === "string") return text;
  throw new TypeError(`embed: line ${number}: expected a string or an object with "text"`);
}
