// Writes the tree that JSR gets: the sources, with the build products they import as modules. Needs build/.
//
// Deno imports neither bytes nor text without a flag, so each becomes a module of its name and ".ts":
//   import bytes from "../../build/simd.wasm"   ->   import bytes from "../../assets/simd.wasm.ts"
// (A folder named "build" would be left out: git ignores it.)
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** Folder to write to, emptied before. */
const [, , folder = "build/jsr"] = process.argv;
/** JSR's names have a scope. */
const SCOPE = "@slackwater";
/** Entries by the name under which they are imported; the same as npm's. */
const ENTRIES = {
  ".": "./ts/index.ts",
  "./llm": "./ts/llm/index.ts",
  "./gguf": "./ts/gguf/index.ts",
  "./plan": "./ts/plan.ts",
};
const PAPERS = ["README.md", "LICENSE", "CHANGELOG.md"];
const IMPORT = /(?<=\b(?:from|import)\s*\(?\s*")([^"]+)(?=")/g;

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const imports = {};
const written = new Set();

/** Writes a source and all that it imports. */
function writeSource(path) {
  if (written.has(path)) return;
  written.add(path);
  const text = readFileSync(path, "utf8").replaceAll(IMPORT, (name) => {
    if (!name.startsWith(".")) return external(name);
    const to = normalize(join(dirname(path), name));
    if (to.startsWith("build/")) return name.replace(/build\/.*/, writeAsset(to));
    writeSource(to);
    return name;
  });
  write(path, text);
}

/** Notes a package that is imported by name. */
function external(name) {
  const version = manifest.dependencies?.[name] ?? manifest.devDependencies[name];
  if (version !== undefined) imports[name] = `npm:${name}@${version}`;
  return name;
}

/** Writes a build product as a module; returns its path in the tree. */
function writeAsset(from) {
  const name = from.slice("build/".length);
  const to = name.endsWith(".ts") ? `assets/${name}` : `assets/${name}.ts`;
  const content = readFileSync(from);
  if (name.endsWith(".ts")) write(to, content);
  else if (name.endsWith(".txt")) write(to, moduleOf("string", JSON.stringify(content.toString())));
  else {
    const bytes = `Uint8Array.from(atob("${content.toString("base64")}"), (c) => c.charCodeAt(0))`;
    write(to, moduleOf("Uint8Array<ArrayBuffer>", bytes));
  }
  return to;
}

function moduleOf(type, value) {
  return `const content: ${type} = ${value};\nexport default content;\n`;
}

function write(path, content) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), content);
}

rmSync(folder, { recursive: true, force: true });
for (const path of Object.values(ENTRIES)) writeSource(normalize(path));
for (const name of PAPERS) cpSync(name, join(folder, name));
const { name, version, license } = manifest;
const configuration = { name: `${SCOPE}/${name}`, version, license, exports: ENTRIES, imports };
write("deno.json", `${JSON.stringify(configuration, undefined, 2)}\n`);
