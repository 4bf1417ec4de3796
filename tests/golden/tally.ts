// Runs golden cases one after the other and counts what became of them.

import type { Engine } from "../../ts/runtime/engine.ts";
import type { Case } from "./cases.ts";
import type { Report } from "../corpus/manifest.ts";
import { runCase, type RunOptions } from "./run.ts";

export type { Report } from "../corpus/manifest.ts";

/** What came out, and how often the engine said that it lacks what. */
export interface Tally {
  readonly report: Report;
  readonly missing: ReadonlyMap<string, number>;
}

/** Runs cases. */
export async function tally(engine: Engine, cases: Iterable<Case>, options: RunOptions = {}): Promise<Tally> {
  const report: Report = { passed: 0, failed: 0, notBuilt: 0, failures: [] };
  const missing = new Map<string, number>();
  for (const c of cases) {
    const outcome = await runCase(engine, c, options);
    report[outcome.kind]++;
    if (outcome.kind === "failed") report.failures.push({ name: c.name, reason: outcome.reason });
    if (outcome.kind === "notBuilt") missing.set(outcome.reason, (missing.get(outcome.reason) ?? 0) + 1);
  }
  return { report, missing };
}
