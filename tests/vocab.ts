// npm run vocab -- [--json]: every vocabulary of VOCAB_DIR against the ids its cases list.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }], vocabularies }, where
// passed and failed count texts and `vocabularies` holds { texts, encoded, decoded } by file. Exits 1 when a text failed.
import type { Report } from "./corpus/manifest.ts";
import { dataDir } from "./data.ts";
import { attempt, fail, listed } from "./runner.ts";
import { countVocab, vocabNames } from "./vocab_cases.ts";

const json = process.argv.includes("--json");
const report: Report = { passed: 0, failed: 0, notBuilt: 0, failures: [] };
const vocabularies: Record<string, { texts: number; encoded: number; decoded: number }> = {};

for (const name of listed(report, dataDir("vocab"), "VOCAB_DIR", vocabNames)) {
  const counted = attempt(report, name, "", () => countVocab(name));
  if (counted === undefined) continue;
  const { wrong, ...counts } = counted;
  vocabularies[name] = counts;
  report.passed += counts.encoded;
  for (const reason of wrong) fail(report, name, reason);
}

if (!json) {
  for (const [name, { texts, encoded, decoded }] of Object.entries(vocabularies)) {
    console.log(`${name}: ${encoded} of ${texts} encoded, ${decoded} decoded`);
  }
  for (const { name, reason } of report.failures) console.log(`FAIL ${name}: ${reason}`);
}
console.log(JSON.stringify({ ...report, vocabularies }));
process.exitCode = report.failed > 0 ? 1 : 0;
