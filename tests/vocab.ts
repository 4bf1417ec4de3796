// npm run vocab -- [--json]: every vocabulary of VOCAB_DIR against the ids its cases list.
//
// The last line is one JSON object { passed, failed, notBuilt, failures: [{ name, reason }], vocabularies }, where
// passed and failed count texts and `vocabularies` holds { texts, encoded, decoded } by file. Exits 1 when a text failed.
import { countVocab, vocabNames } from "./vocab_cases.ts";

const json = process.argv.includes("--json");
const failures: { name: string; reason: string }[] = [];
const vocabularies: Record<string, { texts: number; encoded: number; decoded: number }> = {};
let passed = 0;

for (const name of vocabNames()) {
  try {
    const { wrong, ...counts } = countVocab(name);
    vocabularies[name] = counts;
    passed += counts.encoded;
    for (const reason of wrong) failures.push({ name, reason });
  } catch (error) {
    failures.push({ name, reason: `threw ${String(error)}` });
  }
}

if (!json) {
  for (const [name, { texts, encoded, decoded }] of Object.entries(vocabularies)) {
    console.log(`${name}: ${encoded} of ${texts} encoded, ${decoded} decoded`);
  }
  for (const { name, reason } of failures) console.log(`FAIL ${name}: ${reason}`);
}
console.log(JSON.stringify({ passed, failed: failures.length, notBuilt: 0, failures, vocabularies }));
process.exitCode = failures.length > 0 ? 1 : 0;
