// Ours and wllama side by side in headless Chromium, A B B A: `npm run browser -- [--shapes 135m] [--types ..] [--threads 1,2]
// [--rounds N] [--reps N] [--pp N] [--tg N] [--models DIR]`. CHROMIUM names the browser. Each round is a browser of its own.
// Processor time is that of all its processes while the rounds' repetitions run, load included.
import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { inTurn, median, report, round, versionOf } from "./measure.ts";
import { serve } from "./server.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "135m" },
    types: { type: "string", default: "Q4_0,Q8_0,Q4_K_M" },
    threads: { type: "string", default: "1,2" },
    rounds: { type: "string", default: "2" },
    reps: { type: "string", default: "2" },
    pp: { type: "string", default: "128" },
    tg: { type: "string", default: "32" },
    models: { type: "string", default: MODELS },
  },
});
const EXECUTABLE = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-sync",
];
const PEERS = ["slackwater", "wllama"] as const;

interface PageTimes {
  readonly loadMs: number;
  readonly pp: readonly number[];
  readonly tg: readonly number[];
  readonly threads: number;
}
interface Playwright {
  readonly chromium: {
    launch(options: object): Promise<{
      newPage(): Promise<{
        goto(url: string): Promise<unknown>;
        waitForFunction(f: string): Promise<unknown>;
        evaluate(f: string): Promise<unknown>;
      }>;
      version(): string;
      close(): Promise<void>;
    }>;
  };
}

/** Processor seconds of all processes that descend from this one. */
function cpuOfChildren(): number {
  const stats = readdirSync("/proc")
    .filter((d) => /^\d+$/.test(d))
    .flatMap((pid) => {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
          .replace(/^.*\) /, "")
          .split(" ");
        return [
          { pid: Number(pid), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) },
        ];
      } catch {
        return []; // it has just ended
      }
    });
  const ours = new Set([process.pid]);
  for (let grown = true; grown;) {
    const before = ours.size;
    for (const s of stats) if (ours.has(s.parent)) ours.add(s.pid);
    grown = ours.size > before;
  }
  return stats.filter((s) => ours.has(s.pid) && s.pid !== process.pid).reduce((n, s) => n + s.ticks / 100, 0);
}

let version = "";

async function once(peer: string, path: string, threads: number): Promise<PageTimes & { cpu: number }> {
  const name = "playwright-core"; // not installed where types are checked
  const { chromium } = (await import(name)) as Playwright;
  const here = join(import.meta.dirname, "..");
  const server = await serve(
    {
      models: dirname(path),
      build: import.meta.dirname,
      dist: join(here, "../dist"),
      wllama: join(here, "node_modules/@wllama/wllama"),
    },
    "/build/page/page.js",
  );
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ARGS });
  version = browser.version();
  try {
    const page = await browser.newPage();
    await page.goto(server.origin);
    await page.waitForFunction("'bench' in globalThis");
    const [pp, tg, reps] = [values.pp, values.tg, values.reps].map(Number);
    const job = { peer, url: `/models/${basename(path)}`, threads, pp, tg, reps };
    const before = cpuOfChildren();
    const times = (await page.evaluate(`bench(${JSON.stringify(job)})`)) as PageTimes;
    if (times.threads !== threads)
      throw new Error(`${peer}: ${times.threads} thread(s), asked for ${threads}`);
    return { ...times, cpu: cpuOfChildren() - before };
  } finally {
    await browser.close();
    server.close();
  }
}

async function compare(shape: string, type: string, threads: number): Promise<object> {
  const path = model(values.models, shape, type);
  const got: Record<string, (PageTimes & { cpu: number })[]> = { slackwater: [], wllama: [] };
  let error: unknown;
  await inTurn(PEERS, Number(values.rounds), async (peer, i) => {
    try {
      got[peer]!.push(await once(peer, path, threads));
    } catch (e) {
      error = e;
    }
    console.error(`${shape}-${type} ${threads} thread(s) round ${i} ${peer}`);
  });
  const of = (peer: string, pick: (t: PageTimes & { cpu: number }) => readonly number[]): number =>
    median(got[peer]!.flatMap(pick));
  const row: Record<string, unknown> = { model: `${shape}-${type}`, threads };
  for (const key of ["pp", "tg"] as const) {
    const [a, b] = [of("slackwater", (t) => t[key]), of("wllama", (t) => t[key])];
    Object.assign(row, { [key]: round(a), [`${key} wllama`]: round(b), [`${key} ratio`]: round(a / b) });
  }
  row["cpu s"] = round(of("slackwater", (t) => [t.cpu]));
  row["cpu s wllama"] = round(of("wllama", (t) => [t.cpu]));
  row["load ms"] = round(of("slackwater", (t) => [t.loadMs]));
  row["load ms wllama"] = round(of("wllama", (t) => [t.loadMs]));
  return error === undefined ? row : { ...row, error: String(error).slice(0, 300) };
}

const rows: object[] = [];
for (const shape of values.shapes.split(",")) {
  for (const type of values.types.split(",")) {
    for (const threads of values.threads.split(",")) rows.push(await compare(shape, type, Number(threads)));
  }
}
report("browser", rows, { chromium: version, peers: { "@wllama/wllama": versionOf("@wllama/wllama") } });
