// What all benchmarks share: command line, processor time, medians, child processes in turn, the machine, the result line.
import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { arch, availableParallelism, cpus, platform, totalmem } from "node:os";
import { join } from "node:path";

/** Wall and processor milliseconds of a stretch of work. Processor time is that of the whole process, all its threads. */
export interface Spent {
  readonly ms: number;
  readonly cpuMs: number;
}

/** The clock of a {@link Spent}. */
export function now(): Spent {
  const { user, system } = process.cpuUsage();
  return { ms: performance.now(), cpuMs: (user + system) / 1000 };
}

/** From `start` to now. */
export function since(start: Spent): Spent {
  const end = now();
  return { ms: end.ms - start.ms, cpuMs: end.cpuMs - start.cpuMs };
}

/** The middle of a list, or the mean of its two middles; NaN of an empty one. */
export function median(xs: readonly number[]): number {
  const sorted = [...xs].sort((a, b) => a - b);
  const mid = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1 ? sorted[mid]! : (sorted[mid - 1]! + sorted[mid]!) / 2;
}

/** Three significant digits. */
export function round(x: number): number {
  return Number.isFinite(x) ? Number(x.toPrecision(3)) : NaN;
}

/** What one call takes. */
export async function spentOn(f: () => unknown): Promise<Spent> {
  const start = now();
  await f();
  return since(start);
}

/** Repetitions of `f` until `minMs` have gone by, at least `least`; the median and the best of each clock. */
export async function repeat(
  f: () => unknown,
  minMs: number,
  least = 5,
): Promise<{ readonly median: Spent; readonly best: Spent; readonly n: number }> {
  const runs: Spent[] = [];
  const start = now();
  while (runs.length < least || since(start).ms < minMs) {
    runs.push(await spentOn(f));
  }
  const of = (pick: (xs: number[]) => number): Spent => ({
    ms: pick(runs.map((r) => r.ms)),
    cpuMs: pick(runs.map((r) => r.cpuMs)),
  });
  return { median: of(median), best: of((xs) => Math.min(...xs)), n: runs.length };
}

/** Runs a program of benchmarks/build with one JSON argument in a process of its own; its last line is JSON too. */
export function runChild(program: string, job: object, limitMs = 600_000): Promise<Record<string, unknown>> {
  const args = [join(import.meta.dirname, program), JSON.stringify(job)];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      args,
      { timeout: limitMs, maxBuffer: 1 << 26, killSignal: "SIGKILL" },
      (error, stdout, stderr) => {
        const line = stdout.trimEnd().split("\n").pop() ?? "";
        if (error === null && line.startsWith("{")) resolve(JSON.parse(line) as Record<string, unknown>);
        else resolve({ error: `${error?.message ?? "no result"}\n${stderr.slice(-500)}` });
      },
    );
  });
}

/** A B, B A, A B ...: calls `run` for each name in turn. */
export async function inTurn(
  names: readonly string[],
  rounds: number,
  run: (name: string, round: number) => Promise<void>,
): Promise<void> {
  for (let i = 0; i < rounds; i++) {
    for (const name of i % 2 === 0 ? names : names.toReversed()) await run(name, i);
  }
}

/** Where and with what a result was measured. */
export function machine(): Record<string, unknown> {
  return {
    cpu: cpus()[0]?.model,
    cores: availableParallelism(),
    memoryGiB: round(totalmem() / 2 ** 30),
    system: `${platform()} ${arch()}`,
    node: process.version,
    load: existsSync("/proc/loadavg")
      ? Number(readFileSync("/proc/loadavg", "utf8").split(" ")[0])
      : undefined,
  };
}

/** Version of an installed peer. */
export function versionOf(name: string): string {
  const path = join(import.meta.dirname, "../node_modules", name, "package.json");
  if (!existsSync(path)) return "not installed";
  return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Prints a table, unless the command line says `--json`, and, as the last line, everything as JSON. */
export function report(name: string, rows: readonly object[], more: object = {}): void {
  if (!process.argv.includes("--json")) console.table(rows);
  const date = new Date().toISOString().slice(0, 10);
  const command = `${name} ${process.argv.slice(2).join(" ")}`.trim();
  console.log(JSON.stringify({ benchmark: name, date, command, machine: machine(), ...more, rows }));
}
