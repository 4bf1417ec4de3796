// Chat completions: the shapes that OpenAI's clients know, whole and streamed, and what a second turn costs.
import { expect, test } from "vitest";
import { FormatError, GraphError } from "../ts/errors.ts";
import {
  type ChatChunk,
  type ChatCompletion,
  type ChatMessage,
  type ChatRequest,
  loadModel,
  type LoadOptions,
  type Model,
} from "../ts/llm/index.ts";
import { dataDir, describeWith, readData } from "./data.ts";

/** Each message between end tokens, so that texts are cut where messages are. */
const TEMPLATE =
  "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system messages here') }}" +
  "{% endif %}{{ m.content | trim }}{{ eos_token }}{% endfor %}{% if not add_generation_prompt %}.{% endif %}";

const hello: readonly ChatMessage[] = [{ role: "user", content: "Once upon a time there was a dog." }];
const GREEDY = { temperature: 0, max_tokens: 12 } as const;

const bytes = (): Uint8Array<ArrayBuffer> =>
  readData("models", "stories260K/stories260K-f32.gguf") as Uint8Array<ArrayBuffer>;

async function withModel<T>(options: LoadOptions, use: (m: Model) => Promise<T>): Promise<T> {
  const model = await loadModel(bytes(), { nThreads: 1, chatTemplate: TEMPLATE, ...options });
  try {
    return await use(model);
  } finally {
    model.dispose();
  }
}

async function collect(stream: AsyncIterable<ChatChunk>): Promise<ChatChunk[]> {
  const list: ChatChunk[] = [];
  for await (const part of stream) list.push(part);
  return list;
}

const textOf = (parts: readonly ChatChunk[]): string =>
  parts.map((part) => part.choices[0]?.delta.content ?? "").join("");

describeWith("models", "chat completions of stories260K", () => {
  test("a whole answer has OpenAI's shape", () =>
    withModel({}, async (model) => {
      const got = await model.chat.completions.create({ messages: hello, model: "mine", ...GREEDY });
      const prompt = [1, ...model.tokenize(hello[0]!.content as string, { addSpecial: false }), 2];
      const direct = await model.complete(prompt, { temperature: 0, maxTokens: 12, cachePrompt: false });
      expect(got).toEqual({
        id: expect.stringMatching(/^chatcmpl-[0-9a-f]{24}$/) as string,
        object: "chat.completion",
        created: expect.any(Number) as number,
        model: "mine",
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: direct.text, refusal: null },
            logprobs: null,
            finish_reason: "length",
          },
        ],
        usage: {
          prompt_tokens: prompt.length,
          completion_tokens: 12,
          total_tokens: prompt.length + 12,
          prompt_tokens_details: { cached_tokens: 0 },
        },
      } satisfies ChatCompletion);
      expect(Math.abs(got.created - Date.now() / 1000)).toBeLessThan(600);
    }));

  test("a stream begins with the role, joins to the same text, and ends with reason and usage", () =>
    withModel({}, async (model) => {
      const whole = await model.chat.completions.create({ messages: hello, ...GREEDY });
      const stream = await model.chat.completions.create({ messages: hello, ...GREEDY, stream: true });
      const parts = await collect(stream);
      expect(textOf(parts)).toBe(whole.choices[0].message.content);
      expect(parts[0]!.choices[0]).toEqual({
        index: 0,
        delta: { role: "assistant", content: "" },
        logprobs: null,
        finish_reason: null,
      });
      expect(parts.length).toBeGreaterThan(5);
      for (const part of parts) {
        expect(part).toMatchObject({ object: "chat.completion.chunk", id: parts[0]!.id, model: whole.model });
      }
      const last = parts.at(-1)!;
      expect(last.choices[0]).toMatchObject({ delta: {}, finish_reason: "length" });
      expect(last.usage).toMatchObject({ prompt_tokens: whole.usage.prompt_tokens, completion_tokens: 12 });
      expect(parts.slice(0, -1).every((part) => part.usage === undefined)).toBe(true);
    }));

  test("usage in a stream comes where it is asked for", () =>
    withModel({}, async (model) => {
      const parts = async (include_usage: boolean): Promise<ChatChunk[]> =>
        collect(
          await model.chat.completions.create({
            messages: hello,
            ...GREEDY,
            stream: true,
            stream_options: { include_usage },
          }),
        );
      const own = await parts(true);
      expect(own.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } });
      expect(own.at(-2)!.usage).toBeUndefined();
      expect((await parts(false)).every((part) => part.usage === undefined)).toBe(true);
    }));

  test("a second turn computes only what is new", () =>
    withModel({}, async (model) => {
      const { create } = bound(model);
      const first = await create({ messages: hello, ...GREEDY });
      const said = first.choices[0].message.content;
      const next: ChatMessage[] = [
        ...hello,
        { role: "assistant", content: said },
        { role: "user", content: "He was sad." },
      ];
      const second = await create({ messages: next, ...GREEDY });
      const { prompt_tokens, prompt_tokens_details } = second.usage;
      // All of the first turn but its last token, which was chosen and never computed.
      expect(prompt_tokens_details.cached_tokens).toBe(first.usage.total_tokens - 1);
      expect(prompt_tokens).toBeGreaterThan(first.usage.total_tokens);
      const fresh = await create({ messages: next, ...GREEDY, cache_prompt: false });
      expect(fresh.usage.prompt_tokens_details.cached_tokens).toBe(0);
      expect(fresh.choices).toEqual(second.choices);
    }));

  test("log-probabilities come per token, whole and streamed alike", () =>
    withModel({}, async (model) => {
      const request = { messages: hello, ...GREEDY, logprobs: true, top_logprobs: 2 } as const;
      const whole = await model.chat.completions.create(request);
      const { content } = whole.choices[0].logprobs!;
      expect(content.length).toBe(12);
      for (const t of content) {
        expect(t.top_logprobs.length).toBe(2);
        expect(t.top_logprobs[0]).toEqual({ token: t.token, logprob: t.logprob, bytes: t.bytes });
        expect(new TextDecoder().decode(Uint8Array.from(t.bytes))).toBe(t.token);
      }
      expect(content.map((t) => t.token).join("")).toBe(whole.choices[0].message.content);
      const parts = await collect(await model.chat.completions.create({ ...request, stream: true }));
      expect(parts.flatMap((part) => part.choices[0]?.logprobs?.content ?? [])).toEqual(content);
      const bare = await model.chat.completions.create({ ...request, top_logprobs: null });
      expect(bare.choices[0].logprobs!.content[0]!.top_logprobs).toEqual([]);
    }));

  test("sampling fields reach the sampler", () =>
    withModel({}, async (model) => {
      const { create } = bound(model);
      const text = async (more: Partial<ChatRequest>): Promise<string> =>
        (await create({ messages: hello, ...GREEDY, ...more })).choices[0].message.content;
      const plain = await text({});
      expect(await text({ temperature: 1, seed: 5 })).toBe(await text({ temperature: 1, seed: 5 }));
      expect(await text({ temperature: 1, seed: 5 })).not.toBe(plain);
      expect(await text({ temperature: 9, top_k: 1 })).toBe(plain);
      const tokens: number[] = [];
      await model.complete(model.context.tokens, {
        temperature: 0,
        maxTokens: 1,
        onToken: (id) => void tokens.push(id),
      });
      expect(tokens.length).toBe(1);
      const word = plain.trim().split(" ")[3]!;
      const [first] = model.tokenize(word, { addSpecial: false });
      expect(await text({ logit_bias: { [first!]: -100 } })).not.toBe(plain);
      expect((await text({ stop: plain.slice(4, 8) })).length).toBeLessThan(plain.length);
      expect(await text({ stop: ["\u0000", plain.slice(4, 8)] })).toBe(plain.slice(0, 4));
      expect((await text({ max_tokens: 99, max_completion_tokens: 3 })).length).toBeLessThan(plain.length);
      const penalised = { frequency_penalty: 1.5, presence_penalty: 1.5, max_tokens: 60 };
      expect(await text(penalised)).not.toBe(await text({ max_tokens: 60 }));
    }));

  test("answers end by a stop text or an end token as stop, by the limit or the context as length", () =>
    withModel({ nCtx: 40 }, async (model) => {
      const { create } = bound(model);
      const reason = async (more: Partial<ChatRequest>): Promise<string> =>
        (await create({ messages: hello, temperature: 0, ...more })).choices[0].finish_reason;
      expect(await reason({ max_tokens: 2 })).toBe("length");
      expect(await reason({})).toBe("length");
      expect(await reason({ stop: "e" })).toBe("stop");
      expect(await reason({ logit_bias: { 2: 100 } })).toBe("stop");
    }));

  test("fields that are not supported are named; misspelt ones are a TypeError; null is nothing", () =>
    withModel({}, async (model) => {
      const { create } = bound(model);
      const bad: [Record<string, unknown>, string][] = [
        [{ response_format: { type: "json_object" } }, "response_format"],
        [{ n: 2 }, "n"],
        [{ tool_choice: "required" }, "tool_choice"],
        [{ functions: [] }, "functions"],
        [{ audio: {} }, "audio"],
        [{ top_logprobs: 2 }, "top_logprobs"],
        [{ logprobs: true, top_logprobs: 1000 }, "logprobs"],
        [{ temperature: -1 }, "temperature"],
        [{ max_tokens: -1 }, "maxTokens"],
        [{ chat_template_kwargs: 5 }, "chat_template_kwargs"],
        [{ chat_template: "no such name" }, "chatTemplate"],
        [{ messages: [] }, "messages"],
        [{ messages: undefined }, "messages"],
      ];
      for (const [fields, name] of bad) {
        const error = await create({ messages: hello, ...fields } as ChatRequest).catch((e: unknown) => e);
        expect(error, name).toBeInstanceOf(GraphError);
        expect(error).toMatchObject({ code: "bad-param", message: expect.stringContaining(name) as string });
      }
      await expect(create({ messages: hello, max_token: 5 } as ChatRequest)).rejects.toThrow(TypeError);
      await expect(create({ messages: hello, stream_options: { usage: true } } as never)).rejects.toThrow(
        TypeError,
      );
      for (const request of ["hi", undefined, [hello]]) {
        await expect(model.chat.completions.create(request as never)).rejects.toMatchObject({
          code: "bad-param",
        });
      }
      await expect(model.chat.completions.create({ messages: hello }, { sgnal: 1 } as never)).rejects.toThrow(
        TypeError,
      );
      const nulls = {
        stop: null,
        tools: null,
        n: null,
        functions: null,
        top_p: null,
        seed: null,
        store: false,
      };
      expect(
        (await create({ messages: hello, ...GREEDY, ...nulls } as ChatRequest)).usage.completion_tokens,
      ).toBe(12);
    }));

  test("a template's refusal rejects before anything is generated, streamed or not", () =>
    withModel({}, async (model) => {
      const messages = [{ role: "system", content: "be good" }, ...hello];
      for (const stream of [false, true]) {
        const error = await model.chat.completions
          .create({ messages, stream } as ChatRequest)
          .catch((e: unknown) => e);
        expect(error).toBeInstanceOf(FormatError);
        expect(error).toMatchObject({
          code: "template-error",
          message: "chatTemplate: no system messages here",
        });
      }
      expect(model.context.tokens).toEqual([]);
      expect((await model.chat.completions.create({ messages: hello, ...GREEDY })).choices.length).toBe(1);
    }));

  test("a model without a template says so, and a request can bring one", async () => {
    await using model = await loadModel(bytes(), { nThreads: 1 });
    await expect(model.chat.completions.create({ messages: hello })).rejects.toMatchObject({
      code: "template-error",
      details: { key: "tokenizer.chat_template" },
    });
    const got = await model.chat.completions.create({ messages: hello, ...GREEDY, chat_template: TEMPLATE });
    expect(got.usage.completion_tokens).toBe(12);
    expect(
      await model.chat.completions.create({ messages: hello, ...GREEDY, chat_template: "chatml" }),
    ).toBeDefined();
    await expect(loadModel(bytes(), { nThreads: 1, chatTemplate: "chatmll" })).rejects.toMatchObject({
      code: "bad-param",
    });
  });

  test("a conversation that does not fit is refused, also before a stream", () =>
    withModel({ nCtx: 16 }, async (model) => {
      const messages = [{ role: "user", content: "word ".repeat(30) }];
      for (const stream of [false, true]) {
        await expect(
          model.chat.completions.create({ messages, stream } as ChatRequest),
        ).rejects.toMatchObject({
          code: "context-full",
        });
      }
    }));

  test("an abort rejects with its reason, whole and streamed, and the model goes on", () =>
    withModel({}, async (model) => {
      const reason = new Error("enough");
      const early = { signal: AbortSignal.abort(reason) };
      await expect(model.chat.completions.create({ messages: hello }, early)).rejects.toBe(reason);
      const whole = new AbortController();
      const waiting = model.chat.completions.create({ messages: hello }, { signal: whole.signal });
      setTimeout(() => whole.abort(reason), 5);
      await expect(waiting).rejects.toBe(reason);
      const streamed = new AbortController();
      const stream = await model.chat.completions.create(
        { messages: hello, stream: true },
        { signal: streamed.signal },
      );
      let n = 0;
      const reading = (async () => {
        for await (const _ of stream) if (++n === 4) streamed.abort(reason);
      })();
      await expect(reading).rejects.toBe(reason);
      expect(n).toBe(4);
      expect(
        (await model.chat.completions.create({ messages: hello, ...GREEDY })).usage.completion_tokens,
      ).toBe(12);
    }));

  test("leaving a stream early frees the context; a stream can be read once", () =>
    withModel({}, async (model) => {
      const stream = await model.chat.completions.create({ messages: hello, stream: true });
      let n = 0;
      for await (const _ of stream) if (++n === 3) break;
      expect(() => stream[Symbol.asyncIterator]()).toThrow(GraphError);
      const second = await model.chat.completions.create({ messages: hello, ...GREEDY, stream: true });
      expect((await collect(second)).length).toBeGreaterThan(3);
    }));

  test("a stream as lines of JSON for a Response", () =>
    withModel({}, async (model) => {
      const stream = await model.chat.completions.create({ messages: hello, ...GREEDY, stream: true });
      const text = await new Response(stream.toReadableStream()).text();
      const parts = text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as ChatChunk);
      expect(parts.at(-1)!.choices[0]!.finish_reason).toBe("length");
      const cut = (await model.chat.completions.create({ messages: hello, stream: true })).toReadableStream();
      const reader = cut.getReader();
      await reader.read();
      await reader.read();
      await reader.cancel();
      expect((await model.chat.completions.create({ messages: hello, ...GREEDY })).choices.length).toBe(1);
    }));

  test("contexts hold conversations of their own", () =>
    withModel({}, async (model) => {
      const other = await model.createContext({ nCtx: 64 });
      const [a, b] = await Promise.all([
        model.chat.completions.create({ messages: hello, ...GREEDY }),
        other.chat.completions.create({
          messages: [{ role: "user", content: "Lily had a cat." }],
          ...GREEDY,
        }),
      ]);
      expect(a.choices[0].message.content).not.toBe(b.choices[0].message.content);
      const again = await other.chat.completions.create({
        messages: [{ role: "user", content: "Lily had a cat." }],
        ...GREEDY,
      });
      expect(again.choices).toEqual(b.choices);
      expect(again.usage.prompt_tokens_details.cached_tokens).toBe(again.usage.prompt_tokens - 1);
    }));

  test("the prompt can be looked at as text", () =>
    withModel({}, async (model) => {
      expect(await model.chat.render({ messages: hello })).toBe("<s>Once upon a time there was a dog.</s>");
      expect(await model.chat.render({ messages: hello, addGenerationPrompt: false })).toMatch(/\.$/);
      await expect(model.chat.render({ mesages: hello } as never)).rejects.toThrow(TypeError);
    }));
});

/** `create` with the simple signature. */
function bound(model: Model): { create: (request: ChatRequest) => Promise<ChatCompletion> } {
  return { create: (request) => model.chat.completions.create({ ...request, stream: false }) };
}

describeWith("corpus", "files with templates", () => {
  test("a model whose template is broken loads and generates; only chatting fails", async () => {
    for (const name of ["unclosed", "unknown-filter", "infinite", "raise", "proto"]) {
      await using model = await loadModel(`${dataDir("corpus")}/arch/tpl-${name}.gguf`, { nThreads: 1 });
      await expect(model.chat.completions.create({ messages: hello })).rejects.toMatchObject({
        code: "template-error",
      });
      expect((await model.complete("hello", { temperature: 0, maxTokens: 3 })).tokens.length).toBeGreaterThan(
        0,
      );
      const other = { messages: hello, max_tokens: 3, chat_template: "{{ messages[0].content }}" };
      expect((await model.chat.completions.create(other)).usage.completion_tokens).toBeLessThanOrEqual(3);
    }
    for (const name of ["break", "namespace", "strftime", "empty"]) {
      await using model = await loadModel(`${dataDir("corpus")}/arch/tpl-${name}.gguf`, { nThreads: 1 });
      const got = await model.chat.completions.create({ messages: hello, max_tokens: 3 });
      expect(got.choices[0].message.role).toBe("assistant");
    }
  });
});
