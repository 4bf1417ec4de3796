// Entry in a page and in a dedicated worker: golden vectors on the browser's own WebGPU, logged as one line. Each runs a part
// of them, together all.
import { type Case, casesOf } from "../golden/cases.ts";
import { type Report, tally } from "../golden/tally.ts";
import { gpuEngine } from "../gpu_engine.ts";

/** What is logged. */
export interface PageResult {
  readonly report?: Report;
  /** cases that were run, and how many there are */
  readonly ran?: readonly [first: number, last: number, of: number];
  readonly adapter?: string;
  readonly f16?: boolean;
  /** what the device complained of without being asked */
  readonly stray?: string;
  readonly error?: string;
}

const PREFIX = "result ";
/**
 * Where the worker's part of the cases begins. Nearly all of the time goes into compiling, and neighbours share pipelines: the
 * page's fifth, attention and whole graphs among it, takes about as long as the rest.
 */
const WORKER_FROM = 0.2;
const inWorker = typeof document === "undefined";

async function bytesOf(path: string): Promise<Uint8Array> {
  return new Uint8Array(await (await fetch(path)).arrayBuffer());
}

async function run(): Promise<PageResult> {
  const names = JSON.parse(new TextDecoder().decode(await bytesOf("golden.json"))) as string[];
  const cases: Case[] = [];
  for (const name of names) cases.push(...casesOf(await bytesOf(`golden/${name}`), name));
  const { engine, backend } = await gpuEngine();
  const cut = Math.round(WORKER_FROM * cases.length);
  const [first, last] = inWorker ? [cut, cases.length] : [0, cut];
  const { report } = await tally(engine, cases.slice(first, last), { f32Activations: true });
  const { adapter, caps } = backend.gpu;
  const stray = backend.lost?.message;
  engine.dispose();
  const ran = [first, last, cases.length] as const;
  return { report, ran, adapter: adapter.name, f16: caps.f16, ...(stray === undefined ? {} : { stray }) };
}

/** The same in a worker made from this same script. */
function runInWorker(): Promise<PageResult> {
  return new Promise((resolve, reject) => {
    const worker = new Worker("gpu_page.js", { type: "module" });
    worker.addEventListener("message", ({ data }) => resolve(data as PageResult));
    worker.addEventListener("error", (e) => reject(new Error(`worker: ${e.message}`)));
  });
}

const result = (inWorker || !location.search.includes("in=worker") ? run() : runInWorker()).catch(
  (error: unknown): PageResult => ({ error: String(error) }),
);
void result.then((all) => (inWorker ? postMessage(all) : console.log(PREFIX + JSON.stringify(all))));
