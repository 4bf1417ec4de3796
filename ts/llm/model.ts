// A loaded model: weights in the arena, a context, and what one does with them.

import { checkOptions, GraphError } from "../errors.ts";
import type { MemoryReport } from "../runtime/arena.ts";
import type { Buffer } from "../runtime/backend.ts";
import type { Engine } from "../runtime/engine.ts";
import type { Context } from "./context.ts";
import { evaluate, type Evaluation } from "./evaluate.ts";
import { GENERATE_OPTIONS, type GenerateOptions, type Generation, Run } from "./generate.ts";
import type { Params } from "./params.ts";
import type { ModelPlan } from "./plan_model.ts";
import type { EncodeOptions, Tokenizer } from "./tokenizer.ts";

/** A model ready to generate. Made by `loadModel`. */
export class Model {
  readonly engine: Engine;
  readonly params: Params;
  readonly tokenizer: Tokenizer;
  readonly #plan: ModelPlan;
  readonly #weights: Buffer;
  readonly #context: Context;
  readonly #ownsEngine: boolean;
  #busy = false;
  #disposed = false;

  constructor(engine: Engine, plan: ModelPlan, weights: Buffer, context: Context, ownsEngine: boolean) {
    this.engine = engine;
    this.params = plan.header.params;
    this.tokenizer = plan.header.tokenizer;
    this.#plan = plan;
    this.#weights = weights;
    this.#context = context;
    this.#ownsEngine = ownsEngine;
  }

  /** Positions the context holds. */
  get nCtx(): number {
    return this.#context.nCtx;
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
   * Generates text after a prompt (a text, or ids). Yields text as it comes, never half a character; the iterator's
   * return value is the whole {@link Generation}. Leaving the loop early ends the generation. One generation runs at a
   * time; disposing the model ends it with an error at the next token.
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
      this.#checkIds(prompt);
      this.#context.rewind();
      const run = new Run(this.#context, this.tokenizer, prompt, options).text();
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
   * Mean negative log-likelihood of a text: every token after the start token, keys and values in F32. A text longer
   * than the context is cut into windows, each with a start token of its own.
   *
   * @throws {GraphError} busy, disposed, bad-data for a text without tokens
   */
  async evaluate(
    text: string | readonly number[],
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<Evaluation> {
    checkOptions("evaluate", options, ["signal"]);
    this.#take("evaluate");
    try {
      this.#checkIds(text);
      const ids = typeof text === "string" ? this.tokenize(text, { parseSpecial: false }) : text;
      return await evaluate(this.engine, this.#plan, ids, options.signal);
    } finally {
      this.#release();
    }
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

  #checkIds(prompt: string | readonly number[]): void {
    if (typeof prompt === "string") return;
    for (const id of prompt) {
      if (Number.isInteger(id) && id >= 0 && id < this.params.nVocab) continue;
      throw new GraphError("token-range", `token ${id}, expected 0..${this.params.nVocab - 1}`, {
        expected: this.params.nVocab,
        actual: id,
      });
    }
  }

  #take(what: string): void {
    this.#alive();
    if (this.#busy) throw new GraphError("busy", `${what}: the model is busy; await the generation before`);
    this.#busy = true;
  }

  // Memory of a model disposed while busy is given back here: no run may be using it any more.
  #release(): void {
    this.#busy = false;
    if (this.#disposed) this.#free();
  }

  #free(): void {
    this.#context.dispose();
    for (const t of this.#plan.weights.values()) t.place(undefined);
    this.#weights.dispose();
    if (this.#ownsEngine) this.engine.dispose();
  }

  #alive(): void {
    if (this.#disposed) throw new GraphError("disposed", "model: disposed");
  }
}
