// npm run corpus -- [--json]: the container and model corpora against what their manifests say.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }] }; without --json a line
// for each failure comes first. Exits 1 when a case failed.
import { join } from "node:path";
import { runArch } from "./corpus/arch.ts";
import { runContainer } from "./corpus/container.ts";
import { corpusDir, type Entry, type Report, nameOf, readManifest } from "./corpus/manifest.ts";
import { stages } from "./corpus/stages.ts";
import { fail, listed } from "./runner.ts";

const report: Report = { passed: 0, failed: 0, notBuilt: 0, failures: [] };

async function run(
  entry: Entry,
  runOne: (entry: Entry) => Promise<string | undefined | null>,
): Promise<void> {
  let reason: string | undefined | null;
  try {
    reason = await runOne(entry);
  } catch (error) {
    reason = `threw ${String(error)}`;
  }
  if (reason === null) return void report.notBuilt++;
  if (reason === undefined) return void report.passed++;
  fail(report, nameOf(entry), reason);
}

const entries = (kind: "container" | "arch" | "safetensors"): readonly Entry[] =>
  listed(report, join(corpusDir(), kind), "CORPUS_DIR", () => readManifest(kind));

for (const entry of entries("container")) await run(entry, runContainer);
for (const entry of entries("arch")) await run(entry, (e) => runArch(e, stages));
report.notBuilt += entries("safetensors").length;

if (!process.argv.includes("--json")) {
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
  console.log(`${report.passed} passed, ${report.failed} failed, ${report.notBuilt} not built`);
}
console.log(JSON.stringify(report));
process.exitCode = report.failed > 0 ? 1 : 0;
