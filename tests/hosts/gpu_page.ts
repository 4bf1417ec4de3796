// Entry in a page and in a dedicated worker: golden vectors on the browser's own WebGPU, logged as one line.
import { type Case, casesOf } from "../golden/cases.ts";
import { type Report, tally } from "../golden/tally.ts";
import { gpuEngine } from "../gpu_engine.ts";

/** What is logged. */
export interface PageResult {
  readonly report?: Report;
  readonly adapter?: string;
  readonly f16?: boolean;
  /** what the device complained of without being asked */
  readonly stray?: string;
  readonly error?: string;
}

const PREFIX = "result ";
const inWorker = typeof document === "undefined";

async function bytesOf(path: string): Promise<Uint8Array> {
  return new Uint8Array(await (await fetch(path)).arrayBuffer());
}

async function run(): Promise<PageResult> {
  const names = JSON.parse(new TextDecoder().decode(await bytesOf("golden.json"))) as string[];
  const cases: Case[] = [];
  for (const name of names) cases.push(...casesOf(await bytesOf(`golden/${name}`), name));
  const { engine, backend } = await gpuEngine();
  // a page and its worker take turns: all cases run elsewhere, and this driver is slow to compile
  const mine = cases.filter((_, i) => i % 4 === (inWorker ? 0 : 2));
  const { report } = await tally(engine, mine, { f32Activations: true });
  const { adapter, caps } = backend.gpu;
  const stray = backend.lost?.message;
  engine.dispose();
  return { report, adapter: adapter.name, f16: caps.f16, ...(stray === undefined ? {} : { stray }) };
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
