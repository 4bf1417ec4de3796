// Takes away the typings in dist/ that no entry of the package reaches, comments that no editor shows, and what would need
// the DOM's types; names the library of types that `using` takes.
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

const { exports } = JSON.parse(readFileSync("package.json", "utf8"));
const entries = Object.values(exports).flatMap(({ types }) => types ?? []);
const kept = new Set();

/** Typings that a file imports or re-exports. */
function named(path) {
  const names = readFileSync(path, "utf8").matchAll(/\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g);
  return [...names].map(([, to]) => `${resolve(dirname(path), to).replace(/(\.d)?\.[jt]s$/, "")}.d.ts`);
}

function keep(path) {
  if (kept.has(path) || !existsSync(path)) return;
  kept.add(path);
  for (const other of named(path)) keep(other);
}

function prune(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) prune(path);
    else if (path.endsWith(".d.ts") && !kept.has(path)) rmSync(path);
    else if (path.endsWith(".d.ts")) writeFileSync(path, shortened(path));
  }
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

/** What a user's `lib` may lack: without it Symbol.dispose is an error in our typings. */
const DISPOSABLE = '/// <reference lib="esnext.disposable" />\n';

/** One space for each level of indentation; comments where a user comes across the names. */
function shortened(path) {
  const text = readFileSync(path, "utf8").replace(/^( {4})+/gm, (blanks) => " ".repeat(blanks.length / 4));
  const said =
    shown.has(path) || path.includes("/ts/graph/") ? text : text.replace(/^ *\/\*\*[^]*?\*\/\n/gm, "");
  return /\[Symbol\.(asyncDispose|dispose)\]/.test(said) ? DISPOSABLE + said : said;
}

const shown = new Set(entries.flatMap((types) => [resolve(types), ...named(resolve(types))]));
for (const types of entries) keep(resolve(types));
prune(resolve("dist"));

// What the AssemblyScript compiler says of the core's memory and of how to make it: nothing here uses it.
const core = resolve("dist/build/simd.d.ts");
const text = readFileSync(core, "utf8");
const exportsAlone = text
  .replace(/^ *export const memory: WebAssembly.Memory;\n/m, "")
  .replace(/^export declare function instantiate[^]*$/m, "export { __AdaptedExports };\n");
writeFileSync(core, exportsAlone);
