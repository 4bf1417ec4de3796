// Calls of tools in what a model writes, in the forms that its kin were taught:
//
//   Hermes, Qwen   <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one or more
//   Mistral        [TOOL_CALLS] [{...}, ...], or name{...}, or name[ARGS]{...}; the marker need not be printed
//   Llama 3        {"name": ..., "parameters": {...}} and nothing else, after <|python_tag|> or not
//
// A call counts when its tool was offered. What cannot be read as a whole stays text.

import { isRecord } from "./plain.ts";

/** A call of a tool in an answer. */
export interface MadeToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: {
    readonly name: string;
    /** JSON text */
    readonly arguments: string;
  };
}

/** What is left of an answer at its end. */
export interface ToolEnd {
  readonly text: string;
  readonly calls: readonly MadeToolCall[];
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const LIST = "[TOOL_CALLS]";
const TAG = "<|python_tag|>";
const ARGS = "[ARGS]";
const MARKERS: readonly string[] = [OPEN, LIST, TAG];

/** Lets text pass up to where calls begin, and reads them at the end. */
export class ToolReader {
  readonly #names: readonly string[];
  #held = "";
  #passed = false;
  /** calls may have begun: nothing passes any more */
  #holding = false;

  /** @param names tools that were offered; with none all text passes */
  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** Text that belongs to no call. */
  push(text: string): string {
    if (this.#names.length === 0) return text;
    this.#held += text;
    if (this.#holding) return "";
    const from = this.#undecided();
    const out = this.#held.slice(0, from);
    this.#held = this.#held.slice(from);
    this.#passed ||= out !== "";
    return out;
  }

  /** The calls, and text that is none, when no more text comes. */
  end(): ToolEnd {
    const held = this.#held;
    this.#held = "";
    const read = held.trim() === "" ? undefined : readCalls(held, this.#names);
    return read ?? { text: held, calls: [] };
  }

  // Where calls begin, or might once more text has come.
  #undecided(): number {
    const held = this.#held;
    const first = held.trimStart()[0];
    if (!this.#passed && (first === undefined || first === "{" || first === "[")) {
      this.#holding = first !== undefined;
      return 0;
    }
    const found = MARKERS.map((marker) => held.indexOf(marker)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#holding = true;
      return Math.min(...found);
    }
    let from = held.length;
    for (const marker of MARKERS) {
      for (let at = Math.max(0, held.length - marker.length + 1); at < from; at++)
        if (marker.startsWith(held.slice(at))) from = at;
    }
    return from;
  }
}

// All that was held back, read as calls; undefined when it is not that.
function readCalls(held: string, names: readonly string[]): ToolEnd | undefined {
  const text = held.trim();
  if (text.startsWith(OPEN)) return readTagged(text, names);
  const body = text.startsWith(TAG)
    ? text.slice(TAG.length)
    : text.startsWith(LIST)
      ? text.slice(LIST.length)
      : text;
  const value = parsed(body) ?? parsedNamed(body);
  const calls = Array.isArray(value) ? value.map((v) => callOf(v, names)) : [callOf(value, names)];
  return whole(calls, "");
}

// One <tool_call> after the other; text between and after them is text.
function readTagged(text: string, names: readonly string[]): ToolEnd | undefined {
  const calls: (MadeToolCall | undefined)[] = [];
  let rest = "";
  for (let at = 0; at < text.length;) {
    const open = text.indexOf(OPEN, at);
    rest += text.slice(at, open < 0 ? text.length : open);
    if (open < 0) break;
    const close = text.indexOf(CLOSE, open);
    const end = close < 0 ? text.length : close;
    calls.push(callOf(parsed(text.slice(open + OPEN.length, end)), names));
    at = close < 0 ? end : end + CLOSE.length;
  }
  return whole(calls, rest.trim());
}

function whole(calls: readonly (MadeToolCall | undefined)[], text: string): ToolEnd | undefined {
  const known = calls.filter((call) => call !== undefined);
  return known.length === calls.length && calls.length > 0 ? { text, calls: known } : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// name{...} and name[ARGS]{...}
function parsedNamed(text: string): unknown {
  const brace = text.indexOf("{");
  if (brace <= 0) return undefined;
  const before = text.slice(0, brace).trim();
  const name = before.endsWith(ARGS) ? before.slice(0, -ARGS.length).trim() : before;
  return { name, arguments: parsed(text.slice(brace)) };
}

function callOf(value: unknown, names: readonly string[]): MadeToolCall | undefined {
  if (!isRecord(value)) return undefined;
  const { name } = value;
  const given = "arguments" in value ? value["arguments"] : (value["parameters"] ?? {});
  if (typeof name !== "string" || !names.includes(name)) return undefined;
  if (!isRecord(given) && typeof given !== "string") return undefined;
  const args = typeof given === "string" ? given : JSON.stringify(given);
  const id = typeof value["id"] === "string" && value["id"] !== "" ? value["id"] : newId();
  return { id, type: "function", function: { name, arguments: args } };
}

function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(9));
  return `call_${Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
