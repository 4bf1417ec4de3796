// The planner measured: `npm run -s build:wasm && npm run -s bundle -- benchmarks/plan.ts && node build/plan.js`.
//
// Prints the tables of docs/planner.md: model graphs, published lists, packings, long lists. Every plan is checked.
// Times are processor time of this process, median over seeds. Options: --seeds N (5), --large N (1000000; 0: none),
// --shared DIR (../shared, with golden/plans and planning), --json (one line of figures instead of tables).
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { median } from "./measure.ts";
import { faults, type Graph, HEAP, planGraph, planWasm, writeGraph } from "../tests/plan_data.ts";
import { dynamicBestFit } from "../tests/plan_ggml.ts";
import { entriesOf, packing, pareto, sweepFault, toColumns, training } from "../tests/plan_lists.ts";
import { readCsv } from "../ts/cli/plan.ts";
import type { LifetimeColumns, PlanOptions } from "../ts/runtime/plan_check.ts";
import { planBuffers } from "../ts/runtime/plan_list.ts";
import { planGraph as planRange } from "../ts/runtime/planner.ts";
import { rehearse } from "../ts/runtime/rehearsal.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "5" },
    large: { type: "string", default: "1000000" },
    shared: { type: "string", default: "../shared" },
    json: { type: "boolean", default: false },
    cold: { type: "string" },
  },
});

interface GraphRow {
  readonly name: string;
  readonly nNodes: number;
  readonly bytes: number;
  readonly ggml: number;
  readonly lowerBound: number;
  readonly saved: number;
  /** called for the first time in a process, after the rehearsal, and later */
  readonly coldMs: number | undefined;
  readonly warmMs: number;
}

interface ListRow {
  readonly name: string;
  readonly n: number;
  readonly lowerBound: number;
  /** peak over lower bound: ggml's best fit, ours (median and worst seed) */
  readonly ggml: number | undefined;
  readonly ratio: number;
  readonly worst: number;
  readonly ms: number;
  readonly worstMs: number;
  /** buffers looked at, millions */
  readonly work: number;
}

// ggml's rule by the tests' plain model of it: quadratic.
const GGML_MAX = 70_000;
const COLD_RUNS = 9;
const WARM_RUNS = 200;

/** Processor time of this process, ms: other load on the machine does not count. */
function cpu(): number {
  const u = process.cpuUsage();
  return (u.user + u.system) / 1000;
}

function measure(name: string, c: LifetimeColumns, options: PlanOptions, seeds: number): ListRow {
  const host = planWasm();
  const [times, ratios, work]: number[][] = [[], [], []];
  let lowerBound = 0;
  for (let seed = 1; seed <= seeds; seed++) {
    const start = cpu();
    const plan = planBuffers(host, c, { ...options, seed });
    times!.push(cpu() - start);
    ratios!.push(plan.peak / plan.lowerBound);
    work!.push(plan.work / 1e6);
    lowerBound = plan.lowerBound;
    const fault = sweepFault(c, plan.offsets, plan.peak);
    if (fault !== "") throw new Error(`${name}: ${fault}`);
  }
  const n = c.size.length;
  const ggml = n > GGML_MAX ? undefined : dynamicBestFit(entriesOf(c)).peak / lowerBound;
  return {
    name,
    n,
    lowerBound,
    ggml,
    ratio: median(ratios!),
    worst: Math.max(...ratios!),
    ms: median(times!),
    worstMs: Math.max(...times!),
    work: median(work!),
  };
}

const seeds = Number(values.seeds);

function published(): ListRow[] {
  const folder = join(values.shared, "planning");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((f) => f.endsWith(".csv"))
    .flatMap((file) => {
      const c = toColumns(readCsv(readFileSync(join(folder, file), "utf8")));
      const name = file.replace(/(\.1048576)?\.csv$/, "");
      if (!file.includes(".1048576.")) return [measure(name, c, { budget: 1e9 }, seeds)];
      const options = { capacity: 1048576, budget: 4e9 };
      const mirrored = toColumns(entriesOf(c, true));
      return [measure(name, c, options, seeds), measure(`${name} mirrored`, mirrored, options, seeds)];
    });
}

function packings(): ListRow[] {
  const rows: ListRow[] = [];
  for (const n of [200, 300]) {
    for (let k = 1; k <= 3; k++)
      rows.push(measure(`packing ${n} #${k}`, packing(n, k, 1000, 1e6), { budget: 1e9 }, seeds));
  }
  return rows;
}

function long(n: number): ListRow[] {
  if (n === 0) return [];
  return [
    measure("training", training(n, 1), { budget: 0 }, 1),
    measure("pareto x 64", pareto(n, 2, 64), { budget: 0 }, 1),
    measure("pareto odd", pareto(n, 3, 1), { budget: 0 }, 1),
    measure("packing", packing(n, 4, n, 2 ** 40), { budget: 0 }, 1),
  ];
}

// One call over records that are there: liveness, placement, and the table of who lies where. Before the first one the
// rehearsal, as an engine does while it starts; what reading the graph left behind is collected, so that no plan pays for it.
function timePlans(g: Graph, runs: number): number {
  const host = planWasm();
  if (runs === 1) rehearse(host);
  writeGraph(host.memory, g);
  const range = { records: HEAP, nLeafs: g.n_leafs, nNodes: g.n_nodes, alignment: g.alignment };
  if (runs === 1) globalThis.gc?.();
  const start = runs === 1 ? performance.now() : cpu();
  for (let i = 0; i < runs; i++) planRange(host, range);
  return ((runs === 1 ? performance.now() : cpu()) - start) / runs;
}

function coldMs(file: string): number | undefined {
  const script = fileURLToPath(import.meta.url);
  if (!script.endsWith(".js")) return undefined;
  const times = Array.from({ length: COLD_RUNS }, () =>
    Number(spawnSync(process.execPath, ["--expose-gc", script, "--cold", file], { encoding: "utf8" }).stdout),
  );
  return median(times);
}

function graphs(): GraphRow[] {
  const folder = join(values.shared, "golden/plans");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((f) => f.endsWith(".json"))
    .map((file) => {
      const g = readGraph(join(folder, file));
      const w = planWasm();
      const ours = planGraph(w, g);
      const found = faults(g, ours);
      if (found.length > 0) throw new Error(`${g.name}: ${found[0]!}`);
      const ggml = planGraph(w, g, { ggml: true }).peak;
      timePlans(g, WARM_RUNS);
      return {
        name: g.name,
        nNodes: g.n_nodes,
        bytes: ours.peak,
        ggml,
        lowerBound: ours.lowerBound,
        saved: 100 * (1 - ours.peak / ggml),
        coldMs: g.n_nodes > 900 ? coldMs(join(folder, file)) : undefined,
        warmMs: timePlans(g, WARM_RUNS),
      };
    });
}

function readGraph(path: string): Graph {
  return JSON.parse(readFileSync(path, "utf8")) as Graph;
}

/** A table in Markdown; columns after the first are right-aligned. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? "---" : "---:"))), ...rows.map(line), ""].join("\n");
}

const bytes = (x: number): string => x.toLocaleString("en");
const ratio = (x: number | undefined): string => (x === undefined ? "" : x.toFixed(4));
const millis = (x: number | undefined): string =>
  x === undefined ? "" : x < 10 ? x.toFixed(2) : Math.round(x).toLocaleString("en");

function graphTable(rows: readonly GraphRow[]): string {
  return table(
    ["graph", "nodes", "ours", "ggml's rule", "bound", "saved", "ms", "first call, ms"],
    rows.map((r) => [
      r.name,
      `${r.nNodes}`,
      ...[r.bytes, r.ggml, r.lowerBound].map(bytes),
      `${r.saved.toFixed(1)} %`,
      millis(r.warmMs),
      millis(r.coldMs),
    ]),
  );
}

function listTable(rows: readonly ListRow[]): string {
  return table(
    ["list", "buffers", "bound", "ggml's rule", "ours", "worst seed", "ms", "worst seed, ms", "work, 10^6"],
    rows.map((r) => [
      r.name,
      ...[r.n, r.lowerBound].map(bytes),
      ...[r.ggml, r.ratio, r.worst].map(ratio),
      ...[r.ms, r.worstMs].map(millis),
      r.work.toFixed(1),
    ]),
  );
}

if (values.cold !== undefined) {
  console.log(timePlans(readGraph(values.cold), 1));
} else {
  const machine = `${cpus()[0]?.model ?? "?"}, Node ${process.versions.node}, ${new Date().toISOString().slice(0, 10)}`;
  const result = {
    machine,
    graphs: graphs(),
    lists: [...published(), ...packings(), ...long(Number(values.large))],
  };
  if (values.json) console.log(JSON.stringify(result));
  else console.log(`${machine}\n\n${graphTable(result.graphs)}\n${listTable(result.lists)}`);
}
