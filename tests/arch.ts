// npm run arch -- [--json]: tiny models of every architecture against llama.cpp's own logits and embeddings.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }] }; without --json a line
// for each failure comes first. Exits 1 when a case failed. ARCH_DIR: another folder of such files;
// without it `arch` in GOLDEN_DIR.
import { archDir, caseNames } from "./arch/golden.ts";
import { runCase } from "./arch/run.ts";
import type { Report } from "./corpus/manifest.ts";
import { fail, listed } from "./runner.ts";

const report: Report = { passed: 0, failed: 0, notBuilt: 0, failures: [] };
const notBuilt: string[] = [];

for (const name of listed(report, archDir(), "ARCH_DIR", caseNames)) {
  let reason: string | undefined | null;
  try {
    reason = await runCase(name);
  } catch (error) {
    reason = `threw ${String(error)}`;
  }
  if (reason === undefined) report.passed++;
  else if (reason === null) notBuilt.push(name);
  else fail(report, name, reason);
}
report.notBuilt = notBuilt.length;

if (!process.argv.includes("--json")) {
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
  if (notBuilt.length > 0) console.log(`not built: ${notBuilt.join(" ")}`);
  console.log(`${report.passed} passed, ${report.failed} failed, ${report.notBuilt} not built`);
}
console.log(JSON.stringify(report));
process.exitCode = report.failed > 0 ? 1 : 0;
