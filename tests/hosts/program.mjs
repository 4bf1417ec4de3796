// The test itself, the same on every host: loads models, completes prompts, embeds texts, chats; returns plain data.
import { loadModel } from "../../dist/llm.js";

/**
 * @typedef {object} Task what every host is asked for, plain data
 * @property {{ name: string, source: string }[]} models that complete the prompts; `source` says how their bytes come
 * @property {string[]} prompts
 * @property {number} maxTokens
 * @property {{ name: string, texts: (string | number[])[], options: object }[]} embeddings
 * @property {{ name: string, source: string, turns: string[], maxTokens: number }} chat what a user says, turn by turn
 * @property {number} nThreads
 * @property {string} [workerUrl]
 * @property {boolean} [keep] leave models alive, to see that a program still ends by itself
 */

/**
 * Runs a task.
 *
 * @param {Task} task
 * @param {(name: string, source: string) => unknown} open gives what `loadModel` takes
 */
export async function runTask(task, open) {
  const generations = [];
  for (const model of task.models) generations.push(await generate(model, task, open));
  const embeddings = [];
  for (const model of task.embeddings) embeddings.push(await embed(model, task, open));
  return { generations, embeddings, chat: await chat(task.chat, task, open) };
}

/** Loads a model and uses it; `notices` collects what it warns of. */
async function withModel({ name, source }, { nThreads, workerUrl, keep }, open, notices, use) {
  const notice = (message) => notices.push(message);
  const logger = { warn: notice, error: notice };
  // hosts that are asked for a GPU and have none say so by themselves
  const model = await loadModel(await open(name, source), { device: "cpu", nThreads, workerUrl, logger });
  const result = await use(model);
  if (keep) (globalThis.kept ??= []).push(model);
  else model.dispose();
  return result;
}

/** How the engine runs, what it warned of, and what it tells greedily after each prompt. */
function generate({ name, source }, task, open) {
  const notices = [];
  return withModel({ name, source }, task, open, notices, async (model) => {
    const generations = [];
    for (const prompt of task.prompts) {
      const options = { maxTokens: task.maxTokens, temperature: 0 };
      const { tokens, promptTokens, text, stopReason } = await model.complete(prompt, options);
      generations.push({ prompt, tokens: [...tokens], promptTokens: [...promptTokens], text, stopReason });
    }
    const { nThreads, build } = model.engine;
    return { name, source, notices, generations, nThreads, build };
  });
}

/** The bits of every vector. */
function embed({ name, texts, options }, task, open) {
  return withModel({ name, source: "buffer" }, task, open, [], async (model) => {
    const all = await model.embed(texts, options);
    return all.map(({ embedding: v }) => [...new Uint32Array(v.buffer, v.byteOffset, v.length)]);
  });
}

/** The streamed answer of every turn, and how many tokens of its prompt were new. */
function chat({ name, source, turns, maxTokens }, task, open) {
  return withModel({ name, source }, task, open, [], async (model) => {
    const messages = [];
    const answers = [];
    for (const content of turns) {
      messages.push({ role: "user", content });
      const request = { messages, temperature: 0, max_tokens: maxTokens, stream: true };
      let text = "";
      let usage;
      for await (const part of await model.chat.completions.create(request)) {
        text += part.choices[0]?.delta.content ?? "";
        usage = part.usage ?? usage;
      }
      messages.push({ role: "assistant", content: text });
      answers.push({ text, fresh: usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens });
    }
    return answers;
  });
}
