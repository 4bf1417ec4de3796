// The runners of test data: what is damaged, empty or not there is a failure with its reason on the last line.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Report } from "./corpus/manifest.ts";
import { runCommand } from "./hosts/process.ts";

const RUNNERS = [
  { name: "conformance", variable: "GOLDEN_DIR", files: { "ops/a.gguf": "GGUF", "ops/b.gguf": "" } },
  {
    name: "corpus",
    variable: "CORPUS_DIR",
    files: { "container-manifest.json": "[{", "arch-manifest.json": "5", "safetensors-manifest.json": "[]" },
  },
  {
    name: "vocab",
    variable: "VOCAB_DIR",
    files: { "a.gguf": "GGUF", "a.gguf.inp": "", "a.gguf.out": "" },
  },
  { name: "arch", variable: "ARCH_DIR", files: { "a.json": "{", "b.json": "{}" } },
  { name: "arch", variable: "GOLDEN_DIR", files: { "arch/a.json": "[]" } },
] as const;

const folder = mkdtempSync(join(tmpdir(), "runners-"));
// where the wasm is found from
const out = resolve("build/runners");

beforeAll(async () => {
  const names = [...new Set(RUNNERS.map(({ name }) => name))];
  await build({
    entryPoints: names.map((name) => `tests/${name}.ts`),
    bundle: true,
    platform: "node",
    format: "esm",
    target: "es2022",
    packages: "external",
    outdir: out,
    loader: { ".wasm": "binary", ".txt": "text" },
  });
});
afterAll(() => [folder, out].forEach((path) => rmSync(path, { recursive: true, force: true })));

async function run(name: string, variable: string, dir: string): Promise<Report> {
  const without = { ARCH_DIR: undefined, GOLDEN_DIR: undefined, [variable]: dir };
  const { code, stdout, stderr } = await runCommand(process.execPath, [join(out, `${name}.js`), "--json"], {
    limitMs: 30_000,
    env: without,
  });
  expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
  const report = JSON.parse(stdout.trim().split("\n").at(-1)!) as Report;
  expect(report.failed).toBe(report.failures.length);
  return report;
}

describe.each(RUNNERS)("$name with $variable", ({ name, variable, files }) => {
  test("tells of a folder that is not there, and of one that is empty", async () => {
    const empty = mkdtempSync(join(folder, "empty-"));
    for (const dir of [join(folder, "nowhere"), empty]) {
      const { passed, failures } = await run(name, variable, dir);
      expect(passed).toBe(0);
      expect(failures[0]!.name.startsWith(dir)).toBe(true);
      expect(failures[0]!.reason).toMatch(/set [A-Z]+_DIR$/);
    }
  });

  test("tells of each file that is damaged", async () => {
    const dir = mkdtempSync(join(folder, "damaged-"));
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(dir, file)), { recursive: true });
      writeFileSync(join(dir, file), content);
    }
    const { passed, failures } = await run(name, variable, dir);
    expect(passed).toBe(0);
    expect(failures.length).toBe(name === "corpus" ? 3 : name === "vocab" ? 1 : Object.keys(files).length);
  });
});
