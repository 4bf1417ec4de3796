// `slackwater plan CSV|MODEL`: plans memory and shows the plan.

import { parseArgs } from "node:util";
import { readFileSync, writeFileSync } from "node:fs";
import { FormatError } from "../errors.ts";
import { planToSVG } from "../runtime/plan_svg.ts";
import type { Lifetime } from "../runtime/plan_check.ts";
import type { PlanHost } from "../runtime/plan_host.ts";
import { planBuffers } from "../runtime/plan_list.ts";
import { planReport, reportToText, type ReportSource } from "../runtime/report.ts";

/** What the command needs from outside; tests hand in their own. */
export interface PlanCommandHost {
  /** an instance of the core with its regions initialised */
  host(): Promise<PlanHost> | PlanHost;
  /** plans a model file; without it only CSV files are taken */
  model?(path: string, options: ModelPlanOptions): Promise<ReportSource>;
  write(text: string): void;
}

export interface ModelPlanOptions {
  readonly budget?: number | undefined;
  readonly seed?: number | undefined;
}

/** A list of lifetimes with the names in its `id` column. */
export interface NamedList {
  readonly ids: readonly string[];
  readonly list: readonly Lifetime[];
}

export const PLAN_USAGE: string = `slackwater plan FILE.csv|MODEL.gguf [options]
  Plans memory. CSV: a header with id, lower, upper, size, one buffer a line, alive in [lower, upper).
  --json        last line: { peak, lowerBound, sum, ms, optimal, offsets }, bytes
  --svg FILE    write a picture of the plan
  --capacity N  bytes that are good enough (default: aim at the lower bound)
  --budget N    most work, in buffers looked at (about 5 ns each; 2e8, with a capacity 4e9)
  --seed N      another seed, another plan`;

const OPTIONS = {
  json: { type: "boolean" },
  svg: { type: "string" },
  capacity: { type: "string" },
  budget: { type: "string" },
  seed: { type: "string" },
} as const;

interface Parsed {
  readonly file: string;
  readonly json: boolean;
  readonly svg: string | undefined;
  readonly capacity: number | undefined;
  readonly budget: number | undefined;
  readonly seed: number | undefined;
}

/**
 * Runs the command.
 *
 * @throws {TypeError} for a misspelt option or a value that is no number
 * @throws {FormatError} for a CSV file that is none
 */
export async function planCommand(args: readonly string[], outside: PlanCommandHost): Promise<void> {
  const p = parse(args);
  const source = p.file.toLowerCase().endsWith(".csv")
    ? await planCsv(p, outside)
    : await planModel(p, outside);
  if (p.svg !== undefined) writeFileSync(p.svg, planToSVG(source));
  const report = planReport(source);
  if (!p.json) return outside.write(`${reportToText(report)}\n`);
  const { peak, lowerBound, sum, ms, optimal, offsets } = report;
  outside.write(`${JSON.stringify({ peak, lowerBound, sum, ms, optimal, offsets })}\n`);
}

function parse(args: readonly string[]): Parsed {
  const { values: v, positionals } = parseArgs({
    args: [...args],
    options: OPTIONS,
    allowPositionals: true,
    strict: true,
  });
  const [file] = positionals;
  if (file === undefined || positionals.length > 1)
    throw new TypeError(`plan: one file expected\n${PLAN_USAGE}`);
  return {
    file,
    json: v.json === true,
    svg: v.svg,
    capacity: number("capacity", v.capacity),
    budget: number("budget", v.budget),
    seed: number("seed", v.seed),
  };
}

function number(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const x = Number(text);
  if (text.trim() === "" || !Number.isFinite(x) || x < 0) {
    throw new TypeError(`plan: --${name} is "${text}", expected a number of at least 0`);
  }
  return x;
}

async function planModel(p: Parsed, outside: PlanCommandHost): Promise<ReportSource> {
  if (outside.model === undefined) throw new TypeError(`plan: "${p.file}" is no .csv file`);
  if (p.capacity !== undefined) throw new TypeError("plan: --capacity is for CSV files");
  return outside.model(p.file, { budget: p.budget, seed: p.seed });
}

async function planCsv(p: Parsed, outside: PlanCommandHost): Promise<ReportSource> {
  const { ids, list } = readCsv(readFileSync(p.file, "utf8"));
  const options = { capacity: p.capacity, budget: p.budget, seed: p.seed };
  const plan = planBuffers(await outside.host(), list, options);
  const entries = list.map((b, i) => ({ ...b, name: ids[i] ?? "", offset: plan.offsets[i] ?? 0 }));
  const title = p.file.split(/[\\/]/).at(-1) ?? p.file;
  return { ...plan, title, entries };
}

/**
 * Reads MiniMalloc's format: a header naming at least id, lower, upper and size, in any order.
 *
 * @throws {FormatError} `bad-key` for a missing column, `bad-value` for a field that is no number
 */
export function readCsv(text: string): NamedList {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  const head = (lines[0] ?? "").split(",").map((s) => s.trim());
  const [id, lower, upper, size] = ["id", "lower", "upper", "size"].map((name) => {
    const i = head.indexOf(name);
    if (i < 0)
      throw new FormatError("bad-key", `csv: no column "${name}" in "${lines[0] ?? ""}"`, { key: name });
    return i;
  }) as [number, number, number, number];
  const ids: string[] = [];
  const list = lines.slice(1).map((line, i) => {
    const fields = line.split(",");
    ids.push(fields[id]?.trim() ?? "");
    const at = (column: number, key: string): number => field(fields[column], key, i + 2);
    return { lower: at(lower, "lower"), upper: at(upper, "upper"), size: at(size, "size") };
  });
  return { ids, list };
}

function field(text: string | undefined, key: string, line: number): number {
  const x = Number(text);
  if (text !== undefined && text.trim() !== "" && Number.isFinite(x)) return x;
  throw new FormatError("bad-value", `csv: line ${line}: ${key} is "${text ?? ""}", expected a number`, {
    key,
    actual: text,
    expected: "a number",
  });
}
