// slackwater chat: a conversation on the terminal, or one answer to the messages of a file.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { FormatError } from "../errors.ts";
import { type ChatMessage, type ChatRequest, type Model, type SamplingOptions } from "../llm/index.ts";
import { type Args, existing, type Option, parse } from "./args.ts";
import { MODEL_OPTIONS, modelPath, onInterrupt, openModel } from "./model_options.ts";
import { complain } from "./progress.ts";
import { SAMPLING, samplingOptions } from "./sampling_options.ts";

const OPTIONS: Record<string, Option> = {
  messages: {
    type: "string",
    short: "m",
    help: "JSON file: a list of messages, or { messages, tools, ... }; one answer",
  },
  prompt: { type: "string", short: "p", help: "one message of the user; one answer" },
  system: { type: "string", help: "system message" },
  "n-tokens": {
    type: "string",
    short: "n",
    help: "tokens of an answer at most; default: to the end of the context",
  },
  stop: { type: "string", help: "text that ends an answer" },
  template: { type: "string", help: 'file of a chat template, name of one in the model, or "chatml"' },
  ...SAMPLING,
  ...MODEL_OPTIONS,
};

/**
 * Answers once with --messages, --prompt or text on standard input, else talks until the end of input. With --json one
 * completion as OpenAI's clients know it.
 */
export async function chatCommand(argv: readonly string[]): Promise<void> {
  const args = parse("slackwater chat MODEL [options]", argv, OPTIONS);
  if (args === undefined) return;
  if (args.positionals.length === 0) throw new TypeError("chat: MODEL is missing");
  modelPath(args); // before standard input is waited for
  const request = readRequest(args);
  const once = await firstMessages(args, request);
  using model = await openModel(args, undefined);
  if (once === undefined) await converse(model, request);
  else await answerOnce(model, { ...request, messages: once }, args.json);
}

/**
 * The request without the message still to come: fields and messages of the file, then what other options say over them.
 * A system message goes first.
 */
function readRequest(args: Args): ChatRequest {
  const file = args.text("messages");
  const base: ChatRequest = file === undefined ? { messages: [] } : requestOf(file);
  const system = args.text("system");
  const first: readonly ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
  return {
    ...base,
    ...samplingFields(samplingOptions(args)),
    ...(args.number("n-tokens") === undefined ? {} : { max_tokens: args.number("n-tokens") }),
    ...(args.text("stop") === undefined ? {} : { stop: args.text("stop") }),
    ...(args.text("template") === undefined ? {} : { chat_template: templateText(args.text("template")!) }),
    messages: [...first, ...base.messages],
  };
}

// What a file of messages holds: a list of them, or an object that has one.
function requestOf(file: string): ChatRequest {
  const path = existing(file);
  let given: unknown;
  try {
    given = JSON.parse(readFileSync(path, "utf8"));
  } catch (cause) {
    throw new FormatError("bad-value", `--messages: ${file}: ${(cause as Error).message}`, { cause });
  }
  const request = (Array.isArray(given) ? { messages: given } : given) as ChatRequest | null;
  if (Array.isArray(request?.messages)) return request;
  throw new FormatError("bad-value", `--messages: ${file} holds no list of messages`);
}

// The messages to answer at once; undefined for a conversation.
async function firstMessages(args: Args, request: ChatRequest): Promise<readonly ChatMessage[] | undefined> {
  const prompt = args.text("prompt") ?? (args.text("messages") === undefined ? await pipedText() : undefined);
  if (prompt !== undefined) return [...request.messages, { role: "user", content: prompt }];
  if (args.text("messages") !== undefined) return request.messages;
  if (args.json)
    throw new TypeError("chat: --json needs --messages FILE, --prompt TEXT or text on standard input");
  return undefined;
}

/** Standard input when it is no terminal. */
async function pipedText(): Promise<string | undefined> {
  if (process.stdin.isTTY) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of process.stdin) parts.push(part as Uint8Array);
  const text = Buffer.concat(parts).toString("utf8").trim();
  return text === "" ? undefined : text;
}

// The text of a file, or what was given when there is no such file.
function templateText(text: string): string {
  try {
    return readFileSync(text, "utf8");
  } catch {
    return text;
  }
}

/** Sampling options by the names that requests have for them. */
function samplingFields(options: SamplingOptions): Partial<ChatRequest> {
  const field = (name: string): string =>
    name === "dryLastN" ? "dry_penalty_last_n" : name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
  return Object.fromEntries(Object.entries(options).map(([name, value]) => [field(name), value]));
}

async function answerOnce(model: Model, request: ChatRequest, json: boolean): Promise<void> {
  using interrupt = onInterrupt();
  const { signal } = interrupt;
  if (!json) return void (await tell(model, request, signal));
  const { completions } = model.chat;
  const completion = await completions.create({ ...request, stream: false }, { signal });
  console.log(JSON.stringify(completion));
}

/** Prints an answer as it comes. Returns its text. */
async function tell(model: Model, request: ChatRequest, signal: AbortSignal): Promise<string> {
  const stream = await model.chat.completions.create({ ...request, stream: true }, { signal });
  let text = "";
  try {
    for await (const { choices } of stream) {
      const part = choices[0]?.delta.content ?? "";
      text += part;
      process.stdout.write(part);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  process.stdout.write("\n");
  return text;
}

// Ctrl-C ends an answer, and at the prompt the conversation; so does the end of input.
async function converse(model: Model, request: ChatRequest): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  let open = true; // the end of input may come during an answer
  terminal.on("close", () => (open = false));
  let answer: AbortController | undefined;
  terminal.on("SIGINT", () =>
    answer === undefined ? terminal.close() : answer.abort(new Error("interrupted")),
  );
  console.log("A message, or /clear to begin anew; Ctrl-C ends an answer, Ctrl-D the conversation.");
  let messages = request.messages;
  terminal.setPrompt("\n> ");
  terminal.prompt();
  for await (const line of terminal) {
    if (line.trim() === "/clear") messages = request.messages;
    else if (line.trim() !== "") {
      answer = new AbortController();
      const asked: readonly ChatMessage[] = [...messages, { role: "user", content: line }];
      messages = await turn(model, { ...request, messages: asked }, answer.signal, messages);
      answer = undefined;
    }
    if (open) terminal.prompt();
  }
}

// The conversation with its answer; as it was before when the model cannot answer.
async function turn(
  model: Model,
  request: ChatRequest,
  signal: AbortSignal,
  before: readonly ChatMessage[],
): Promise<readonly ChatMessage[]> {
  try {
    const content = await tell(model, request, signal);
    return [...request.messages, { role: "assistant", content }];
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    complain(code === undefined ? message : `${code}: ${message}`);
    return before;
  }
}
