// What the runners of test data (npm run conformance, corpus, vocab, arch) do alike with what they find, and do not find.
import type { Report } from "./corpus/manifest.ts";

/** Adds a failure. */
export function fail(report: Report, name: string, reason: string): void {
  report.failed++;
  report.failures.push({ name, reason });
}

/** What is there to run; a folder that is missing or holds nothing is a failure that names the variable for another. */
export function listed<T>(
  report: Report,
  folder: string,
  variable: string,
  list: () => readonly T[],
): readonly T[] {
  const all = attempt(report, folder, `set ${variable}`, list);
  if (all?.length === 0) fail(report, folder, `nothing to run: set ${variable}`);
  return all ?? [];
}

/** The result of a function; what it throws is a failure. */
export function attempt<T>(report: Report, name: string, hint: string, of: () => T): T | undefined {
  try {
    return of();
  } catch (error) {
    fail(report, name, `${String(error)}${hint === "" ? "" : `: ${hint}`}`);
    return undefined;
  }
}
