// npm run conformance -- [--json] [--backend cpu|webgpu] [--threads N] [--without f16|subgroups] [--only PREFIX]: the golden
// vectors in GOLDEN_DIR against the engine.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }] }; without --json a line
// for each failure and each kind of missing thing comes first. Exits 1 when a case failed, or when the GPU reported an
// error that no call answers for.
import { createEngine, type Engine } from "../ts/runtime/engine.ts";
import { fileCases, goldenFiles, goldenFolder } from "./golden/file.ts";
import { type Report, tally } from "./golden/tally.ts";
import type { RunOptions } from "./golden/run.ts";
import { gpuEngine } from "./gpu_engine.ts";
import { testGpu } from "./gpu_host.ts";
import { attempt, fail, listed } from "./runner.ts";

function option(name: string, fallback: string): string {
  const at = process.argv.indexOf(name);
  return at < 0 ? fallback : (process.argv[at + 1] ?? fallback);
}

interface Opened {
  readonly engine: Engine;
  readonly options: RunOptions;
  /** what its device complains of */
  readonly complaint: () => string | undefined;
}

async function openEngine(name: string): Promise<Opened> {
  if (name === "cpu") {
    const engine = await createEngine({ nThreads: Number(option("--threads", "1")) });
    await engine.arrived;
    return { engine, options: {}, complaint: () => undefined };
  }
  if (name !== "webgpu") throw new TypeError(`--backend ${name}: expected cpu or webgpu`);
  const left = option("--without", "");
  const without = (["f16", "subgroups"] as const).filter((w) => w === left);
  const { engine, backend: gpu } = await gpuEngine({ gpu: await testGpu(), without });
  const options = { f32Activations: true, f16Weights: gpu.gpu.caps.f16 };
  return { engine, options, complaint: () => gpu.lost?.message };
}

const backend = option("--backend", "cpu");
const { engine, options, complaint } = await openEngine(backend);
const only = option("--only", "");
const unread: Report = { passed: 0, failed: 0, notBuilt: 0, failures: [] };
const files = listed(unread, goldenFolder(), "GOLDEN_DIR", goldenFiles);
const cases = files.flatMap((file) => attempt(unread, file, "", () => [...fileCases(file)]) ?? []);
const wanted = cases.filter((c) => c.name.startsWith(only));
const { report, missing } = await tally(engine, wanted, options);
for (const { name, reason } of unread.failures) fail(report, name, reason);
const stray = complaint();
if (stray !== undefined) fail(report, "device", stray);
engine.dispose();

if (!process.argv.includes("--json")) {
  for (const [reason, n] of missing) console.log(`not built (${n}): ${reason}`);
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
  console.log(`${report.passed} passed, ${report.failed} failed, ${report.notBuilt} not built`);
}
console.log(JSON.stringify(report));
process.exitCode = report.failed > 0 ? 1 : 0;
