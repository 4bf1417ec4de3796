// Documents that are generated, or that name commands, are true.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { opsMarkdown } from "./ops_docs.ts";

test("docs/ops.md is what the operator definitions say", () => {
  expect(readFileSync("docs/ops.md", "utf8")).toBe(opsMarkdown());
});

test("the README names the two commands and only scripts that exist", () => {
  const readme = readFileSync("README.md", "utf8");
  expect(readme).toContain("npm ci && npm start");
  expect(readme).toContain("npm ci && npm test");
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  for (const page of [readme, readFileSync("CONTRIBUTING.md", "utf8")]) {
    for (const [, name] of page.matchAll(/npm run (?:-s )?([a-z:]+)/g))
      expect(Object.keys(scripts)).toContain(name);
  }
});
