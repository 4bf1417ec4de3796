// Answers in the form that OpenAI clients know.

import type { Generation, StopReason } from "../generate.ts";
import type { TokenLogprobs, TokenProbability } from "../logprobs.ts";
import type { Tokenizer } from "../tokenizer.ts";
import { type MadeToolCall, ToolReader } from "./tool_calls.ts";

/** Why an answer ended: at an end token or stop text, with calls of tools, or at the limit or the end of the context. */
export type FinishReason = "stop" | "length" | "tool_calls";

/** Tokens that an answer took. */
export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: {
    /** tokens of the prompt that were in the cache already */
    readonly cached_tokens: number;
  };
}

/** A token and its log-probability. */
export interface ChatTokenLogprob {
  /** its text; a piece of a character reads as U+FFFD */
  readonly token: string;
  readonly logprob: number;
  /** UTF-8 of its text */
  readonly bytes: readonly number[];
}

/** Log-probabilities of an answer, or of a part of it. */
export interface ChatLogprobs {
  readonly content: readonly (ChatTokenLogprob & { readonly top_logprobs: readonly ChatTokenLogprob[] })[];
  readonly refusal: null;
}

/** A whole answer. */
export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  /** seconds since 1970 */
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [
    {
      readonly index: 0;
      readonly message: {
        readonly role: "assistant";
        /** without what was read as calls */
        readonly content: string;
        readonly refusal: null;
        /** calls of the tools that were offered; absent when there are none */
        readonly tool_calls?: readonly MadeToolCall[];
      };
      readonly logprobs: ChatLogprobs | null;
      readonly finish_reason: FinishReason;
    },
  ];
  readonly usage: ChatUsage;
}

/** What a chunk adds to the answer. */
export interface ChatDelta {
  readonly role?: "assistant";
  readonly content?: string;
  /** calls, each whole, at the end of the answer */
  readonly tool_calls?: readonly (MadeToolCall & { readonly index: number })[];
}

/** A part of an answer that is streamed. */
export interface ChatChunk {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
  /** one choice; none in a chunk that holds the usage alone */
  readonly choices: readonly {
    readonly index: 0;
    readonly delta: ChatDelta;
    readonly logprobs: ChatLogprobs | null;
    readonly finish_reason: FinishReason | null;
  }[];
  readonly usage?: ChatUsage | null;
}

/** What all parts of one answer have in common. */
export interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

/** A new envelope. */
export function envelope(model: string): Envelope {
  const random = crypto.getRandomValues(new Uint8Array(12));
  const id = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { id: `chatcmpl-${id}`, created: Math.floor(Date.now() / 1000), model };
}

/** The whole answer. @param tools names of the tools that were offered */
export function completion(
  e: Envelope,
  generation: Generation,
  tokenizer: Tokenizer,
  tools: readonly string[],
): ChatCompletion {
  const { stopReason, logprobs } = generation;
  const reader = new ToolReader(tools);
  const before = reader.push(generation.text);
  const { text, calls } = reader.end();
  const content = calls.length > 0 ? (before + text).trimEnd() : before + text;
  return {
    id: e.id,
    object: "chat.completion",
    created: e.created,
    model: e.model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content,
          refusal: null,
          ...(calls.length > 0 ? { tool_calls: calls } : {}),
        },
        logprobs: logprobs === undefined ? null : chatLogprobs(logprobs, tokenizer),
        finish_reason: finishReason(stopReason, calls.length > 0),
      },
    ],
    usage: usageOf(generation),
  };
}

/** A part of the answer. */
export function chunk(
  e: Envelope,
  delta: ChatDelta,
  more: { logprobs?: ChatLogprobs | null; finish_reason?: FinishReason; usage?: ChatUsage } = {},
): ChatChunk {
  const { logprobs = null, finish_reason = null, usage } = more;
  return {
    id: e.id,
    object: "chat.completion.chunk",
    created: e.created,
    model: e.model,
    choices: [{ index: 0, delta, logprobs, finish_reason }],
    ...(usage === undefined ? {} : { usage }),
  };
}

/** The usage alone. */
export function usageChunk(e: Envelope, usage: ChatUsage): ChatChunk {
  return { ...chunk(e, {}), choices: [], usage };
}

/** Tokens of a generation. */
export function usageOf({ promptTokens, tokens, cachedTokens }: Generation): ChatUsage {
  return {
    prompt_tokens: promptTokens.length,
    completion_tokens: tokens.length,
    total_tokens: promptTokens.length + tokens.length,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** OpenAI's word for a reason. */
export function finishReason(reason: StopReason, called: boolean): FinishReason {
  return reason === "limit" || reason === "context-full" ? "length" : called ? "tool_calls" : "stop";
}

/** Log-probabilities with the texts of the tokens. */
export function chatLogprobs(list: readonly TokenLogprobs[], tokenizer: Tokenizer): ChatLogprobs {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const entry = ({ id, logprob }: TokenProbability): ChatTokenLogprob => {
    const bytes = tokenizer.piece(id, true);
    return { token: decoder.decode(bytes), logprob, bytes: Array.from(bytes) };
  };
  return { content: list.map((t) => ({ ...entry(t), top_logprobs: t.top.map(entry) })), refusal: null };
}
