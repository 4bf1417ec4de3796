// `slackwater plan CSV|MODEL`: plans memory and shows the plan.

import { parseArgs } from "node:util";
import { readFileSync, writeFileSync } from "node:fs";
import { FormatError } from "../errors.ts";
import { planToSVG } from "../runtime/plan_svg.ts";
import { ListPlan, type NamedLifetime } from "../plan.ts";
import type { PlanHost } from "../runtime/plan_host.ts";
import type { PlanOptions } from "../runtime/plan_check.ts";
import { planBuffers } from "../runtime/plan_list.ts";
import { planReport, reportToText, type ReportSource } from "../runtime/report.ts";
import { existing, existingOrUrl } from "./args.ts";

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

export const PLAN_USAGE: string = `slackwater plan FILE.csv|MODEL.gguf [options]
  Plans memory. CSV: a header with id, lower, upper, size, one buffer a line, alive in [lower, upper). More columns,
  where a field may be empty: alignment, bytes; offset, where the buffer must lie.
  --json        last line: { peak, lowerBound, sum, ms, optimal, offsets }, bytes
  --svg FILE    write a picture of the plan
  --alignment N offsets are multiples of it (default: 1)
  --capacity N  bytes that are good enough (default: aim at the lower bound)
  --max-chunk N cut memory in chunks of at most this many bytes; offsets count on through them
  --budget N    most work, in buffers looked at (about 5 ns each; 2e8, with a capacity 4e9)
  --seed N      another seed, another plan
  -h, --help    this text`;

const OPTIONS = {
  json: { type: "boolean" },
  svg: { type: "string" },
  alignment: { type: "string" },
  "max-chunk": { type: "string" },
  capacity: { type: "string" },
  budget: { type: "string" },
  seed: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

interface Parsed {
  readonly file: string;
  readonly json: boolean;
  readonly svg: string | undefined;
  /** for lists alone */
  readonly list: Pick<PlanOptions, "alignment" | "capacity" | "maxChunk">;
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
  if (p === undefined) return outside.write(`${PLAN_USAGE}\n`);
  const source = isCsv(p.file) ? await planCsv(p, outside) : await planModel(p, outside);
  if (p.svg !== undefined) writeFileSync(p.svg, planToSVG(source));
  const report = planReport(source);
  if (!p.json) return outside.write(`${reportToText(report)}\n`);
  const { peak, lowerBound, sum, ms, optimal, offsets } = report;
  outside.write(`${JSON.stringify({ peak, lowerBound, sum, ms, optimal, offsets })}\n`);
}

function isCsv(path: string): boolean {
  return path.toLowerCase().endsWith(".csv");
}

// Undefined when help is asked for.
function parse(args: readonly string[]): Parsed | undefined {
  const { values: v, positionals } = parseArgs({
    args: [...args],
    options: OPTIONS,
    allowPositionals: true,
    strict: true,
  });
  if (v.help === true) return undefined;
  const [file] = positionals;
  if (file === undefined || positionals.length > 1)
    throw new TypeError(`plan: one file expected\n${PLAN_USAGE}`);
  return {
    file: isCsv(file) ? existing(file) : existingOrUrl(file),
    json: v.json === true,
    svg: v.svg,
    list: {
      alignment: number("alignment", v.alignment),
      capacity: number("capacity", v.capacity),
      maxChunk: number("max-chunk", v["max-chunk"]),
    },
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
  if (Object.values(p.list).some((x) => x !== undefined)) {
    throw new TypeError("plan: --alignment, --capacity and --max-chunk are for CSV files");
  }
  return outside.model(p.file, { budget: p.budget, seed: p.seed });
}

async function planCsv(p: Parsed, outside: PlanCommandHost): Promise<ReportSource> {
  const list = readCsv(readFileSync(p.file, "utf8"));
  const plan = planBuffers(await outside.host(), list, { ...p.list, budget: p.budget, seed: p.seed });
  return new ListPlan(list, plan).source(p.file.split(/[\\/]/).at(-1));
}

/**
 * Reads MiniMalloc's format: a header naming at least id, lower, upper and size, in any order; alignment and offset may
 * be there and have empty fields.
 *
 * @throws {FormatError} `bad-key` for a missing column, `bad-value` for a field that is no number
 */
export function readCsv(text: string): readonly NamedLifetime[] {
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  const head = (lines[0] ?? "").split(",").map((s) => s.trim());
  for (const key of ["id", "lower", "upper", "size"]) {
    if (!head.includes(key))
      throw new FormatError("bad-key", `csv: no column "${key}" in "${lines[0] ?? ""}"`, { key });
  }
  return lines.slice(1).map((line, i) => {
    const fields = line.split(",");
    const text = (key: string): string | undefined => fields[head.indexOf(key)]?.trim();
    const at = (key: string): number => field(text(key), key, i + 2);
    const maybe = (key: string): number | undefined => ((text(key) ?? "") === "" ? undefined : at(key));
    const [name, lower, upper, size] = [text("id"), at("lower"), at("upper"), at("size")];
    return { name, lower, upper, size, alignment: maybe("alignment"), offset: maybe("offset") };
  });
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
