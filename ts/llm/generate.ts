// Text generation: prompt in, text out as it comes.

import { checkOptions, DeviceError, GraphError } from "../errors.ts";
import type { Context } from "./context.ts";
import { StreamDecoder } from "./decoder.ts";
import type { DecodeLoop } from "./decode_loop.ts";
import { deviceCandidates } from "./device_sampling.ts";
import { logprobsOf, MAX_TOP, type TokenLogprobs } from "./logprobs.ts";
import { Sampler } from "./sampler.ts";
import { SAMPLING_OPTIONS, type SamplingOptions } from "./sampling.ts";
import { type ContextShift, shift } from "./shift.ts";
import { StopFilter } from "./stop.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** Why a generation ended. */
export type StopReason = "eos" | "limit" | "stop" | "context-full" | "abort";

/** What {@link ProgressListener}s hear. */
export interface Progress {
  readonly phase: "load" | "prompt" | "embed" | "quantize";
  /** bytes, tokens, or texts */
  readonly loaded: number;
  readonly total: number;
}

export type ProgressListener = (progress: Progress) => void;

/** Options of a generation. */
export interface GenerateOptions extends SamplingOptions {
  /** tokens generated at most; default: until the context is full */
  readonly maxTokens?: number | undefined;
  /** texts that end the generation; they are not part of the output */
  readonly stop?: readonly string[] | undefined;
  /** ends the generation; what was generated stays, the stop reason is "abort" */
  readonly signal?: AbortSignal | undefined;
  /** hears of the prompt's progress, in tokens */
  readonly onProgress?: ProgressListener | undefined;
  /** sees the logits, F32 [nVocab], before each choice, and may change them in place to finite ones; the array is used again */
  readonly onLogits?: ((logits: Float32Array) => void) | undefined;
  /** hears of each token as it is chosen, with its log-probabilities when these are asked for */
  readonly onToken?: ((id: number, logprobs?: TokenLogprobs) => void) | undefined;
  /** go on past end tokens: for benchmarks */
  readonly ignoreEos?: boolean | undefined;
  /** texts of control tokens in the prompt become those tokens; default true */
  readonly parseSpecial?: boolean | undefined;
  /** go on from the tokens that the prompt shares with the one before, instead of computing them again; default true */
  readonly cachePrompt?: boolean | undefined;
  /** when the context is full, forget older tokens instead of stopping; needs maxTokens. See {@link ContextShift} */
  readonly contextShift?: ContextShift | undefined;
  /** report log-probabilities of the chosen tokens and of this many most likely ones, 0..100; default: none at all */
  readonly logprobs?: number | undefined;
}

/** Milliseconds and rates of a generation. */
export interface Timings {
  readonly promptMs: number;
  readonly generateMs: number;
  readonly promptTokensPerSecond: number;
  readonly tokensPerSecond: number;
}

/** What a generation came to. */
export interface Generation {
  /** generated ids; an end token is not among them */
  readonly tokens: readonly number[];
  /** generated text, without the prompt */
  readonly text: string;
  /** ids of the prompt, start token included */
  readonly promptTokens: readonly number[];
  /** tokens of the prompt that were in the cache already */
  readonly cachedTokens: number;
  readonly stopReason: StopReason;
  readonly timings: Timings;
  /** one entry per generated token, from the logits as {@link GenerateOptions.onLogits} left them; when asked for */
  readonly logprobs?: readonly TokenLogprobs[];
}

/** Names of all generation options, for the check against misspelt ones. */
export const GENERATE_OPTIONS: readonly string[] = [
  "maxTokens",
  "stop",
  "signal",
  "onProgress",
  "onLogits",
  "onToken",
  "ignoreEos",
  "parseSpecial",
  "cachePrompt",
  "contextShift",
  "logprobs",
  ...SAMPLING_OPTIONS,
];

/** Losses of devices that one generation outlives. */
const MOST_LOSSES = 2;

/** A generation under way. */
export class Run {
  readonly #context: Context;
  readonly #tokenizer: Tokenizer;
  readonly #options: GenerateOptions;
  readonly #sampler: Sampler;
  readonly #stop: StopFilter;
  readonly #decoder: StreamDecoder;
  readonly #promptTokens: readonly number[];
  readonly #tokens: number[] = [];
  readonly #logprobs: TokenLogprobs[] = [];
  readonly #ready: () => Promise<void>;
  #loop: DecodeLoop | undefined;
  #losses = 0;
  /** renewals of the context when its cache was filled; -1: it is to be filled again */
  #filled = -1;
  #shifted = false;
  #cached = 0;
  #text = "";
  #promptMs = 0;
  #generateMs = 0;

  /**
   * @param ready gives the context its memory again if a device was lost
   * @throws {GraphError} bad-param; context-full when the prompt does not fit
   */
  constructor(
    context: Context,
    tokenizer: Tokenizer,
    prompt: string | readonly number[],
    options: GenerateOptions,
    ready: () => Promise<void>,
  ) {
    checkLimits(options);
    this.#ready = ready;
    const { stop = [], parseSpecial = true } = options;
    this.#context = context;
    this.#tokenizer = tokenizer;
    this.#options = options;
    this.#sampler = new Sampler(tokenizer.nVocab, samplingOf(options), {
      suppressed: tokenizer.suppressed,
      piece: (id) => tokenizer.piece(id),
    });
    this.#stop = new StopFilter(stop);
    this.#promptTokens = typeof prompt === "string" ? tokenizer.encode(prompt, { parseSpecial }) : prompt;
    for (const id of this.#promptTokens) this.#sampler.accept(id);
    this.#decoder = new StreamDecoder(tokenizer, {
      atStart: this.#promptTokens.every((id) => tokenizer.isControl(id)),
    });
    if (this.#promptTokens.length > context.nCtx) {
      throw new GraphError(
        "context-full",
        `generate: the prompt has ${this.#promptTokens.length} tokens, the context ${context.nCtx}`,
        { expected: context.nCtx, actual: this.#promptTokens.length },
      );
    }
  }

  /** Yields text as it becomes certain. Ends by the rules of {@link StopReason}. */
  async *text(): AsyncGenerator<string, Generation> {
    let stopReason: StopReason;
    try {
      let id = this.#first(await this.#lasting(() => this.#prompt()));
      for (;;) {
        if (typeof id === "string") {
          stopReason = id;
          break;
        }
        const text = this.#emit(this.#stop.push(this.#decoder.push(id)));
        if (text !== "") yield text;
        if (this.#stop.found !== undefined) {
          stopReason = "stop";
          break;
        }
        const end = await this.#full();
        if (end !== undefined) {
          stopReason = end;
          break;
        }
        const last = id;
        id = await this.#lasting(() => this.#after(last));
      }
    } catch (error) {
      if (!(this.#options.signal?.aborted && error === this.#options.signal.reason)) throw error;
      stopReason = "abort";
    } finally {
      this.#loop?.drop();
    }
    const rest = this.#emit(this.#stop.push(this.#decoder.flush()) + this.#stop.flush());
    if (rest !== "") yield rest;
    return this.#result(stopReason);
  }

  // Computes what of the prompt is not in the cache. Returns the logits after its last token.
  async #prompt(): Promise<Float32Array> {
    const { signal, onProgress } = this.#options;
    const total = this.#promptTokens.length;
    if (total === 0)
      throw new GraphError("bad-data", "generate: an empty prompt, and the model adds no start token");
    const start = performance.now();
    await this.#ready();
    if (this.#options.cachePrompt === false) this.#context.rewind();
    this.#cached = this.#context.reuse(this.#promptTokens);
    const logits = await this.#context.append(this.#promptTokens.slice(this.#cached), signal, (done) =>
      onProgress?.({ phase: "prompt", loaded: this.#cached + done, total }),
    );
    this.#filled = this.#context.renewals;
    this.#promptMs = performance.now() - start;
    return logits;
  }

  // A part of the generation, once more when a device was lost on the way.
  async #lasting<T>(part: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await part();
      } catch (error) {
        const lost = error instanceof DeviceError && error.code === "device-lost";
        if (!lost || this.#shifted || ++this.#losses > MOST_LOSSES) throw error;
        this.#filled = -1;
      }
    }
  }

  // The token after `id`, the last one chosen, or why there is none.
  async #after(id: number): Promise<number | StopReason> {
    await this.#ready();
    if (this.#filled !== this.#context.renewals) return this.#next(await this.#refill());
    if (this.#tokens.length === 1) this.#loop = await this.#openLoop();
    return this.#loop === undefined ? this.#step(id) : this.#follow(this.#loop, id);
  }

  // After a loss: all tokens so far again, and the random numbers that are left.
  async #refill(): Promise<Float32Array> {
    if (this.#shifted) {
      throw new DeviceError(
        "device-lost",
        "generate: the device was lost, and with it the tokens in the cache",
      );
    }
    const { random, settings } = this.#sampler;
    random.restart();
    if (settings.temperature > 0) for (const _ of this.#tokens) random.next();
    const { signal } = this.#options;
    this.#context.rewind();
    const logits = await this.#context.append([...this.#promptTokens, ...this.#tokens], signal);
    this.#loop = await this.#openLoop();
    this.#filled = this.#context.renewals;
    return logits;
  }

  #first(logits: Float32Array): number | StopReason {
    return this.#options.maxTokens === 0 ? "limit" : this.#next(logits);
  }

  // Steps without waiting, where one device computes all and nobody wants to see or change the logits.
  async #openLoop(): Promise<DecodeLoop | undefined> {
    const { onLogits, logprobs, maxTokens = Infinity, signal } = this.#options;
    const { nVocab, suppressed } = this.#tokenizer;
    const k = deviceCandidates(this.#sampler.settings, nVocab);
    if (k === undefined || suppressed.length > 0 || maxTokens === 1) return undefined;
    if (onLogits !== undefined || logprobs !== undefined) return undefined;
    const loop = await this.#context.loop(k, nVocab, signal);
    loop?.begin(this.#sampler);
    return loop;
  }

  // Appends a token; the next one, which the device chose, or why there is none.
  async #follow(loop: DecodeLoop, id: number): Promise<number | StopReason> {
    const { maxTokens = Infinity, signal } = this.#options;
    const start = performance.now();
    const next = await this.#context.step(loop, id, maxTokens - this.#tokens.length, signal);
    this.#generateMs += performance.now() - start;
    return this.#take(next);
  }

  // Appends a token and chooses the next.
  async #step(id: number): Promise<number | StopReason> {
    const start = performance.now();
    const logits = await this.#context.append([id], this.#options.signal);
    this.#generateMs += performance.now() - start;
    return this.#next(logits);
  }

  // The next token, or why there is none.
  #next(logits: Float32Array): number | StopReason {
    this.#options.onLogits?.(logits);
    const start = performance.now();
    const id = this.#sampler.sample(logits);
    this.#generateMs += performance.now() - start;
    return this.#take(id, logits);
  }

  // Notes a token that was chosen.
  #take(id: number, logits?: Float32Array): number | StopReason {
    if (this.#tokenizer.isEog(id) && this.#options.ignoreEos !== true) return "eos";
    this.#sampler.accept(id);
    this.#tokens.push(id);
    const { logprobs: n, onToken } = this.#options;
    const logprobs =
      n === undefined || logits === undefined ? undefined : logprobsOf(logits, this.#tokenizer.nVocab, id, n);
    if (logprobs !== undefined) this.#logprobs.push(logprobs);
    onToken?.(id, logprobs);
    return id;
  }

  // Why there is no place for another token; makes room when asked to.
  async #full(): Promise<StopReason | undefined> {
    if (this.#tokens.length === this.#options.maxTokens) return "limit";
    const { contextShift, signal } = this.#options;
    if (this.#context.position < this.#context.nCtx) return undefined;
    if (contextShift === undefined) return "context-full";
    const start = this.#promptTokens[0] === this.#tokenizer.ids.bos ? 1 : 0;
    const begun = performance.now();
    this.#shifted = true;
    const room = await shift(this.#context, Math.max(start, contextShift.keep), signal);
    this.#generateMs += performance.now() - begun;
    return room ? undefined : "context-full";
  }

  #emit(text: string): string {
    this.#text += text;
    return text;
  }

  #result(stopReason: StopReason): Generation {
    const perSecond = (n: number, ms: number): number => (ms > 0 ? (1000 * n) / ms : 0);
    return {
      tokens: this.#tokens,
      text: this.#text,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cached,
      stopReason,
      timings: {
        promptMs: this.#promptMs,
        generateMs: this.#generateMs,
        promptTokensPerSecond: perSecond(this.#promptTokens.length - this.#cached, this.#promptMs),
        tokensPerSecond: perSecond(this.#tokens.length, this.#generateMs),
      },
      ...(this.#options.logprobs === undefined ? {} : { logprobs: this.#logprobs }),
    };
  }
}

function checkLimits({ maxTokens, logprobs, contextShift }: GenerateOptions): void {
  const check = (name: string, x: unknown, least: number, most: number): void => {
    if (x === undefined || (Number.isInteger(x) && (x as number) >= least && (x as number) <= most)) return;
    const rule = `an integer of at least ${least}${most < Infinity ? `, at most ${most}` : ""}`;
    throw new GraphError("bad-param", `generate: ${name} is ${String(x)}, expected ${rule}`, { actual: x });
  };
  check("maxTokens", maxTokens, 0, Infinity);
  check("logprobs", logprobs, 0, MAX_TOP);
  if (contextShift === undefined) return;
  checkOptions("contextShift", contextShift, ["keep"]);
  check("contextShift.keep", contextShift.keep ?? NaN, 0, Infinity);
  if (maxTokens === undefined) {
    throw new GraphError(
      "bad-param",
      "generate: contextShift needs maxTokens: nothing else need end the text",
    );
  }
}

function samplingOf(options: GenerateOptions): SamplingOptions {
  return Object.fromEntries(Object.entries(options).filter(([key]) => SAMPLING_OPTIONS.includes(key)));
}
