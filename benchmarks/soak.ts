// Two engines generate for a long time, their contexts starting over and over: `npm run soak -- [--minutes 30] [--model F]`.
// The memory line must be flat and the rate must not fall: first and last fifth are compared.
import { parseArgs } from "node:util";
import { loadModel, type Model } from "../ts/llm/index.ts";
import { median, now, report, round, since } from "./measure.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    model: { type: "string" },
    threads: { type: "string", default: "1" },
  },
});
const path = values.model ?? model(MODELS, "135m", "Q4_0");
const [TOKENS, PROMPT] = [200, 24];

/** One look at the process after a round over both engines. */
interface Sample {
  readonly minute: number;
  readonly wasm: number;
  readonly heap: number;
  readonly rss: number;
  readonly perSecond: number;
  readonly perCpuSecond: number;
}

async function generate(m: Model, seed: number): Promise<number> {
  const ids = Array.from(
    { length: PROMPT },
    (_, i) => 300 + ((seed * 31 + i * 17) % (m.params.nVocab - 400)),
  );
  const { tokens } = await m.complete(ids, {
    maxTokens: TOKENS,
    ignoreEos: true,
    temperature: 0.8,
    seed,
    cachePrompt: false,
  });
  return tokens.length;
}

function collect(): void {
  (globalThis as { gc?(): void }).gc?.();
}

const options = { nThreads: Number(values.threads), nCtx: 512 };
const models = [await loadModel(path, options), await loadModel(path, options)];
const samples: Sample[] = [];
const start = now();
for (let seed = 1; since(start).ms < Number(values.minutes) * 60_000; seed++) {
  const t = now();
  let n = 0;
  for (const m of models) n += await generate(m, seed);
  const spent = since(t);
  collect();
  const { heapUsed, rss } = process.memoryUsage();
  samples.push({
    minute: since(start).ms / 60_000,
    wasm: models.reduce((sum, m) => sum + m.memory().total, 0),
    heap: heapUsed,
    rss,
    perSecond: (1000 * n) / spent.ms,
    perCpuSecond: (1000 * n) / spent.cpuMs,
  });
}
for (const m of models) m.dispose();
const fifth = Math.max(1, Math.floor(samples.length / 5));
const rows = (["wasm", "heap", "rss", "perSecond", "perCpuSecond"] as const).map((key) => {
  const first = median(samples.slice(0, fifth).map((s) => s[key]));
  const last = median(samples.slice(-fifth).map((s) => s[key]));
  return {
    what: key,
    "first fifth": round(first),
    "last fifth": round(last),
    ratio: Number((last / first).toFixed(4)),
  };
});
const totals = new Set(samples.map((s) => s.wasm));
report("soak", rows, { rounds: samples.length, tokens: 2 * TOKENS * samples.length, wasmSizes: [...totals] });
