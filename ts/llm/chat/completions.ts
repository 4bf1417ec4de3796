// Chat completions as OpenAI's clients ask for them, answered by a context of a model.

import { checkOptions, GraphError } from "../../errors.ts";
import type { GenerateOptions, Generation } from "../generate.ts";
import type { TokenLogprobs } from "../logprobs.ts";
import type { Tokenizer } from "../tokenizer.ts";
import type { Prompter, PromptOptions } from "./prompt.ts";
import { type ChatRequest, readRequest, type ReadRequest } from "./request.ts";
import {
  type ChatChunk,
  type ChatCompletion,
  chatLogprobs,
  chunk,
  completion,
  envelope,
  type Envelope,
  finishReason,
  usageChunk,
  usageOf,
} from "./response.ts";
import { ToolReader } from "./tool_calls.ts";

/** What is passed beside a request. */
export interface ChatOptions {
  /** ends the answer: the call, or the stream, fails with its reason */
  readonly signal?: AbortSignal | undefined;
}

/** What answers: a context here, or one in a worker. */
export interface ChatTarget {
  render(options: PromptOptions): Promise<string>;
  create(request: ChatRequest, options?: ChatOptions): Promise<ChatCompletion | ChatStream>;
}

/** `chat` of a model or context. */
export class Chat {
  readonly completions: Completions;
  readonly #target: ChatTarget;

  constructor(target: ChatTarget) {
    this.#target = target;
    this.completions = new Completions(target);
  }

  /**
   * The text that a conversation becomes by the model's template, as the model would read it.
   *
   * @throws {FormatError} template-error
   * @throws {GraphError} bad-param
   */
  async render(options: PromptOptions): Promise<string> {
    return this.#target.render(options);
  }
}

/** `chat.completions` of a model or context. */
export class Completions {
  readonly #target: ChatTarget;

  constructor(target: ChatTarget) {
    this.#target = target;
  }

  /**
   * Answers a conversation. What it shares with the one before is not computed again: usage tells how much that was.
   * With `stream: true` the result can be iterated over with `for await`; leaving the loop ends the answer.
   *
   * @throws {FormatError} template-error when the model's template refuses the conversation, is broken or absent;
   *   non-finite
   * @throws {GraphError} bad-param, naming fields that are not supported; context-full when the prompt does not fit;
   *   busy, disposed; token-range for a bias of no token
   * @throws {TypeError} for a misspelt field; the reason of `signal`
   */
  create(request: ChatRequest & { readonly stream: true }, options?: ChatOptions): Promise<ChatStream>;
  create(
    request: ChatRequest & { readonly stream?: false | null },
    options?: ChatOptions,
  ): Promise<ChatCompletion>;
  create(request: ChatRequest, options?: ChatOptions): Promise<ChatCompletion | ChatStream>;
  async create(request: ChatRequest, options: ChatOptions = {}): Promise<ChatCompletion | ChatStream> {
    return this.#target.create(request, options);
  }
}

/** What a context answers with. */
export interface ChatModel {
  readonly tokenizer: Tokenizer;
  readonly prompter: Prompter;
  /** name for answers to requests that give none */
  readonly name: string;
  /** positions of the context */
  readonly nCtx: number;
  generate(
    prompt: readonly number[],
    options: GenerateOptions,
  ): AsyncGenerator<string, Generation, undefined>;
}

/** Answers by a context of this thread. */
export class ContextChat implements ChatTarget {
  readonly #model: ChatModel;

  constructor(model: ChatModel) {
    this.#model = model;
  }

  async render(options: PromptOptions): Promise<string> {
    const names = ["messages", "tools", "addGenerationPrompt", "variables", "date"];
    checkOptions("chat.render", options, names);
    return this.#model.prompter.render(options);
  }

  async create(request: ChatRequest, options: ChatOptions = {}): Promise<ChatCompletion | ChatStream> {
    checkOptions("chat.completions", options, ["signal"]);
    const { signal } = options;
    const read = readRequest(request);
    signal?.throwIfAborted();
    const ids = await this.#model.prompter.with(read.chatTemplate).encode(read.prompt);
    this.#fits(ids.length);
    const e = envelope(read.model ?? this.#model.name);
    const { tokenizer } = this.#model;
    if (read.stream) return new ChatStream(() => chunks(this.#model, ids, read, e, signal));
    const run = this.#model.generate(ids, { ...read.generate, signal });
    let step = await run.next();
    while (!step.done) step = await run.next();
    if (step.value.stopReason === "abort") throw signal!.reason as Error;
    return completion(e, step.value, tokenizer, read.tools);
  }

  #fits(n: number): void {
    const { nCtx } = this.#model;
    if (n <= nCtx) return;
    const text = `chat.completions: the conversation has ${n} tokens, the context ${nCtx}`;
    throw new GraphError("context-full", text, { expected: nCtx, actual: n });
  }
}

/** An answer that comes in parts. It can be gone through once. */
export class ChatStream implements AsyncIterable<ChatChunk> {
  readonly #start: () => AsyncGenerator<ChatChunk, void, undefined>;
  #started = false;

  constructor(start: () => AsyncGenerator<ChatChunk, void, undefined>) {
    this.#start = start;
  }

  /** @throws {GraphError} busy when iterated over before */
  [Symbol.asyncIterator](): AsyncGenerator<ChatChunk, void, undefined> {
    if (this.#started) throw new GraphError("busy", "chat.completions: the stream has been read already");
    this.#started = true;
    return this.#start();
  }

  /** The same as lines of JSON, for the body of a Response. Cancelling it ends the answer. */
  toReadableStream(): ReadableStream<Uint8Array> {
    const parts = this[Symbol.asyncIterator]();
    const encoder = new TextEncoder();
    return new ReadableStream({
      async pull(controller): Promise<void> {
        const step = await parts.next();
        if (step.done) controller.close();
        else controller.enqueue(encoder.encode(`${JSON.stringify(step.value)}\n`));
      },
      async cancel(): Promise<void> {
        await parts.return();
      },
    });
  }
}

async function* chunks(
  model: ChatModel,
  ids: readonly number[],
  read: ReadRequest,
  e: Envelope,
  signal: AbortSignal | undefined,
): AsyncGenerator<ChatChunk, void, undefined> {
  let pending: TokenLogprobs[] = [];
  const onToken = (_id: number, logprobs?: TokenLogprobs): void => {
    if (logprobs !== undefined) pending.push(logprobs);
  };
  // Log-probabilities of the tokens since the chunk before.
  const taken = () => {
    if (read.generate.logprobs === undefined) return null;
    const list = pending;
    pending = [];
    return chatLogprobs(list, model.tokenizer);
  };
  const reader = new ToolReader(read.tools);
  yield chunk(e, { role: "assistant", content: "" });
  const run = model.generate(ids, { ...read.generate, signal, onToken });
  try {
    for (;;) {
      const step = await run.next();
      if (!step.done) {
        const content = reader.push(step.value);
        if (content !== "") yield chunk(e, { content }, { logprobs: taken() });
        continue;
      }
      const { value } = step;
      if (value.stopReason === "abort") throw signal!.reason as Error;
      const { text, calls } = reader.end();
      if (text !== "") yield chunk(e, { content: text }, { logprobs: taken() });
      for (const [index, call] of calls.entries()) yield chunk(e, { tool_calls: [{ index, ...call }] });
      const usage = usageOf(value);
      const rest = pending.length > 0 ? { logprobs: taken() } : {};
      const last = { ...rest, finish_reason: finishReason(value.stopReason, calls.length > 0) };
      yield chunk(e, {}, read.usage === "last chunk" ? { ...last, usage } : last);
      if (read.usage === "own chunk") yield usageChunk(e, usage);
      return;
    }
  } finally {
    await run.return(undefined as never);
  }
}
