// What the built files may contain: nothing that a bundler, a policy or an edge host refuses.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";

const DIST = resolve(import.meta.dirname, "../dist");
/** Entries that a program imports; the command line is run, never bundled. */
const ENTRIES = ["index.js", "llm.js", "gguf.js", "plan.js"];
/** The script tag's file. */
const SCRIPT = "slackwater.global.js";

function files(pattern: RegExp): string[] {
  return readdirSync(DIST, { recursive: true, encoding: "utf8" }).filter((name) => pattern.test(name));
}

/** Texts of an entry and of all chunks it imports, by name. */
function entryTexts(entry: string): Map<string, string> {
  const texts = new Map<string, string>();
  const visit = (name: string): void => {
    if (texts.has(name)) return;
    const text = readFileSync(join(DIST, name), "utf8");
    texts.set(name, text);
    for (const [, chunk] of text.matchAll(/(?:from|import)\s*\(?\s*"\.\/([\w.-]+\.js)"/g)) visit(chunk!);
  };
  visit(entry);
  return texts;
}

describe("built files", () => {
  for (const entry of [...ENTRIES, "worker.js", SCRIPT]) {
    it(`${entry} needs no address of its own, no eval and no module of Node`, () => {
      for (const [name, text] of entryTexts(entry)) {
        const found = [
          /\bimport\.meta\b/,
          /\beval\s*\(/,
          /\bnew\s+Function\b/,
          /\bfrom\s*"node:/,
          /\brequire\s*\(/,
        ].filter((p) => p.test(text));
        expect(found, name).toEqual([]);
      }
    });
  }

  it("importing an entry does nothing by itself: unused imports leave no trace in a bundle", async () => {
    for (const entry of ENTRIES) {
      const contents = `import * as all from "./${entry}"; globalThis.kept = 1;`;
      const { outputFiles } = await build({
        stdin: { contents, resolveDir: DIST },
        bundle: true,
        format: "esm",
        write: false,
        minify: true,
        logLevel: "silent",
      });
      expect(outputFiles[0]!.text.trim(), entry).toBe("globalThis.kept=1;");
    }
  });

  it("only the command line writes to the console", () => {
    for (const entry of ENTRIES) {
      for (const [name, text] of entryTexts(entry)) expect(text, name).not.toMatch(/\bconsole\s*[.[]/);
    }
  });

  // Both cores are inside the JavaScript, deflated; the .wasm file is the baseline core again, for those who serve a file.
  it("what a page fetches stays under 1 MB: the modules with both cores, or the script tag's file", () => {
    const size = (names: readonly string[]): number =>
      names.reduce((n, name) => n + statSync(join(DIST, name)).size, 0);
    const scripts = files(/\.js$/);
    const modules = scripts.filter((name) => !["cli.js", "worker.js", SCRIPT].includes(name));
    expect(size(modules)).toBeGreaterThan(100_000);
    expect(size(modules)).toBeLessThan(1_000_000);
    expect(size([SCRIPT])).toBeLessThan(1_000_000);
    expect(files(/\.wasm$/)).toEqual(["core.wasm"]);
    expect(size(["core.wasm"])).toBeLessThan(200_000);
  });

  it("the template library's licence comes with it", () => {
    const holders = files(/\.js$/).filter((name) =>
      readFileSync(join(DIST, name), "utf8").includes("Copyright (c) 2023 Hugging Face"),
    );
    expect(holders.map((name) => name.replace(/-\w+\.js$/, "")).sort()).toEqual(["jinja_library", SCRIPT]);
  });

  it("typings name no ambient types that a user would have to install", () => {
    const typings = files(/\.d\.ts$/);
    expect(typings.length).toBeGreaterThan(10);
    for (const name of typings) {
      const text = readFileSync(join(DIST, name), "utf8");
      expect(text, name).not.toMatch(
        /@webgpu\/types|\/\/\/\s*<reference (?!lib=)|\bGPU[A-Z]\w*Usage\b|\bNodeJS\./,
      );
    }
  });
});
