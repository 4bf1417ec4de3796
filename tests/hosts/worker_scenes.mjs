// What a program does with a model in a worker, the same in a page and in Node; returns plain data to be judged.

/** Joins what a generation yields; also its return value. */
async function gather(run) {
  const parts = [];
  for (;;) {
    const { done, value } = await run.next();
    if (done) return { parts, generation: value };
    parts.push(value);
  }
}

/** How a promise failed: class, code, and whether the class is the library's own. */
async function failure(lib, run) {
  try {
    await run();
    return "nothing was thrown";
  } catch (error) {
    const own = ["FormatError", "GraphError", "DeviceError"].find((name) => error instanceof lib[name]);
    const { code, message, details } = error;
    return {
      class: own ?? (error instanceof TypeError ? "TypeError" : String(error)),
      code,
      message,
      details,
    };
  }
}

const GREEDY = { temperature: 0 };
const PROMPT = "Once upon a time";

/** What is done with a model, the library and a function that makes further models; gives what must be alike everywhere. */
export const SCENES = {
  async story(model) {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const told = [];
    const progress = [];
    const options = { ...GREEDY, maxTokens: 64, logprobs: 1 };
    const listeners = { onToken: (id, p) => told.push([id, p.id]), onProgress: (p) => progress.push(p) };
    const { parts, generation } = await gather(model.generate(PROMPT, { ...options, ...listeners }));
    clearInterval(timer);
    const { text, tokens, promptTokens, stopReason, logprobs } = generation;
    const again = await model.complete(PROMPT, options);
    return {
      text,
      joined: parts.join(""),
      manyParts: parts.length > 20,
      told: told.every(([id, same], i) => id === tokens[i] && same === id) && told.length === tokens.length,
      nLogprobs: logprobs.length,
      progress,
      stopReason,
      again: { text: again.text, cachedTokens: again.cachedTokens },
      inCache: model.context.tokens.length === promptTokens.length + tokens.length - 1,
      ticked: ticks >= 10,
    };
  },

  async tokenizer(model) {
    const ids = model.tokenize(`${PROMPT}, é 🐕`);
    return { ids, text: model.detokenize(ids), nVocab: model.tokenizer.nVocab, bos: model.tokenizer.ids.bos };
  },

  async chat(model) {
    const messages = [{ role: "user", content: "Tell me of a dog." }];
    const request = { messages, max_tokens: 12, ...GREEDY };
    const whole = await model.chat.completions.create(request);
    const stream = await model.chat.completions.create({ ...request, stream: true });
    let joined = "";
    let usage;
    for await (const part of stream) {
      joined += part.choices[0]?.delta.content ?? "";
      usage = part.usage ?? usage;
    }
    const lines = await new Response(
      (await model.chat.completions.create({ ...request, stream: true })).toReadableStream(),
    ).text();
    return {
      content: whole.choices[0].message.content,
      joined,
      cached: usage.prompt_tokens_details.cached_tokens === whole.usage.prompt_tokens - 1,
      lines: lines
        .trim()
        .split("\n")
        .every((line) => JSON.parse(line).object === "chat.completion.chunk"),
      rendered: await model.chat.render({ messages }),
    };
  },

  async abort(model) {
    const control = new AbortController();
    const reason = { why: "enough" };
    let n = 0;
    const onToken = () => {
      if (++n === 3) control.abort(reason);
    };
    const cut = await model.complete(PROMPT, { ...GREEDY, maxTokens: 400, signal: control.signal, onToken });
    const before = await model.complete(PROMPT, { ...GREEDY, signal: control.signal });
    const thrown = async (run) =>
      run().then(
        () => false,
        (error) => error === reason,
      );
    const messages = [{ role: "user", content: "hi" }];
    const early = [];
    for await (const part of model.generate(PROMPT, { ...GREEDY, maxTokens: 400 })) {
      early.push(part);
      if (early.length === 2) break;
    }
    return {
      cut: { stopReason: cut.stopReason, some: cut.tokens.length >= 3 && cut.tokens.length < 400 },
      before: { stopReason: before.stopReason, tokens: before.tokens },
      embed: await thrown(() => model.embed(["a"], { signal: control.signal })),
      chat: await thrown(() => model.chat.completions.create({ messages }, { signal: control.signal })),
      afterLeaving: (await model.complete(PROMPT, { ...GREEDY, maxTokens: 2 })).tokens.length,
    };
  },

  async errors(model, lib) {
    const of = (run) => failure(lib, run);
    const broken = new Error("my own");
    const listener = () => {
      throw broken;
    };
    const request = { messages: [{ role: "user", content: "hi", extra: () => 1 }] };
    return {
      misspelt: await of(() => model.complete(PROMPT, { temprature: 0 })),
      range: await of(() => model.complete(PROMPT, { topP: 2 })),
      token: await of(() => model.complete([1, 99999])),
      full: await of(() => model.complete("word ".repeat(600))),
      logits: await of(() => model.complete(PROMPT, { onLogits() {} })),
      rerank: await of(() => model.rerank("a", ["b"])),
      unsendable: await of(() => model.chat.completions.create(request)),
      template: await of(() =>
        model.chat.completions.create({ ...request, messages: [], chat_template: "{{ x(" }),
      ),
      busy: await of(async () => {
        const run = model.generate(PROMPT, { maxTokens: 4 });
        await run.next();
        try {
          await model.complete(PROMPT, { maxTokens: 1 });
        } finally {
          await run.return();
        }
      }),
      listener: await model.complete(PROMPT, { maxTokens: 4, onToken: listener }).catch((e) => e === broken),
    };
  },

  async contexts(model, lib) {
    const context = await model.createContext({ nCtx: 64 });
    await context.complete(PROMPT, { ...GREEDY, maxTokens: 8 });
    const bytes = await context.save();
    const { text } = await context.complete(context.tokens, { ...GREEDY, maxTokens: 8 });
    const other = await model.createContext({ nCtx: 64 });
    await other.restore(bytes);
    const restored = other.tokens.length;
    const same = await other.complete(other.tokens, { ...GREEDY, maxTokens: 8 });
    const both = await Promise.all(
      [context, other].map((c) => c.complete(PROMPT, { ...GREEDY, maxTokens: 8 })),
    );
    other.clear();
    const cleared = other.tokens.length;
    const before = model.memory().kv;
    context.dispose();
    other.dispose();
    await model.complete(PROMPT, { maxTokens: 1 });
    return {
      nCtx: context.nCtx,
      restored,
      same: same.text === text,
      both: both[0].text === both[1].text,
      cleared,
      memoryBack: model.memory().kv < before,
      disposed: await failure(lib, () => context.complete(PROMPT)),
      bad: await failure(lib, () => model.context.restore(bytes.subarray(0, 20))),
    };
  },

  async numbers(model) {
    const [{ embedding }] = await model.embed([PROMPT], { pooling: "mean" });
    const { nTokens, meanNll } = await model.evaluate(PROMPT);
    const { nCtx, params } = model;
    return { embedding: [...embedding], nTokens, meanNll, nCtx, nVocab: params.nVocab, arch: params.arch };
  },

  async two(model, lib, make) {
    const other = await make({ nCtx: 32 });
    const texts = await Promise.all(
      [model, other].map((m) => m.complete(PROMPT, { ...GREEDY, maxTokens: 16 })),
    );
    const { nCtx } = other;
    other.dispose();
    other.dispose();
    const used = await failure(lib, () => other.complete(PROMPT));
    const asked = await failure(lib, async () => other.memory());
    const { tokens } = await model.complete(PROMPT, { ...GREEDY, maxTokens: 1 });
    return { same: texts[0].text === texts[1].text, nCtx, used, asked, stillOne: tokens.length };
  },

  async loading(model, lib, make) {
    const heard = [];
    const quick = await make({ onProgress: (p) => heard.push(p) });
    quick.dispose();
    const control = new AbortController();
    const reason = new Error("changed my mind");
    const onProgress = () => control.abort(reason);
    const last = heard.at(-1);
    return {
      phases: [...new Set(heard.map((p) => p.phase))],
      whole: last.loaded === last.total && last.total > 0,
      aborted: await make({ onProgress, signal: control.signal }).catch((e) => e === reason),
      bad: await failure(lib, () => make({}, new Blob(["<html>"]))),
      misspelt: await failure(lib, () => make({ nThread: 2 })),
      template: await failure(lib, () => make({ chatTemplate: "no such" })),
      wasm: await failure(lib, () => make({ wasm: new Uint8Array([60, 104, 116]) })),
      engine: await failure(lib, () => make({ engine: {}, worker: true })),
      size: await failure(lib, () => make({ nCtx: 0 })),
    };
  },

  async disposing(model, lib, make) {
    const other = await make();
    const run = other.complete(PROMPT, { ...GREEDY, maxTokens: 400, ignoreEos: true });
    const stream = other.embed(["a"], { pooling: "mean" });
    other.dispose();
    return { run: await failure(lib, () => run), embed: await stream.then(() => true) };
  },
};

/** All scenes, one after the other on one model. */
export async function playAll(lib, make) {
  const model = await make();
  const outcomes = {};
  for (const [name, scene] of Object.entries(SCENES)) outcomes[name] = await scene(model, lib, make);
  model.dispose();
  return outcomes;
}
