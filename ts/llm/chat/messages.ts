// Conversations: their checks, and the forms that templates want them in.

import { GraphError } from "../../errors.ts";
import { isRecord, type Json, plain } from "./plain.ts";

/** A part of a message's content. */
export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A call of a tool that the model made. */
export interface ToolCall {
  readonly id?: string;
  readonly type?: "function";
  readonly function: {
    readonly name: string;
    /** JSON text, as OpenAI clients send it, or an object */
    readonly arguments: string | { readonly [key: string]: Json };
  };
}

/** A message. Keys beyond these are passed on to the template. */
export interface ChatMessage {
  /** system, user, assistant, tool, developer, or what else the template knows */
  readonly role: string;
  readonly content?: string | readonly TextPart[] | null;
  readonly name?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
  readonly reasoning_content?: string;
  readonly [key: string]: unknown;
}

/** A tool that a template tells the model about, in OpenAI's form. */
export interface ChatTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    /** JSON schema */
    readonly parameters?: unknown;
  };
}

/** Messages as plain data. */
export type PlainMessage = { readonly [key: string]: Json };

/** Checked messages, with their size in characters. */
export interface Conversation {
  readonly messages: readonly PlainMessage[];
  readonly weight: number;
}

/**
 * Checks and copies messages.
 *
 * @throws {GraphError} bad-param naming the message and what is wrong with it
 */
export function readMessages(messages: readonly ChatMessage[]): Conversation {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new GraphError("bad-param", "messages: expected a list of at least one message");
  }
  let weight = 0;
  const list = messages.map((message: ChatMessage, i): PlainMessage => {
    if (!isRecord(message)) throw wrong(`messages[${i}]`, "expected { role, content }");
    if (typeof message.role !== "string" || message.role === "")
      throw wrong(`messages[${i}].role`, "expected a text");
    checkContent(message.content, `messages[${i}].content`);
    const copy = plain(message, `messages[${i}]`);
    weight += copy.weight;
    return copy.value as PlainMessage;
  });
  return { messages: list, weight };
}

function checkContent(content: unknown, path: string): void {
  if (content === undefined || content === null || typeof content === "string") return;
  if (!Array.isArray(content)) throw wrong(path, "expected a text, a list of parts, or null");
  for (const [i, part] of content.entries()) {
    if (isRecord(part) && part["type"] === "text" && typeof part["text"] === "string") continue;
    const type = isRecord(part) ? String(part["type"]) : typeof part;
    throw wrong(`${path}[${i}]`, `a part of type "${type}"; only { type: "text", text } is supported`);
  }
}

/**
 * Checks and copies tools.
 *
 * @returns undefined for none, so that templates see nothing rather than an empty list
 * @throws {GraphError} bad-param
 */
export function readTools(
  tools: readonly ChatTool[] | undefined,
): { value: Json; weight: number } | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) throw wrong("tools", "expected a list");
  for (const [i, tool] of tools.entries()) {
    const f: unknown = isRecord(tool) && tool["type"] === "function" ? tool["function"] : undefined;
    if (isRecord(f) && typeof f["name"] === "string") continue;
    throw wrong(`tools[${i}]`, 'expected { type: "function", function: { name, ... } }');
  }
  return tools.length === 0 ? undefined : plain(tools, "tools");
}

/** Contents as lists of parts, or as texts with the parts on lines of their own. */
export function withContent(
  messages: readonly PlainMessage[],
  form: "parts" | "text",
): readonly PlainMessage[] {
  return messages.map((message) => {
    const { content } = message;
    if (form === "parts" && typeof content === "string")
      return { ...message, content: [{ type: "text", text: content }] };
    if (form === "text" && Array.isArray(content)) {
      return { ...message, content: (content as readonly TextPart[]).map((part) => part.text).join("\n") };
    }
    return message;
  });
}

/** Arguments of tool calls that are JSON texts of objects, as these objects: most templates want them so. */
export function withParsedArguments(messages: readonly PlainMessage[]): readonly PlainMessage[] {
  return messages.map((message) => {
    const calls = message["tool_calls"];
    return Array.isArray(calls) ? { ...message, tool_calls: calls.map(parsedCall) } : message;
  });
}

function parsedCall(call: Json): Json {
  const f = isRecord(call) ? call["function"] : undefined;
  if (!isRecord(f) || typeof f["arguments"] !== "string") return call;
  try {
    const parsed: unknown = JSON.parse(f["arguments"]);
    if (!isRecord(parsed)) return call;
    return {
      ...(call as PlainMessage),
      function: { ...(f as PlainMessage), arguments: parsed as PlainMessage },
    };
  } catch {
    return call;
  }
}

/** The role "developer" as "system", for templates that have never heard of it. */
export function withSystemRole(messages: readonly PlainMessage[]): readonly PlainMessage[] {
  return messages.map((message) =>
    message["role"] === "developer" ? { ...message, role: "system" } : message,
  );
}

function wrong(path: string, rule: string): GraphError {
  return new GraphError("bad-param", `${path}: ${rule}`);
}
