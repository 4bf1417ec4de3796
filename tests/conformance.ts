// npm run conformance -- [--json] [--backend cpu|webgpu] [--threads N] [--only PREFIX]: the golden vectors in GOLDEN_DIR
// against the engine.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }] }; without --json a line
// for each failure and each kind of missing thing comes first. Exits 1 when a case failed.
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { goldenCases } from "./golden/file.ts";
import { runCase } from "./golden/run.ts";

function option(name: string, fallback: string): string {
  const at = process.argv.indexOf(name);
  return at < 0 ? fallback : (process.argv[at + 1] ?? fallback);
}

const json = process.argv.includes("--json");
const only = option("--only", "");
const report = { passed: 0, failed: 0, notBuilt: 0, failures: [] as { name: string; reason: string }[] };
const missing = new Map<string, number>();
const backend = option("--backend", "cpu");

async function openEngine(): Promise<Engine> {
  if (backend === "cpu") return createEngine({ nThreads: Number(option("--threads", "1")) });
  if (backend === "webgpu") return (await gpuEngine()).engine;
  throw new TypeError(`--backend ${backend}: expected cpu or webgpu`);
}

const engine = await openEngine();

for (const c of goldenCases()) {
  if (!c.name.startsWith(only)) continue;
  const outcome = await runCase(engine, c);
  report[outcome.kind]++;
  if (outcome.kind === "failed") report.failures.push({ name: c.name, reason: outcome.reason });
  if (outcome.kind === "notBuilt") missing.set(outcome.reason, (missing.get(outcome.reason) ?? 0) + 1);
}
engine.dispose();

if (!json) {
  for (const [reason, n] of missing) console.log(`not built (${n}): ${reason}`);
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
  console.log(`${report.passed} passed, ${report.failed} failed, ${report.notBuilt} not built`);
}
console.log(JSON.stringify(report));
process.exitCode = report.failed > 0 ? 1 : 0;
