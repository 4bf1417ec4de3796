// What runs in the browser: one engine loads the model and times prompts and generations. The page calls window.bench(job).
// Ours is the built package as users take it, the model in a worker of its own.
import type * as Llm from "../../ts/llm/index.ts";

interface PageJob {
  readonly peer: "slackwater" | "wllama";
  readonly url: string;
  readonly threads: number;
  readonly pp: number;
  readonly tg: number;
  readonly reps: number;
}

/** Tokens per second of each repetition. */
interface PageTimes {
  readonly loadMs: number;
  readonly pp: readonly number[];
  readonly tg: readonly number[];
  readonly threads: number;
}

interface Engine {
  readonly threads: number;
  /** tokens per second of a prompt of `n` tokens */
  prompt(n: number): Promise<number>;
  /** tokens per second of `n` tokens after a short prompt */
  generate(n: number): Promise<number>;
}

let seed = 12345;
function random(n: number): number {
  seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
  return (seed >>> 8) % n;
}

async function slackwater({ url, threads, pp, tg }: PageJob): Promise<Engine> {
  const path = "/dist/llm.js";
  const { loadModel } = (await import(path)) as typeof Llm;
  const model = await loadModel(new URL(url, location.href), {
    nThreads: threads,
    nCtx: Math.max(1024, pp + tg + 64),
  });
  const ids = (n: number): number[] =>
    Array.from({ length: n }, () => 300 + random(model.params.nVocab - 400));
  const options = { temperature: 0, ignoreEos: true, cachePrompt: false };
  return {
    threads: model.engine.nThreads,
    prompt: async (n) => {
      const start = performance.now();
      await model.complete(ids(n), { ...options, maxTokens: 1 });
      return (1000 * n) / (performance.now() - start);
    },
    generate: async (n) => {
      const at: number[] = [];
      await model.complete(ids(8), {
        ...options,
        maxTokens: n + 1,
        onToken: () => at.push(performance.now()),
      });
      return (1000 * n) / (at[n]! - at[0]!);
    },
  };
}

interface Completion {
  readonly timings: { readonly prompt_per_second: number; readonly predicted_per_second: number };
}
interface Wllama {
  setCompat(files: object | null): void;
  loadModel(blobs: Blob[], options: object): Promise<void>;
  createCompletion(options: object): Promise<Completion>;
  getNumThreads(): number;
}
interface WllamaModule {
  readonly Wllama: new (paths: object, options: object) => Wllama;
}

/** As published; its interface takes text only, so prompts are words of one letter, a token each in our models. */
async function wllama({ url, threads, pp, tg }: PageJob): Promise<Engine> {
  const path = "/wllama/esm/index.js";
  const { Wllama } = (await import(path)) as WllamaModule;
  const w = new Wllama({ default: "/wllama/esm/wasm/wllama.wasm" }, { suppressNativeLog: true });
  w.setCompat(null);
  const blob = await (await fetch(url)).blob();
  await w.loadModel([blob], {
    n_ctx: Math.max(1024, pp + tg + 64),
    n_batch: 512,
    n_ubatch: 512,
    n_threads: threads,
    n_parallel: 1,
    n_gpu_layers: 0,
  });
  const words = (n: number): string =>
    Array.from({ length: n }, () => "abcdfghilmnopst"[random(15)]).join(" ");
  const complete = async (n: number, max: number): Promise<Completion["timings"]> => {
    const options = {
      temperature: 0,
      top_k: 1,
      ignore_eos: true,
      cache_prompt: false,
      timings_per_token: true,
    };
    return (await w.createCompletion({ prompt: words(n), max_tokens: max, ...options })).timings;
  };
  return {
    threads: w.getNumThreads(),
    prompt: async (n) => (await complete(n, 1)).prompt_per_second,
    generate: async (n) => (await complete(8, n)).predicted_per_second,
  };
}

async function bench(job: PageJob): Promise<PageTimes> {
  const start = performance.now();
  const engine = await (job.peer === "wllama" ? wllama(job) : slackwater(job));
  const loadMs = performance.now() - start;
  const [pp, tg]: [number[], number[]] = [[], []];
  await engine.prompt(8);
  await engine.generate(2);
  for (let i = 0; i < job.reps; i++) {
    pp.push(await engine.prompt(job.pp));
    tg.push(await engine.generate(job.tg));
  }
  return { loadMs, pp, tg, threads: engine.threads };
}

(globalThis as { bench?: typeof bench }).bench = bench;
