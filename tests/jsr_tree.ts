// The tree that JSR and Deno get: the TypeScript sources, with the build products they import as modules beside them.
//
// Deno imports neither .wasm as bytes nor .txt without a flag, so each becomes a module of its name and ".ts":
//   import bytes from "../../build/simd.wasm"   ->   import bytes from "../../assets/simd.wasm.ts"
// (a folder "build" would be left out: git ignores it). Needs build/.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** What package.json says of what a Deno configuration needs. */
interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** JSR's names have a scope. */
const SCOPE = "@slackwater";
/** Entries by the name under which they are imported; the same as npm's. */
const EXPORTS = {
  ".": "./ts/index.ts",
  "./llm": "./ts/llm/index.ts",
  "./gguf": "./ts/gguf/index.ts",
  "./plan": "./ts/plan.ts",
};
const PAPERS = ["README.md", "LICENSE", "CHANGELOG.md"];
const ASSET = /(?<=from "[./]*\/)build\/(\w+\.(?:wasm|txt|d))(\.ts)?(?=";)/g;

/** Writes the tree, from an empty folder on; returns the paths of its files. */
export function writeJsrTree(folder: string): string[] {
  rmSync(folder, { recursive: true, force: true });
  for (const path of sources()) {
    const text = readFileSync(path, "utf8").replaceAll(ASSET, "assets/$1.ts");
    write(join(folder, path), text);
  }
  for (const name of ["simd.wasm", "relaxed.wasm"])
    write(join(folder, "assets", `${name}.ts`), bytesModule(name));
  const worker = readFileSync("build/worker.txt", "utf8");
  write(join(folder, "assets/worker.txt.ts"), textModule(worker));
  cpSync("build/simd.d.ts", join(folder, "assets/simd.d.ts"));
  for (const name of PAPERS) cpSync(name, join(folder, name));
  write(join(folder, "deno.json"), `${JSON.stringify(configuration(), undefined, 2)}\n`);
  return readdirSync(folder, { recursive: true, encoding: "utf8", withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** All sources of the library: not the command, which npm's package has, nor declarations of assets. */
function sources(): string[] {
  const names = readdirSync("ts", { recursive: true, encoding: "utf8" });
  const library = names.filter((n) => n.endsWith(".ts") && !n.endsWith(".d.ts") && !n.startsWith("cli/"));
  return ["assembly/abi.ts", ...library.map((n) => `ts/${n}`)];
}

function configuration(): object {
  const { name, version, license, dependencies } = JSON.parse(
    readFileSync("package.json", "utf8"),
  ) as Manifest;
  const imports = Object.entries(dependencies).map(([d, range]) => [d, `npm:${d}@${range}`]);
  return {
    name: `${SCOPE}/${name}`,
    version,
    license,
    exports: EXPORTS,
    imports: Object.fromEntries(imports) as Record<string, string>,
  };
}

function bytesModule(name: string): string {
  const base64 = readFileSync(join("build", name)).toString("base64");
  return `// ${name}, as bytes.
const bytes: Uint8Array<ArrayBuffer> = Uint8Array.from(atob("${base64}"), (c) => c.charCodeAt(0));
export default bytes;
`;
}

function textModule(text: string): string {
  return `// The source of the worker.\nconst text: string = ${JSON.stringify(text)};\nexport default text;\n`;
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
