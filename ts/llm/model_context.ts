// A context as callers see it: a sequence of tokens over a model's weights, with generation, saving and restoring.

import { checkOptions, GraphError } from "../errors.ts";
import { wantsLongFactors } from "./arch/net.ts";
import { type CacheOrigin, decodeCache, encodeCache } from "./cache_file.ts";
import { Chat, ContextChat } from "./chat/completions.ts";
import type { Prompter } from "./chat/prompt.ts";
import type { Context } from "./context.ts";
import { GENERATE_OPTIONS, type GenerateOptions, type Generation, Run } from "./generate.ts";
import type { ModelHeader } from "./plan_model.ts";
import type { SamplingOptions } from "./sampling.ts";

/** The model behind a context. */
export interface ContextHost {
  readonly header: ModelHeader;
  readonly prompter: Prompter;
  /** @throws {GraphError} disposed */
  alive(): void;
  /** weights and contexts have their memory, again if a device was lost. @throws what reading the file throws */
  ready(): Promise<void>;
  /** the context has given its memory back */
  left(context: ModelContext): void;
}

/** A sequence of tokens with its keys and values. Made by `model.createContext()`; every model has one of its own too. */
export class ModelContext {
  /** conversations by the model's chat template */
  readonly chat: Chat;
  readonly #host: ContextHost;
  readonly #context: Context;
  #busy = false;
  #disposed = false;

  constructor(host: ContextHost, context: Context) {
    this.#host = host;
    this.#context = context;
    const answering = new ContextChat({
      tokenizer: host.header.tokenizer,
      prompter: host.prompter,
      name: host.header.name,
      nCtx: context.nCtx,
      generate: (prompt, options) => this.generate(prompt, options),
    });
    this.chat = new Chat(answering);
  }

  /** Positions the context holds. */
  get nCtx(): number {
    return this.#context.nCtx;
  }

  /** Ids of the tokens in the cache, a copy. */
  get tokens(): number[] {
    return this.#context.tokens;
  }

  /**
   * Generates text after a prompt (a text, or ids). Yields text as it comes, never half a character; the iterator's
   * return value is the whole {@link Generation}. Leaving the loop early ends the generation. What the prompt shares
   * with the tokens in the cache is not computed again; the result is the same. A context runs one generation at a
   * time; disposing it ends the generation with an error at the next token.
   *
   * @throws {GraphError} busy while another generation runs; context-full when the prompt does not fit; disposed;
   *   bad-param; TypeError for a misspelt option
   * @throws {FormatError} non-finite when the model's logits are not numbers
   */
  async *generate(
    prompt: string | readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<string, Generation, undefined> {
    checkOptions("generate", options, GENERATE_OPTIONS);
    this.#take("generate");
    try {
      await this.#host.ready();
      this.#alive();
      if (typeof prompt !== "string") checkIds(prompt, this.#host.header.params.nVocab);
      const { tokenizer, sampling } = this.#host.header;
      const ready = (): Promise<void> => {
        this.#alive();
        return this.#host.ready();
      };
      const all = withDefaults(options, sampling);
      const run = new Run(this.#context, tokenizer, prompt, all, ready).text();
      for (;;) {
        const step = await run.next();
        this.#alive();
        if (step.done) return step.value;
        yield step.value;
        this.#alive();
      }
    } finally {
      this.#release();
    }
  }

  /** Generates to the end; see {@link generate}. */
  async complete(prompt: string | readonly number[], options: GenerateOptions = {}): Promise<Generation> {
    const run = this.generate(prompt, options);
    for (;;) {
      const step = await run.next();
      if (step.done) return step.value;
    }
  }

  /**
   * The tokens with their keys and values as bytes, for {@link restore}. Their size grows with the tokens, not with the
   * context.
   *
   * @throws {GraphError} busy, disposed
   */
  async save(): Promise<Uint8Array> {
    return this.#exclusively("save", () => encodeCache(this.#context, this.#origin));
  }

  /**
   * Puts back what {@link save} gave, in this or another context of the same model with the same kvType. The context is
   * as before when the bytes do not fit.
   *
   * @throws {FormatError} bad-magic, unsupported-version, truncated, bad-value (saved from another model),
   *   shape-mismatch, unsupported-type (another kvType), token-range
   * @throws {GraphError} context-full when this context is too short; busy, disposed
   */
  async restore(bytes: Uint8Array): Promise<void> {
    const { nVocab } = this.#host.header.params;
    return this.#exclusively("restore", async () => decodeCache(this.#context, this.#origin, nVocab, bytes));
  }

  /** Forgets all tokens. @throws {GraphError} busy, disposed */
  clear(): void {
    this.#take("clear");
    this.#context.rewind();
    this.#release();
  }

  /** Gives back the memory. May be called twice; later use throws a GraphError with code "disposed". */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    if (!this.#busy) this.#free();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }

  get #origin(): CacheOrigin {
    const { fingerprint, params, tensors } = this.#host.header;
    const chooses = tensors.has("rope_factors_long.weight") && !tensors.has("rope_freqs.weight");
    return { fingerprint, long: chooses && wantsLongFactors(params, this.nCtx) };
  }

  async #exclusively<T>(what: string, run: () => Promise<T>): Promise<T> {
    this.#take(what);
    try {
      return await run();
    } finally {
      this.#release();
    }
  }

  #take(what: string): void {
    this.#alive();
    if (this.#busy) throw new GraphError("busy", `${what}: the context is busy; await the generation before`);
    this.#busy = true;
  }

  // Memory of a context disposed while busy is given back here: no run may be using it any more.
  #release(): void {
    this.#busy = false;
    if (this.#disposed) this.#free();
  }

  #free(): void {
    this.#context.dispose();
    this.#host.left(this);
  }

  #alive(): void {
    this.#host.alive();
    if (this.#disposed) throw new GraphError("disposed", "context: disposed");
  }
}

/** @throws {GraphError} token-range; TypeError for what is no list */
export function checkIds(ids: readonly number[], nVocab: number): void {
  if (typeof ids?.[Symbol.iterator] !== "function") {
    throw new TypeError(`a text or token ids expected, not ${String(ids)}`);
  }
  for (const id of ids) {
    if (Number.isInteger(id) && id >= 0 && id < nVocab) continue;
    throw new GraphError("token-range", `token ${id}, expected 0..${nVocab - 1}`, {
      expected: nVocab,
      actual: id,
    });
  }
}

// What the caller leaves open is as the file recommends.
function withDefaults(options: GenerateOptions, recommended: Partial<SamplingOptions>): GenerateOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...recommended, ...(Object.fromEntries(given) as GenerateOptions) };
}
