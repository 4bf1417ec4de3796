// One process of start.ts: `start.js JOB`. The first engine of a process, or loads of a file against bare reads of it in turn.
import { closeSync, openSync, read, statSync } from "node:fs";
import { createEngine } from "../../ts/index.ts";
import { loadModel } from "../../ts/llm/index.ts";
import { inTurn } from "../measure.ts";

/** What a process is asked for. */
export interface StartJob {
  readonly what: "engine" | "load";
  readonly threads: number;
  readonly rounds: number;
  readonly model: string;
}

const PIECE = 2 ** 23;

// Until it computes, and until it does so with all threads. The built package: what users start.
async function engineMs(nThreads: number): Promise<{ ready: number; all: number }> {
  const { href } = new URL("../../../dist/index.js", import.meta.url);
  const built = (await import(href)) as { readonly createEngine: typeof createEngine };
  const start = performance.now();
  const engine = await built.createEngine({ nThreads, device: "cpu" });
  const ready = performance.now() - start;
  await engine.arrived;
  const all = performance.now() - start;
  engine.dispose();
  return { ready, all };
}

// The whole file into memory that nobody has touched, as a load does.
async function readMs(path: string): Promise<number> {
  const start = performance.now();
  const { size } = statSync(path);
  const pages = Math.ceil(size / 65536);
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  const bytes = new Uint8Array(memory.buffer);
  const fd = openSync(path, "r");
  for (let at = 0; at < size;) {
    const n = Math.min(PIECE, size - at);
    at += await new Promise<number>((resolve, reject) => {
      read(fd, bytes, at, n, at, (error, got) => (error === null ? resolve(got) : reject(error)));
    });
  }
  closeSync(fd);
  return performance.now() - start;
}

// Of an engine that is ready. `weights`: from the end of the first piece to the end of the last.
async function loadMs(
  path: string,
  nThreads: number,
): Promise<{ all: number; weights: number; bytes: number }> {
  const engine = await createEngine({ nThreads, device: "cpu" });
  await engine.arrived;
  const seen: { at: number; loaded: number }[] = [];
  const start = performance.now();
  const model = await loadModel(path, {
    engine,
    nCtx: 512,
    onProgress: ({ loaded }) => void seen.push({ at: performance.now(), loaded }),
  });
  const all = performance.now() - start;
  model.dispose();
  engine.dispose();
  const [first, last] = [seen[0]!, seen.at(-1)!];
  return { all, weights: last.at - first.at, bytes: last.loaded - first.loaded };
}

async function run(job: StartJob): Promise<object> {
  if (job.what === "engine")
    return { first: await engineMs(job.threads), second: await engineMs(job.threads) };
  const found = { load: [] as number[], weights: [] as number[], read: [] as number[] };
  await inTurn(["read", "load"], job.rounds, async (name) => {
    if (name === "read") return void found.read.push(await readMs(job.model));
    const { all, weights } = await loadMs(job.model, job.threads);
    found.load.push(all);
    found.weights.push(weights);
  });
  return { ...found, bytes: statSync(job.model).size };
}

console.log(`\n${JSON.stringify(await run(JSON.parse(process.argv[2]!) as StartJob))}`);
process.exit(0);
