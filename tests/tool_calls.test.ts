// Calls of tools in answers: their forms, whole and in parts; what is not a call stays text.
import { describe, expect, test } from "vitest";
import { type ChatModel, ContextChat } from "../ts/llm/chat/completions.ts";
import type { ChatRequest } from "../ts/llm/chat/request.ts";
import type { ChatChunk, ChatCompletion } from "../ts/llm/chat/response.ts";
import { ToolReader } from "../ts/llm/chat/tool_calls.ts";
import type { Generation } from "../ts/llm/generate.ts";

const NAMES = ["weather", "add"];

/** What passes, what is left, and the calls as name and arguments; the text comes in parts of `size`. */
function read(
  text: string,
  size: number = text.length,
  names = NAMES,
): readonly [string, string, ...unknown[]] {
  const reader = new ToolReader(names);
  let passed = "";
  for (let at = 0; at < text.length; at += Math.max(1, size))
    passed += reader.push(text.slice(at, at + size));
  const { text: rest, calls } = reader.end();
  return [
    passed,
    rest,
    ...calls.map((call) => [call.function.name, JSON.parse(call.function.arguments) as unknown]),
  ];
}

const PARIS = ["weather", { city: "Paris" }];
const SUM = ["add", { a: 1, b: { c: "}" } }];
const paris = '{"name": "weather", "arguments": {"city": "Paris"}}';
const sum = '{"name": "add", "arguments": {"a": 1, "b": {"c": "}"}}}';

describe("forms", () => {
  test.each([
    ["Hermes", `<tool_call>\n${paris}\n</tool_call>`, "", "", PARIS],
    ["Hermes, two", `<tool_call>${paris}</tool_call>\n<tool_call>${sum}</tool_call>`, "", "", PARIS, SUM],
    ["Hermes after text", `I look.\n<tool_call>\n${sum}\n</tool_call>`, "I look.\n", "", SUM],
    ["Hermes before text", `<tool_call>${sum}</tool_call> Done.`, "", "Done.", SUM],
    ["Hermes without an end", `<tool_call>\n${paris}`, "", "", PARIS],
    ["Mistral", `[TOOL_CALLS] [${paris}, ${sum}]`, "", "", PARIS, SUM],
    ["Mistral without its marker", `[${paris}]`, "", "", PARIS],
    ["Mistral, a name", '[TOOL_CALLS]weather{"city": "Paris"}', "", "", PARIS],
    ["Mistral, arguments", '[TOOL_CALLS]weather[ARGS]{"city": "Paris"}', "", "", PARIS],
    ["Llama 3", '{"name": "weather", "parameters": {"city": "Paris"}}', "", "", PARIS],
    ["Llama 3 with a tag", `<|python_tag|>${paris}`, "", "", PARIS],
    ["arguments as a text", '{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}', "", "", PARIS],
    ["no arguments", '{"name": "weather"}', "", "", ["weather", {}]],
  ] as const)("%s, whole and in parts of any size", (_, text, ...want) => {
    expect(read(text)).toEqual(want);
    for (const size of [1, 2, 3, 7, 31]) expect(read(text, size)).toEqual(want);
  });
});

describe("what is not a call", () => {
  test.each([
    ["plain text", "It rains."],
    ["a tool that was not offered", '<tool_call>{"name": "rm", "arguments": {}}</tool_call>'],
    ["broken JSON", '<tool_call>{"name": "weather", </tool_call>'],
    ["one good and one bad call", `<tool_call>${paris}</tool_call><tool_call>{}</tool_call>`],
    ["JSON with text after it", `${paris} is what I would call.`],
    ["JSON of another kind", '{"city": "Paris"}'],
    ["a list of numbers", "[1, 2, 3]"],
    ["an empty list", "[]"],
    ["half a marker", "a <tool_"],
    ["arguments that are none", '{"name": "weather", "arguments": 7}'],
    ["blanks", " \n "],
    ["nothing", ""],
  ])("%s stays text, every character of it", (_, text) => {
    for (const size of [1, 3, 1000]) {
      const [passed, rest, ...calls] = read(text, size);
      expect(passed + rest).toBe(text);
      expect(calls).toEqual([]);
    }
  });

  test("without tools everything passes at once", () => {
    const reader = new ToolReader([]);
    expect(reader.push(`<tool_call>${paris}</tool_call>`)).toBe(`<tool_call>${paris}</tool_call>`);
    expect(reader.end()).toEqual({ text: "", calls: [] });
  });

  test("text passes as soon as it can be no call", () => {
    const reader = new ToolReader(NAMES);
    expect(reader.push("a < b <tool")).toBe("a < b ");
    expect(reader.push("box> c")).toBe("<toolbox> c");
  });
});

const tools = NAMES.map((name) => ({ type: "function" as const, function: { name } }));

/** A chat whose model writes this text, in parts of five characters. */
function chatThatSays(text: string): ContextChat {
  const generation = { text, stopReason: "eos", promptTokens: [1, 2], tokens: [3], cachedTokens: 0 };
  const encode = (): Promise<number[]> => Promise.resolve([1, 2]);
  const model = {
    name: "m",
    nCtx: 64,
    tokenizer: {},
    prompter: { with: () => ({ encode }) },
    async *generate(): AsyncGenerator<string, Generation, undefined> {
      for (let at = 0; at < text.length; at += 5) yield text.slice(at, at + 5);
      return generation as unknown as Generation;
    },
  };
  return new ContextChat(model as unknown as ChatModel);
}

const request = (more: Partial<ChatRequest>): ChatRequest => ({
  messages: [{ role: "user", content: "?" }],
  ...more,
});

describe("chat.completions", () => {
  const said = `Well.\n<tool_call>${paris}</tool_call><tool_call>${sum}</tool_call>`;

  test("calls come as tool_calls, with ids of their own and the reason", async () => {
    const answer = (await chatThatSays(said).create(request({ tools }))) as ChatCompletion;
    const { message, finish_reason } = answer.choices[0];
    expect(finish_reason).toBe("tool_calls");
    expect(message.content).toBe("Well.");
    expect(message.tool_calls!.map((call) => call.function.name)).toEqual(NAMES);
    expect(new Set(message.tool_calls!.map((call) => call.id)).size).toBe(2);
    expect(message.tool_calls![0]).toMatchObject({
      type: "function",
      id: expect.stringMatching(/^call_/) as unknown,
    });
  });

  test("a stream gives the text, then each call with its number", async () => {
    const stream = await chatThatSays(said).create(request({ tools, stream: true }));
    const parts: ChatChunk[] = [];
    for await (const part of stream as AsyncIterable<ChatChunk>) parts.push(part);
    const deltas = parts.map((part) => part.choices[0]!.delta);
    expect(deltas.map((d) => d.content ?? "").join("")).toBe("Well.\n");
    const calls = deltas.flatMap((d) => d.tool_calls ?? []);
    expect(calls.map(({ index, function: f }) => [index, f.name])).toEqual([
      [0, "weather"],
      [1, "add"],
    ]);
    expect(parts.at(-1)!.choices[0]!.finish_reason).toBe("tool_calls");
  });

  test("without tools, or with tool_choice none, the text stays what it is", async () => {
    for (const more of [{}, { tools, tool_choice: "none" as const }]) {
      const answer = (await chatThatSays(said).create(request(more))) as ChatCompletion;
      expect(answer.choices[0].message).toEqual({ role: "assistant", content: said, refusal: null });
      expect(answer.choices[0].finish_reason).toBe("stop");
    }
  });
});
