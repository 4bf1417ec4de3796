// Takes away the typings in dist/ that no entry of the package reaches, and what would need the DOM's types.
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
const entries = Object.values(exports).flatMap(({ types }) => types ?? []);
const kept = new Set();

function keep(path) {
  if (kept.has(path) || !existsSync(path)) return;
  kept.add(path);
  for (const [, to] of readFileSync(path, "utf8").matchAll(/\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g)) {
    keep(`${resolve(dirname(path), to).replace(/(\.d)?\.[jt]s$/, "")}.d.ts`);
  }
}

function prune(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) prune(path);
    else if (path.endsWith(".d.ts") && !kept.has(path)) rmSync(path);
  }
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

for (const types of entries) keep(resolve(types));
prune(resolve("dist"));

// What the AssemblyScript compiler says of the core's memory and of how to make it: nothing here uses it.
const core = resolve("dist/build/simd.d.ts");
const text = readFileSync(core, "utf8");
const exportsAlone = text
  .replace(/ *\/\*\* Exported memory \*\/\n.*WebAssembly.Memory;\n/, "")
  .replace(/\/\*\* Instantiates [^]*$/, "export { __AdaptedExports };\n");
writeFileSync(core, exportsAlone);
