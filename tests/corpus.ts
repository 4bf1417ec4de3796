// npm run corpus -- [--json]: the container and model corpora against what their manifests say.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }] }; without --json a line
// for each failure comes first. Exits 1 when a case failed.
import { runArch } from "./corpus/arch.ts";
import { runContainer } from "./corpus/container.ts";
import { type Entry, type Report, nameOf, readManifest } from "./corpus/manifest.ts";
import { stages } from "./corpus/stages.ts";

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
  report.failed++;
  report.failures.push({ name: nameOf(entry), reason });
}

for (const entry of readManifest("container")) await run(entry, runContainer);
for (const entry of readManifest("arch")) await run(entry, (e) => runArch(e, stages));
report.notBuilt += readManifest("safetensors").length;

if (!process.argv.includes("--json")) {
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
  console.log(`${report.passed} passed, ${report.failed} failed, ${report.notBuilt} not built`);
}
console.log(JSON.stringify(report));
process.exitCode = report.failed > 0 ? 1 : 0;
