// A loaded model: weights in the arena, contexts over them, and what one does with them.

import { checkOptions, GraphError } from "../errors.ts";
import type { Allocation } from "../runtime/allocation.ts";
import type { MemoryReport } from "../runtime/arena.ts";
import type { Engine } from "../runtime/engine.ts";
import type { Chat } from "./chat/completions.ts";
import { Prompter } from "./chat/prompt.ts";
import { Context } from "./context.ts";
import { type Embedder, type Embedding, type EmbedOptions } from "./embed.ts";
import { evaluate, EVALUATE_OPTIONS, type EvaluateOptions, type Evaluation } from "./evaluate.ts";
import type { GenerateOptions, Generation } from "./generate.ts";
import { checkIds, type ContextHost, ModelContext } from "./model_context.ts";
import type { Params } from "./params.ts";
import { type ContextOptions, type ModelPlan, planContext } from "./plan_model.ts";
import { type RankedDocument, rerank, type RerankOptions } from "./rerank.ts";
import type { EncodeOptions, Tokenizer } from "./tokenizer.ts";

/** Sizes of a further context; by default nBatch and kvType are those of the model's own, nCtx as for `loadModel`. */
export type CreateContextOptions = Pick<ContextOptions, "nCtx" | "nBatch" | "kvType">;

/** What a model takes over from its loader. */
export interface ModelParts {
  /** the weights */
  readonly memory: Allocation;
  /** reads the weights once more, into memory they get anew */
  readonly reload: () => Promise<Allocation>;
  /** absent for a model for embeddings */
  readonly context: Context | undefined;
  readonly embedder: Embedder;
  readonly ownsEngine: boolean;
}

/** A model ready to generate. Made by `loadModel`. */
export class Model {
  readonly engine: Engine;
  readonly params: Params;
  readonly tokenizer: Tokenizer;
  readonly #plan: ModelPlan;
  readonly #prompter: Prompter;
  readonly #parts: ModelParts;
  readonly #contexts = new Map<ModelContext, Context>();
  #main: ModelContext | undefined;
  /** the weights; replaced after the loss of a device */
  #memory: Allocation;
  #reviving: Promise<void> | undefined;
  /** calls that use the weights without a context of the set */
  #calls = 0;
  #disposed = false;

  constructor(engine: Engine, plan: ModelPlan, parts: ModelParts) {
    this.engine = engine;
    this.params = plan.header.params;
    this.tokenizer = plan.header.tokenizer;
    this.#plan = plan;
    this.#prompter = new Prompter(plan.header.templates, plan.header.tokenizer);
    this.#parts = parts;
    this.#memory = parts.memory;
    this.#main = parts.context === undefined ? undefined : this.#open(parts.context);
  }

  /** Positions that a text can have: those of the model's own context. */
  get nCtx(): number {
    return this.#plan.nCtx;
  }

  /**
   * The model's own context, which {@link generate} and {@link complete} use. A model for embeddings makes it when it is
   * asked for first.
   *
   * @throws {GraphError} unsupported for an encoder, disposed
   * @throws {DeviceError} out-of-memory
   */
  get context(): ModelContext {
    this.#alive();
    this.#main ??= this.#openNew(this.#plan.options);
    return this.#main;
  }

  /** Conversations in the model's own context: `chat.completions.create({ messages })`, as OpenAI's clients do it. */
  get chat(): Chat {
    return this.context.chat;
  }

  /** Token ids of a text. */
  tokenize(text: string, options?: EncodeOptions): number[] {
    return this.tokenizer.encode(text, options);
  }

  /** Text of token ids; control tokens are left out. */
  detokenize(ids: ArrayLike<number>): string {
    return this.tokenizer.decode(ids);
  }

  /** Bytes of linear memory by use, exact. */
  memory(): MemoryReport {
    return this.engine.memory();
  }

  /**
   * A further context over the same weights: a conversation of its own. Contexts may be used at the same time; the
   * engine computes their steps one after the other.
   *
   * @throws {GraphError} bad-param, disposed; TypeError for a misspelt option
   * @throws {DeviceError} out-of-memory
   */
  async createContext(options: CreateContextOptions = {}): Promise<ModelContext> {
    checkOptions("createContext", options, ["nCtx", "nBatch", "kvType"]);
    this.#alive();
    const { nCtx, nBatch = this.#plan.options.nBatch, kvType = this.#plan.options.kvType } = options;
    return this.#openNew({ nCtx, nBatch, kvType });
  }

  /** Generates text in the model's own context; see {@link ModelContext.generate}. */
  async *generate(
    prompt: string | readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<string, Generation, undefined> {
    return yield* this.context.generate(prompt, options);
  }

  /** Generates to the end; see {@link generate}. */
  async complete(prompt: string | readonly number[], options: GenerateOptions = {}): Promise<Generation> {
    return this.context.complete(prompt, options);
  }

  /**
   * Mean negative log-likelihood of a text: every token after the start token, keys and values in F32 unless asked
   * otherwise. A text longer than the context is cut into windows, each with a start token of its own.
   *
   * @throws {GraphError} disposed, bad-data for a text without tokens, bad-param
   */
  async evaluate(text: string | readonly number[], options: EvaluateOptions = {}): Promise<Evaluation> {
    checkOptions("evaluate", options, EVALUATE_OPTIONS);
    return this.#using(async () => {
      if (typeof text !== "string") checkIds(text, this.params.nVocab);
      const ids = typeof text === "string" ? this.tokenize(text, { parseSpecial: false }) : text;
      return evaluate(this.engine, this.#plan, ids, options);
    });
  }

  /**
   * Embeddings of texts (or of token ids), in their order. Each is computed by itself: a vector does not depend on the
   * other texts. Graphs are planned at first use, and again when a text is longer than all before.
   *
   * @throws {GraphError} context-full for a text that is too long unless it may be cut, bad-data for one without tokens,
   *   token-range, bad-param, unsupported (scores of a model without a classifier), disposed; TypeError for a misspelt
   *   option
   * @throws {FormatError} non-finite
   */
  async embed(
    texts: readonly (string | readonly number[])[],
    options: EmbedOptions = {},
  ): Promise<Embedding[]> {
    return this.#using(() => this.#parts.embedder.embed(texts, options));
  }

  /**
   * Documents in the order of how well they answer a query, by the classifier of a reranker.
   *
   * @throws {GraphError} context-full for a document that is too long unless it may be cut, unsupported for a model
   *   without a classifier, bad-param, disposed; TypeError for a misspelt option
   */
  async rerank(
    query: string,
    documents: readonly string[],
    options: RerankOptions = {},
  ): Promise<RankedDocument[]> {
    const { nCtx, header } = this.#plan;
    const { tokenizer, rerankTemplate: template } = header;
    const { embedder } = this.#parts;
    return this.#using(() => rerank({ embedder, tokenizer, template, nCtx }, query, documents, options));
  }

  /**
   * Gives back the memory, that of all contexts too. May be called twice; later use throws a GraphError with code
   * "disposed".
   */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const context of this.#contexts.keys()) context.dispose();
    this.#freeIfUnused();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  #openNew(options: ContextOptions): ModelContext {
    const { graphs } = planContext(this.engine, this.#plan.header, this.#plan.weights, options, []);
    return this.#open(new Context(this.engine, graphs, this.params));
  }

  #open(context: Context): ModelContext {
    const host: ContextHost = {
      header: this.#plan.header,
      prompter: this.#prompter,
      alive: () => this.#alive(),
      ready: () => this.#revive(),
      left: (which) => {
        this.#contexts.delete(which);
        this.#freeIfUnused();
      },
    };
    const made = new ModelContext(host, context);
    this.#contexts.set(made, context);
    return made;
  }

  // After the loss of a device: weights are read again, contexts are empty.
  async #revive(): Promise<void> {
    await this.engine.recover();
    const lost = this.#memory.lost || [...this.#contexts.values()].some((c) => c.lost);
    if (!lost && this.#reviving === undefined) return;
    this.#reviving ??= this.#reload().finally(() => (this.#reviving = undefined));
    await this.#reviving;
  }

  async #reload(): Promise<void> {
    for (const c of this.#contexts.values()) c.dispose();
    this.#parts.embedder.dispose();
    this.#memory.dispose();
    this.#memory = await this.#parts.reload();
    for (const c of this.#contexts.values()) c.renew();
  }

  // Runs something that needs the weights until it ends.
  async #using<T>(run: () => Promise<T>): Promise<T> {
    this.#alive();
    this.#calls++;
    try {
      await this.#revive();
      return await run();
    } finally {
      this.#calls--;
      this.#freeIfUnused();
    }
  }

  // Weights of a model disposed while something runs are given back when the last run has ended.
  #freeIfUnused(): void {
    if (!this.#disposed || this.#contexts.size > 0 || this.#calls > 0) return;
    this.#parts.embedder.dispose();
    this.#memory.dispose();
    if (this.#parts.ownsEngine) this.engine.dispose();
  }

  #alive(): void {
    if (this.#disposed) throw new GraphError("disposed", "model: disposed");
  }
}
