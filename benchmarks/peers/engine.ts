// One model in one process: `run.js JOB` loads it with one engine, times prompts and generations, prints JSON.
import { loadModel } from "../../ts/llm/index.ts";
import { now, since, type Spent } from "../measure.ts";

/** What a process is asked for. */
export interface Job {
  readonly peer: string;
  readonly model: string;
  readonly threads: number;
  /** tokens of a prompt */
  readonly pp: number;
  /** generated tokens timed, after a prompt of 8 and a first one */
  readonly tg: number;
  readonly reps: number;
  /** ours only: the build of the core */
  readonly wasm?: "simd" | "relaxed" | undefined;
  /** ours only: bits of vectors */
  readonly vectors?: 128 | 256 | undefined;
}

/** What it answers. */
export interface Times {
  readonly loadMs: number;
  readonly pp: readonly Spent[];
  readonly tg: readonly Spent[];
  readonly peakMiB: number;
}

/** A loaded model that can be timed. */
export interface Loaded {
  readonly nVocab: number;
  prompt(ids: number[]): Promise<void>;
  /** generates `n` tokens and one more after the prompt; calls `each` at every one */
  generate(ids: number[], n: number, each: () => void): Promise<void>;
  dispose(): Promise<void>;
}

/** Our own engine. */
export async function openSlackwater({ model: path, threads, pp, tg, wasm, vectors }: Job): Promise<Loaded> {
  const nCtx = Math.max(1024, pp + tg + 64);
  const model = await loadModel(path, { nThreads: threads, nCtx, wasm, vectors });
  const options = { temperature: 0, ignoreEos: true, cachePrompt: false };
  return {
    nVocab: model.params.nVocab,
    prompt: async (ids) => void (await model.complete(ids, { ...options, maxTokens: 1 })),
    generate: async (ids, n, each) =>
      void (await model.complete(ids, { ...options, maxTokens: n + 1, onToken: each })),
    dispose: async () => model.dispose(),
  };
}

interface LlamaSequence {
  clearHistory(): Promise<void>;
  evaluateWithoutGeneratingNewTokens(ids: number[]): Promise<unknown>;
  evaluate(ids: number[], options: object): AsyncIterable<number>;
}
interface LlamaModel {
  readonly fileInfo: {
    readonly metadata: { readonly tokenizer: { readonly ggml: { readonly tokens: string[] } } };
  };
  createContext(options: object): Promise<{ getSequence(): LlamaSequence }>;
  dispose(): Promise<void>;
}
interface LlamaModule {
  getLlama(options: object): Promise<{ loadModel(o: object): Promise<LlamaModel>; dispose(): Promise<void> }>;
}

/** Native llama.cpp, as npm's node-llama-cpp ships it. */
export async function openNodeLlamaCpp({ model: path, threads, pp, tg }: Job): Promise<Loaded> {
  const name = "node-llama-cpp"; // not installed where types are checked
  const { getLlama } = (await import(name)) as LlamaModule;
  const llama = await getLlama({
    gpu: false,
    build: "never",
    logLevel: "disabled",
    maxThreads: threads,
    numa: false,
  });
  const model = await llama.loadModel({ modelPath: path, gpuLayers: 0 });
  const contextSize = Math.max(1024, pp + tg + 64);
  const context = await model.createContext({ contextSize, batchSize: 512, threads });
  const sequence = context.getSequence();
  return {
    nVocab: model.fileInfo.metadata.tokenizer.ggml.tokens.length,
    prompt: async (ids) => {
      await sequence.clearHistory();
      await sequence.evaluateWithoutGeneratingNewTokens(ids);
    },
    generate: async (ids, n, each) => {
      await sequence.clearHistory();
      let count = 0;
      for await (const _ of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
        each();
        if (count++ === n) break;
      }
    },
    dispose: async () => {
      await model.dispose();
      await llama.dispose();
    },
  };
}

/** Times a loaded model. The first round warms up and is not counted. */
export async function timesOf(loaded: Loaded, job: Job): Promise<Pick<Times, "pp" | "tg">> {
  let seed = 12345;
  const ids = (n: number): number[] =>
    Array.from({ length: n }, () => {
      seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
      return 300 + ((seed >>> 8) % (loaded.nVocab - 400));
    });
  const pp: Spent[] = [];
  const tg: Spent[] = [];
  for (let i = 0; i <= job.reps; i++) {
    let start = now();
    await loaded.prompt(ids(job.pp));
    if (i > 0) pp.push(since(start));
    let seen = 0;
    let end = start;
    await loaded.generate(ids(8), job.tg, () => {
      if (seen === 0) start = now();
      if (seen++ === job.tg) end = since(start);
    });
    if (i > 0) tg.push(end);
  }
  return { pp, tg };
}
