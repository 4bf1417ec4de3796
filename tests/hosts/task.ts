// What every host is asked for, from which files, and what it must answer.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";
import { loadModel } from "../../ts/llm/index.ts";
import { modelFile } from "../arch/golden.ts";
import { remake } from "../arch/remake.ts";
import { dataDir, readJson } from "../data.ts";

/** A model and the way its bytes come. */
export interface Source {
  readonly name: string;
  readonly source: string;
}

interface EmbeddingTask {
  readonly name: string;
  readonly texts: readonly (string | readonly number[])[];
  readonly options: { readonly pooling?: "mean" };
}

/** See `runTask` in program.mjs. */
export interface Task {
  readonly models: readonly Source[];
  readonly prompts: readonly string[];
  readonly maxTokens: number;
  readonly embeddings: readonly EmbeddingTask[];
  readonly chat: Source & { readonly turns: readonly string[]; readonly maxTokens: number };
}

/** How an engine ran and what it told. */
export interface Row extends Source {
  readonly build: string;
  readonly nThreads: number;
  readonly notices: readonly string[];
  readonly generations: readonly {
    readonly prompt: string;
    readonly tokens: readonly number[];
    readonly promptTokens: readonly number[];
    readonly text: string;
    readonly stopReason: string;
  }[];
}

/** What a host answers. */
export interface Result {
  readonly generations: readonly Row[];
  /** bits of the vectors, by model */
  readonly embeddings: readonly (readonly (readonly number[])[])[];
  readonly chat: readonly { readonly text: string; readonly fresh: number }[];
}

interface Reference {
  readonly gen: readonly {
    readonly model: string;
    readonly prompt: string;
    readonly tokens: readonly number[];
    readonly steps: readonly { readonly id: number }[];
  }[];
}

/** A template as a file may carry it: loops, a condition, a filter. */
const TEMPLATE =
  "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% if m.role == 'user' %}{{ eos_token }}{% endif %}" +
  "{% endfor %}";

const EMBEDDINGS: readonly EmbeddingTask[] = [
  { name: "bert-mean", texts: ["hello there, world", "the hot word is on", [5, 6, 7]], options: {} },
  { name: "llama-q4_k", texts: [[1, 20, 30, 40, 50], [9]], options: { pooling: "mean" } },
];
/** How far products of floats may move an element of a vector, of the largest one. */
const CLOSE = 2 ** -18;
const TURNS = ["Once upon a time there was a dog.", "He was sad."];

/** The files, the task and its answer. */
export class HostTask {
  /** path of each model */
  readonly files: Readonly<Record<string, string>>;
  readonly #folder: string;
  readonly #reference: Reference["gen"];
  #embeddings: Result["embeddings"] = [];
  #fused: Result["embeddings"] | undefined;
  #chat: readonly string[] = [];

  private constructor(folder: string) {
    const stories = (type: string): string =>
      join(dataDir("models"), "stories260K", `stories260K-${type}.gguf`);
    this.#folder = folder;
    this.#reference = readJson<Reference>("models", "stories260K/reference.json").gen;
    this.files = {
      f32: stories("f32"),
      f16: stories("f16"),
      chat: join(folder, "chat.gguf"),
      ...Object.fromEntries(EMBEDDINGS.map(({ name }) => [name, modelFile(name)])),
    };
  }

  /** Writes the file with a template, and finds the answers in this process. */
  static async make(): Promise<HostTask> {
    const made = new HostTask(await mkdtemp(join(tmpdir(), "slackwater-hosts-")));
    const { files } = made;
    const bytes = remake("", { "tokenizer.chat_template": TEMPLATE }, [], await readFile(files["f32"]!));
    await writeFile(files["chat"]!, bytes);
    made.#embeddings = await Promise.all(EMBEDDINGS.map((e) => embed(e, files[e.name]!)));
    made.#chat = await chat(files["chat"]!);
    return made;
  }

  /** The task for models that complete the prompts. */
  task(models: readonly Source[]): Task {
    return {
      models,
      prompts: [...new Set(this.#reference.map((g) => g.prompt))],
      maxTokens: 40,
      embeddings: EMBEDDINGS,
      chat: { name: "chat", source: models[0]!.source, turns: TURNS, maxTokens: 12 },
    };
  }

  /** The generations of the reference, the bits and the answers of this process. */
  expectResult({ generations, embeddings, chat: answers }: Result, models: readonly Source[]): void {
    expect(generations.map(({ name, source }) => ({ name, source }))).toEqual(models);
    for (const { name, source, generations: told } of generations) {
      expect(told, `${name} from ${source}`).toMatchObject(this.#wanted(name));
      for (const { text } of told) expect(text).toMatch(/^[\x20-\x7e\n]{40,}$/);
    }
    this.#expectEmbeddings(embeddings);
    expect(answers.map(({ text }) => text)).toEqual(this.#chat);
    // the second prompt is longer than the first, and yet less of it is new
    expect(answers[1]!.fresh).toBeLessThan(answers[0]!.fresh);
  }

  /** The bits of this process, or those of all other hosts that fuse products of floats, which are as good as the same. */
  #expectEmbeddings(told: Result["embeddings"]): void {
    if (isDeepStrictEqual(told, this.#embeddings)) return;
    this.#fused ??= told;
    expect(told).toEqual(this.#fused);
    expect(told.map((model) => model.length)).toEqual(this.#embeddings.map((model) => model.length));
    for (const [i, vector] of told.flat().entries()) {
      const [got, want] = [vector, this.#embeddings.flat()[i]!].map(
        (b) => new Float32Array(Uint32Array.from(b).buffer),
      );
      const most = CLOSE * Math.max(...want!.map(Math.abs));
      expect(got!.length).toBe(want!.length);
      for (const [k, x] of want!.entries()) expect(Math.abs(got![k]! - x), `element ${k}`).toBeLessThan(most);
    }
  }

  close(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }

  #wanted(model: string): unknown[] {
    const of = this.#reference.filter((g) => g.model === model);
    expect(of.length).toBeGreaterThan(0);
    return of.map(({ prompt, tokens, steps }) => ({
      prompt,
      tokens: steps.map((s) => s.id),
      promptTokens: tokens,
      stopReason: "limit",
    }));
  }
}

async function embed({ texts, options }: EmbeddingTask, file: string): Promise<number[][]> {
  await using model = await loadModel(file, { nThreads: 1 });
  const all = await model.embed(texts, options);
  return all.map(({ embedding: v }) => [...new Uint32Array(v.buffer, v.byteOffset, v.length)]);
}

async function chat(file: string): Promise<string[]> {
  await using model = await loadModel(file, { nThreads: 1 });
  const messages: { role: "user" | "assistant"; content: string }[] = [];
  for (const content of TURNS) {
    messages.push({ role: "user", content });
    const answer = await model.chat.completions.create({ messages, temperature: 0, max_tokens: 12 });
    messages.push({ role: "assistant", content: answer.choices[0].message.content });
  }
  return messages.filter((m) => m.role === "assistant").map((m) => m.content);
}
