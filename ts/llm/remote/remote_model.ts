// A model and its contexts whose work is done in a worker: what `loadModel` gives a page.

import { GraphError } from "../../errors.ts";
import { parseGguf } from "../../gguf/index.ts";
import type { MemoryReport } from "../../runtime/arena.ts";
import { Chat, type ChatOptions, ChatStream, type ChatTarget } from "../chat/completions.ts";
import type { PromptOptions } from "../chat/prompt.ts";
import type { ChatRequest } from "../chat/request.ts";
import type { ChatChunk, ChatCompletion } from "../chat/response.ts";
import type { Embedding, EmbedOptions } from "../embed.ts";
import type { EvaluateOptions, Evaluation } from "../evaluate.ts";
import type { GenerateOptions, Generation } from "../generate.ts";
import { Metadata } from "../metadata.ts";
import type { CreateContextOptions } from "../model.ts";
import type { Params } from "../params.ts";
import type { RankedDocument, RerankOptions } from "../rerank.ts";
import type { Model, ModelContext, ModelEngine } from "../surface.ts";
import { type EncodeOptions, loadTokenizer, type Tokenizer } from "../tokenizer.ts";
import type { Connection, Result, TokenList } from "./connection.ts";
import type { LoadedModel } from "./protocol.ts";

/** A context in a worker. */
export class RemoteContext implements ModelContext {
  readonly chat: Chat;
  readonly nCtx: number;
  readonly #connection: Connection;
  readonly #context: number;
  readonly #list: TokenList = { ids: [] };
  /** calls and generations under way */
  #running = 0;
  #disposed = false;

  constructor(connection: Connection, context: number, nCtx: number) {
    this.nCtx = nCtx;
    this.#connection = connection;
    this.#context = context;
    this.chat = new Chat(this.#chatTarget());
  }

  get tokens(): number[] {
    return [...this.#list.ids];
  }

  async *generate(
    prompt: string | readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<string, Generation, undefined> {
    this.#running++;
    try {
      const result = await this.#call("generate", prompt, options);
      return yield* this.#connection.steps<string, Generation>(streamOf(result));
    } finally {
      this.#running--;
    }
  }

  async complete(prompt: string | readonly number[], options: GenerateOptions = {}): Promise<Generation> {
    return this.#value<Generation>("complete", prompt, options);
  }

  async save(): Promise<Uint8Array> {
    return this.#value<Uint8Array>("save");
  }

  async restore(bytes: Uint8Array): Promise<void> {
    return this.#value<void>("restore", bytes);
  }

  clear(): void {
    this.#alive();
    if (this.#running > 0) {
      throw new GraphError("busy", "clear: the context is busy; await the generation before");
    }
    this.#list.ids = [];
    this.#call("clear").catch(() => undefined);
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#call("dispose").catch(() => undefined);
    this.#disposed = true;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  #chatTarget(): ChatTarget {
    const on = { chat: this.#context };
    const ask = async (method: string, ...args: readonly unknown[]): Promise<Result> => {
      this.#alive();
      return this.#connection.call(on, method, args, this.#list);
    };
    return {
      render: async (options: PromptOptions) => valueOf(await ask("render", options)) as string,
      create: async (request: ChatRequest, options: ChatOptions = {}) => {
        const result = await ask("create", request, options);
        if (result.kind !== "stream") return valueOf(result) as ChatCompletion;
        return new ChatStream(() => this.#connection.steps<ChatChunk, void>(result.stream));
      },
    };
  }

  async #value<T>(method: string, ...args: readonly unknown[]): Promise<T> {
    this.#running++;
    try {
      return valueOf(await this.#call(method, ...args)) as T;
    } finally {
      this.#running--;
    }
  }

  async #call(method: string, ...args: readonly unknown[]): Promise<Result> {
    this.#alive();
    return this.#connection.call({ context: this.#context }, method, args, this.#list);
  }

  #alive(): void {
    if (this.#disposed) throw new GraphError("disposed", "context: disposed");
  }
}

/** A model in a worker. The page holds its vocabulary and nothing of its weights. */
export class RemoteModel implements Model {
  readonly engine: ModelEngine;
  readonly params: Params;
  readonly nCtx: number;
  readonly #connection: Connection;
  readonly #main: RemoteContext;
  #vocabulary: Uint8Array | undefined;
  #tokenizer: Tokenizer | undefined;

  constructor(connection: Connection, loaded: LoadedModel) {
    const { nThreads, build, params, nCtx, vocabulary } = loaded;
    this.engine = { nThreads, build, memory: () => this.memory() };
    this.params = params;
    this.nCtx = nCtx;
    this.#connection = connection;
    this.#main = new RemoteContext(connection, 0, nCtx);
    this.#vocabulary = vocabulary;
  }

  /** Made on the page when it is asked for first. */
  get tokenizer(): Tokenizer {
    if (this.#tokenizer === undefined) {
      this.#tokenizer = loadTokenizer(new Metadata(parseGguf(this.#vocabulary!).metadata));
      this.#vocabulary = undefined;
    }
    return this.#tokenizer;
  }

  get context(): RemoteContext {
    return this.#main;
  }

  get chat(): Chat {
    return this.#main.chat;
  }

  tokenize(text: string, options?: EncodeOptions): number[] {
    return this.tokenizer.encode(text, options);
  }

  detokenize(ids: ArrayLike<number>): string {
    return this.tokenizer.decode(ids);
  }

  memory(): MemoryReport {
    return this.#connection.memory;
  }

  async createContext(options: CreateContextOptions = {}): Promise<RemoteContext> {
    const result = await this.#connection.call("model", "createContext", [options]);
    if (result.kind !== "context") throw new GraphError("unsupported", "createContext: no context came back");
    return new RemoteContext(this.#connection, result.context, result.nCtx);
  }

  async *generate(
    prompt: string | readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<string, Generation, undefined> {
    return yield* this.#main.generate(prompt, options);
  }

  async complete(prompt: string | readonly number[], options: GenerateOptions = {}): Promise<Generation> {
    return this.#main.complete(prompt, options);
  }

  async evaluate(text: string | readonly number[], options: EvaluateOptions = {}): Promise<Evaluation> {
    return this.#value("evaluate", text, options);
  }

  async embed(
    texts: readonly (string | readonly number[])[],
    options: EmbedOptions = {},
  ): Promise<Embedding[]> {
    return this.#value("embed", texts, options);
  }

  async rerank(
    query: string,
    documents: readonly string[],
    options: RerankOptions = {},
  ): Promise<RankedDocument[]> {
    return this.#value("rerank", query, documents, options);
  }

  dispose(): void {
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  async #value<T>(method: string, ...args: readonly unknown[]): Promise<T> {
    return valueOf(await this.#connection.call("model", method, args)) as T;
  }
}

function valueOf(result: Result): unknown {
  if (result.kind === "value") return result.value;
  throw new GraphError("unsupported", `the worker answered with a ${result.kind}, not a value`);
}

function streamOf(result: Result): number {
  if (result.kind === "stream") return result.stream;
  throw new GraphError("unsupported", `the worker answered with a ${result.kind}, not a stream`);
}
