// The generation test itself, the same on every host: loads models, completes prompts, returns plain data.
import { loadModel } from "../../dist/llm.js";

/**
 * Loads each model and completes each prompt greedily.
 *
 * @param {{ name: string, source: string, open: () => unknown }[]} models `open` gives what `loadModel` takes
 * @param {{ prompts: string[], maxTokens: number, nThreads: number, workerUrl?: string, keep?: boolean }} task
 *   `keep`: models are left alive, to see that a program still ends by itself
 * @returns one row per model: how the engine runs, what it warned of, what was generated
 */
export async function generateAll(models, { prompts, maxTokens, nThreads, workerUrl, keep }) {
  const rows = [];
  for (const { name, source, open } of models) {
    const notices = [];
    const notice = (message) => notices.push(message);
    const model = await loadModel(await open(), {
      nThreads,
      workerUrl,
      logger: { warn: notice, error: notice },
    });
    const generations = [];
    for (const prompt of prompts) {
      const { tokens, promptTokens, text, stopReason } = await model.complete(prompt, {
        maxTokens,
        temperature: 0,
      });
      generations.push({ prompt, tokens: [...tokens], promptTokens: [...promptTokens], text, stopReason });
    }
    rows.push({
      name,
      source,
      notices,
      generations,
      nThreads: model.engine.nThreads,
      build: model.engine.build,
    });
    if (keep) (globalThis.kept ??= []).push(model);
    else model.dispose();
  }
  return rows;
}
