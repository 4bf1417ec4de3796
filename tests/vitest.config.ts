// Tests by what they need: nothing, wasm (build/ made by `npm run build`), or a data folder (see tests/data.ts).
import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

/** What esbuild does for the bundles (.wasm as bytes, .txt as text), for the test runner. */
const assets = {
  name: "assets",
  enforce: "pre" as const,
  load(id: string): string | undefined {
    if (id.endsWith(".wasm"))
      return `export default Uint8Array.from(atob("${readFileSync(id).toString("base64")}"), (c) => c.charCodeAt(0));`;
    if (id.endsWith(".txt")) return `export default ${JSON.stringify(readFileSync(id, "utf8"))};`;
    return undefined;
  },
};

/** File that takes the results as JSON, beside what is printed. */
const report = process.env["TEST_REPORT"];

export default defineConfig({
  root: new URL("..", import.meta.url).pathname,
  plugins: [assets],
  test: {
    include: ["tests/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    maxWorkers: 2,
    reporters: report === undefined ? ["default"] : ["default", ["json", { outputFile: report }]],
  },
});
