// The import direction of ts/ and assembly/, and the rules that hold for each source file by itself.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");

/** Lowest first. A file imports its own layer and lower tiers; layers of one tier do not import each other. */
const TS_TIERS = [
  ["abi"],
  ["errors", "builtin", "version", "within"],
  ["types"],
  ["shape"],
  ["ops", "gguf"],
  ["graph"],
  ["runtime"],
  ["webgpu"],
  ["index", "llm", "plan"],
  ["cli", "global"],
];
const ASSEMBLY_TIERS = [
  ["abi"],
  ["node", "share", "region"],
  ["math", "control"],
  ["quants"],
  ["matmul"],
  ["kernels", "plan"],
  ["compute", "selftest"],
  ["index"],
];

/** Path from the repository root -> text. */
type Tree = ReadonlyMap<string, string>;

function readTree(...folders: string[]): Tree {
  const tree = new Map<string, string>();
  const walk = (folder: string): void => {
    for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
      const path = posix.join(folder, entry.name);
      if (entry.isDirectory() && entry.name !== "node_modules") walk(path);
      else if (/\.(ts|mjs)$/.test(path)) tree.set(path, readFileSync(join(ROOT, path), "utf8"));
    }
  };
  for (const folder of folders) if (existsSync(join(ROOT, folder))) walk(folder);
  return tree;
}

/** Specifiers of static and dynamic imports and of re-exports, types included. */
function specifiers(text: string): string[] {
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
  const forms = /(?:\bfrom\s*|\bimport\s*\(\s*|\bimport\s+)(["'])([^"'\n]+)\1/g;
  return [...code.matchAll(forms)].map((m) => m[2]!);
}

/** Files of the project that a file imports. */
function targets(path: string, tree: Tree): string[] {
  const relative = specifiers(tree.get(path)!).filter((s) => s.startsWith("."));
  return relative.map((s) => {
    const target = posix.normalize(posix.join(posix.dirname(path), s));
    return path.startsWith("assembly/") ? `${target}.ts` : target;
  });
}

/** First folder or file below ts/ or assembly/. */
function layerOf(path: string): string {
  return path === "assembly/abi.ts" ? "abi" : path.split("/")[1]!.replace(/\.ts$/, "");
}

/** The one import that points up: the engine loads a device's code when it is asked for. */
const ON_DEMAND = "ts/runtime/devices.ts -> ts/webgpu/index.ts";

/** Imports that point up, sideways or at nothing, as `from -> to`. */
function wrongImports(tree: Tree, tiers: readonly (readonly string[])[]): string[] {
  const tierOf = (path: string): number => tiers.findIndex((t) => t.includes(layerOf(path)));
  const wrong: string[] = [];
  for (const path of tree.keys()) {
    if (tierOf(path) < 0) wrong.push(`${path} has no layer`);
    for (const to of targets(path, tree)) {
      const fine = to.startsWith("build/")
        ? layerOf(path) === "runtime"
        : (tree.has(to) || to === "assembly/abi.ts") &&
          (layerOf(to) === layerOf(path) || tierOf(to) < tierOf(path));
      if (!fine && `${path} -> ${to}` !== ON_DEMAND) wrong.push(`${path} -> ${to}`);
    }
  }
  return wrong;
}

/** Paths of one cycle, or an empty list. */
function findCycle(tree: Tree): string[] {
  const done = new Set<string>();
  const stack: string[] = [];
  const visit = (path: string): string[] => {
    if (stack.includes(path)) return [...stack.slice(stack.indexOf(path)), path];
    if (done.has(path) || !tree.has(path)) return [];
    stack.push(path);
    for (const to of targets(path, tree)) {
      const cycle = visit(to);
      if (cycle.length > 0) return cycle;
    }
    stack.pop();
    done.add(path);
    return [];
  };
  for (const path of tree.keys()) {
    const cycle = visit(path);
    if (cycle.length > 0) return cycle;
  }
  return [];
}

describe("layers", () => {
  const ts = readTree("ts");
  const assembly = readTree("assembly");

  it("files of ts/ import lower layers only", () => {
    expect(wrongImports(ts, TS_TIERS)).toEqual([]);
  });

  it("files of assembly/ import lower layers only", () => {
    expect(wrongImports(assembly, ASSEMBLY_TIERS)).toEqual([]);
  });

  it("no file imports itself through others", () => {
    expect(findCycle(ts)).toEqual([]);
    expect(findCycle(assembly)).toEqual([]);
  });

  it("webgpu/ is imported on demand only", () => {
    const statically = [...ts].filter(([path]) => layerOf(path) !== "webgpu" && layerOf(path) !== "cli");
    const wrong = statically.filter(([, text]) =>
      /\bfrom\s*["'][^"']*\/webgpu\//.test(text.replace(/import type[^;]*;/g, "")),
    );
    expect(wrong.map(([path]) => path)).toEqual([]);
  });

  it("Node's modules and packages are imported where they belong", () => {
    const wrong: string[] = [];
    for (const [path, text] of ts) {
      const allowed = { cli: /^node:/, llm: /^@huggingface\// }[layerOf(path)];
      for (const s of specifiers(text))
        if (!s.startsWith(".") && !allowed?.test(s)) wrong.push(`${path} -> ${s}`);
    }
    for (const [path, text] of assembly)
      for (const s of specifiers(text)) if (!s.startsWith(".")) wrong.push(`${path} -> ${s}`);
    expect(wrong).toEqual([]);
  });

  it("no file is longer than 500 lines, and each begins by saying what it is for", () => {
    const wrong: string[] = [];
    for (const [path, text] of [...ts, ...assembly, ...readTree("tests", "benchmarks")]) {
      const lines = text.split("\n").length - 1;
      if (lines > 500) wrong.push(`${path}: ${lines} lines`);
      if (!/^(\/\/|\/\*\*?) ?\S/.test(text.replace(/^#!.*\n/, ""))) wrong.push(`${path}: no first comment`);
    }
    expect(wrong).toEqual([]);
  });
});

describe("the layer check itself", () => {
  const tree = (files: Record<string, string>): Tree => new Map(Object.entries(files));

  it("finds an import that points up, one that points sideways and one that points at nothing", () => {
    const files = tree({
      "ts/errors.ts": 'import { a } from "./graph/graph.ts";',
      "ts/graph/graph.ts": 'export type { b } from "../errors.ts";',
      "ts/gguf/reader.ts": 'const o = await import("../ops/add.ts");',
      "ts/ops/add.ts": 'import "./gone.ts";',
    });
    expect(wrongImports(files, TS_TIERS)).toEqual([
      "ts/errors.ts -> ts/graph/graph.ts",
      "ts/gguf/reader.ts -> ts/ops/add.ts",
      "ts/ops/add.ts -> ts/ops/gone.ts",
    ]);
  });

  it("finds a file without a layer", () => {
    expect(wrongImports(tree({ "assembly/misc.ts": "" }), ASSEMBLY_TIERS)).toEqual([
      "assembly/misc.ts has no layer",
    ]);
  });

  it("finds a cycle of three and ignores imports in comments", () => {
    const files = {
      "assembly/plan/a.ts": 'import { b } from "./b";',
      "assembly/plan/b.ts": 'import { c } from "./c";',
      "assembly/plan/c.ts": '// import { a } from "./a";',
    };
    expect(findCycle(tree(files))).toEqual([]);
    const cycle = findCycle(tree({ ...files, "assembly/plan/c.ts": 'export * from "./a";' }));
    expect(cycle).toEqual(["a", "b", "c", "a"].map((n) => `assembly/plan/${n}.ts`));
  });
});
