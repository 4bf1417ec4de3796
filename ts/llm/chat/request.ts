// Requests in the form that OpenAI clients send, read into what the engine wants.

import { checkOptions, GraphError } from "../../errors.ts";
import type { GenerateOptions } from "../generate.ts";
import type { ChatMessage, ChatTool } from "./messages.ts";
import { isRecord } from "./plain.ts";
import type { PromptOptions } from "./prompt.ts";
import type { TemplateVariables } from "./template.ts";

type Maybe<T> = T | null | undefined;

/** A request for a chat completion. Fields that are null or undefined count as not given. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** only echoed: the model is the one the request is made to */
  readonly model?: Maybe<string>;
  readonly stream?: Maybe<boolean>;
  /** include_usage: true = usage in a last chunk of its own, as OpenAI sends it; false = none */
  readonly stream_options?: Maybe<{ readonly include_usage?: Maybe<boolean> }>;
  readonly max_tokens?: Maybe<number>;
  /** the newer name of max_tokens, which it overrules */
  readonly max_completion_tokens?: Maybe<number>;
  readonly temperature?: Maybe<number>;
  readonly top_p?: Maybe<number>;
  readonly stop?: Maybe<string | readonly string[]>;
  readonly seed?: Maybe<number>;
  readonly frequency_penalty?: Maybe<number>;
  readonly presence_penalty?: Maybe<number>;
  /** token ids of this model; -100 forbids in practice */
  readonly logit_bias?: Maybe<Readonly<Record<string, number>>>;
  readonly logprobs?: Maybe<boolean>;
  /** alternatives per token; needs logprobs */
  readonly top_logprobs?: Maybe<number>;
  /** told to the model by its template; calls that it writes in a known form come back as tool_calls, others as text */
  readonly tools?: Maybe<readonly ChatTool[]>;
  /** "none" leaves the tools out */
  readonly tool_choice?: Maybe<"auto" | "none">;
  /** 1 */
  readonly n?: Maybe<number>;
  /** ignored */
  readonly user?: Maybe<string>;
  /** a variable of the template */
  readonly reasoning_effort?: Maybe<string>;
  readonly response_format?: Maybe<{ readonly type: "text" }>;

  // Not OpenAI's, by the names that llama.cpp's server knows.
  readonly top_k?: Maybe<number>;
  readonly min_p?: Maybe<number>;
  readonly typical_p?: Maybe<number>;
  readonly repeat_penalty?: Maybe<number>;
  readonly repeat_last_n?: Maybe<number>;
  readonly dry_multiplier?: Maybe<number>;
  readonly dry_base?: Maybe<number>;
  readonly dry_allowed_length?: Maybe<number>;
  readonly dry_penalty_last_n?: Maybe<number>;
  readonly dry_sequence_breakers?: Maybe<readonly string[]>;
  /** go on from the tokens that the prompt shares with the one before; default true */
  readonly cache_prompt?: Maybe<boolean>;
  /** a template, the name of one in the file, or "chatml"; default: the model's */
  readonly chat_template?: Maybe<string>;
  /** further variables of the template: enable_thinking ... */
  readonly chat_template_kwargs?: Maybe<TemplateVariables>;
}

/** A request, read. */
export interface ReadRequest {
  readonly prompt: PromptOptions;
  readonly chatTemplate: string | undefined;
  /** names of the tools that the model was told about */
  readonly tools: readonly string[];
  readonly generate: GenerateOptions;
  readonly model: string | undefined;
  readonly stream: boolean;
  /** where usage goes in a stream */
  readonly usage: "own chunk" | "last chunk" | "none";
}

/** Sampling fields that are passed on as they are. */
const PASSED: Readonly<Record<string, keyof GenerateOptions>> = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  typical_p: "typicalP",
  seed: "seed",
  frequency_penalty: "frequencyPenalty",
  presence_penalty: "presencePenalty",
  repeat_penalty: "repeatPenalty",
  repeat_last_n: "repeatLastN",
  dry_multiplier: "dryMultiplier",
  dry_base: "dryBase",
  dry_allowed_length: "dryAllowedLength",
  dry_penalty_last_n: "dryLastN",
  dry_sequence_breakers: "dryBreakers",
  cache_prompt: "cachePrompt",
  logit_bias: "logitBias",
};

const OTHERS: readonly string[] = [
  "messages",
  "model",
  "stream",
  "stream_options",
  "max_tokens",
  "max_completion_tokens",
  "stop",
  "logprobs",
  "top_logprobs",
  "tools",
  "tool_choice",
  "n",
  "user",
  "reasoning_effort",
  "response_format",
  "chat_template",
  "chat_template_kwargs",
];

/** Fields of OpenAI's that ask for what there is not. */
const UNSUPPORTED: readonly string[] = [
  "audio",
  "function_call",
  "functions",
  "metadata",
  "modalities",
  "parallel_tool_calls",
  "prediction",
  "prompt_cache_key",
  "safety_identifier",
  "service_tier",
  "store",
  "verbosity",
  "web_search_options",
];

/**
 * Reads a request.
 *
 * @throws {TypeError} for a misspelt field
 * @throws {GraphError} bad-param for a field that is not supported, or a value that makes no sense
 */
export function readRequest(request: ChatRequest): ReadRequest {
  if (!isRecord(request))
    throw new GraphError("bad-param", "chat.completions: expected an object { messages, ... }");
  const given = Object.fromEntries(
    Object.entries(request).filter(([, value]) => value !== null && value !== undefined),
  );
  checkOptions("chat.completions", given, [...OTHERS, ...Object.keys(PASSED), ...UNSUPPORTED]);
  const r = given as unknown as ChatRequest;
  refuseUnsupported(given, r);
  const tools = r.tool_choice === "none" ? undefined : (r.tools ?? undefined);
  return {
    prompt: {
      messages: r.messages,
      tools,
      variables: {
        ...r.chat_template_kwargs,
        ...(r.reasoning_effort === undefined ? {} : { reasoning_effort: r.reasoning_effort }),
      },
    },
    chatTemplate: r.chat_template ?? undefined,
    tools: toolNames(tools),
    generate: generateOptions(given, r),
    model: r.model ?? undefined,
    stream: r.stream === true,
    usage: usagePlace(r),
  };
}

// What is wrong with a list of tools is said when the prompt is made.
function toolNames(tools: ChatRequest["tools"]): string[] {
  if (!Array.isArray(tools)) return [];
  return tools.map((tool: ChatTool) => tool?.function?.name).filter((name) => typeof name === "string");
}

// A field that is false asks for nothing, whatever its name.
function refuseUnsupported(given: Readonly<Record<string, unknown>>, r: ChatRequest): void {
  for (const name of UNSUPPORTED)
    if (given[name] !== undefined && given[name] !== false) throw unsupported(name);
  if (r.response_format !== undefined && r.response_format?.type !== "text")
    throw unsupported("response_format");
  if (r.n !== undefined && r.n !== 1) throw unsupported("n", `${r.n}; 1 is`);
  if (!["auto", "none", undefined].includes(r.tool_choice as string | undefined)) {
    throw unsupported("tool_choice", `${JSON.stringify(r.tool_choice)}; "auto" and "none" are`);
  }
  if (r.top_logprobs !== undefined && r.logprobs !== true) {
    throw new GraphError("bad-param", "chat.completions: top_logprobs needs logprobs: true");
  }
  if (r.chat_template_kwargs !== undefined && !isRecord(r.chat_template_kwargs)) {
    throw new GraphError("bad-param", "chat.completions: chat_template_kwargs, expected an object");
  }
}

function unsupported(name: string, what = "not supported"): GraphError {
  const text = what === "not supported" ? `"${name}" is not supported` : `"${name}" of ${what} supported`;
  return new GraphError("bad-param", `chat.completions: ${text}`, { actual: name });
}

function generateOptions(given: Readonly<Record<string, unknown>>, r: ChatRequest): GenerateOptions {
  const passed = Object.entries(PASSED).filter(([name]) => given[name] !== undefined);
  return {
    ...Object.fromEntries(passed.map(([name, option]) => [option, given[name]])),
    maxTokens: r.max_completion_tokens ?? r.max_tokens ?? undefined,
    stop: typeof r.stop === "string" ? [r.stop] : (r.stop ?? undefined),
    logprobs: r.logprobs === true ? (r.top_logprobs ?? 0) : undefined,
  };
}

// Without stream_options usage comes with the last chunk: clients that do not know it pass over it.
function usagePlace({ stream_options }: ChatRequest): ReadRequest["usage"] {
  if (stream_options === undefined || stream_options === null) return "last chunk";
  checkOptions("stream_options", stream_options, ["include_usage"]);
  return stream_options.include_usage === true ? "own chunk" : "none";
}
