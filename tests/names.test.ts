// A user can name what signatures name: options, results, codes of errors. Reads the typings in dist/.
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const manifest = JSON.parse(readFileSync(resolve(ROOT, "package.json"), "utf8")) as {
  exports: Record<string, { types?: string; default: string }>;
};
const ENTRIES = Object.entries(manifest.exports).flatMap(([name, { types, default: code }]) =>
  types === undefined ? [] : [{ name, types: resolve(ROOT, types), code: resolve(ROOT, code) }],
);

/** Parts that are handed on as they are, the engine's own insides, and shorthands. */
const UNNAMED = [
  "Arena",
  "Core",
  "EngineParts",
  "Exports",
  "GraphHost",
  "OpDef",
  "QuadWindows",
  "WasmModule",
  "BuildGraph",
  "ChatTemplates",
  "ContextPlan",
  "EmbeddingBuild",
  "EmbeddingGraphs",
  "ElementsOf",
  "Maybe",
  "Public",
  "ScalarOf",
];

/** A declaration of a typing. */
interface Declared {
  readonly name: string;
  readonly path: string;
  readonly kind: string;
  text: string;
}

interface Names {
  /** what each name of the file stands for */
  readonly local: Map<string, Declared>;
  readonly exported: Map<string, Declared>;
}

const files = new Map<string, Names>();

// Statements of a typing begin at the left edge.
function read(path: string): Names {
  const known = files.get(path);
  if (known !== undefined) return known;
  const names: Names = { local: new Map(), exported: new Map() };
  files.set(path, names);
  const text = readFileSync(path, "utf8").replace(/\/\*[^]*?\*\/|^\/\/.*$/gm, "");
  const statements = text.split(/^(?=(?:export|declare|import|interface|type|class|enum)\b)/m);
  for (const statement of statements) {
    const found =
      /^(export )?(?:declare )?(?:abstract )?(class|interface|type|function|const|enum) (\w+)/.exec(
        statement,
      );
    if (found === null) continue;
    const [, isExported, kind, name] = found as unknown as [string, string | undefined, string, string];
    const declared = names.local.get(name) ?? { name, path, kind, text: "" };
    declared.text += statement.replace(/^ *(private |protected )?constructor\([^]*?\);/gm, "");
    names.local.set(name, declared);
    if (isExported !== undefined) names.exported.set(name, declared);
  }
  for (const statement of statements) {
    const [, space, all] = /^import \* as (\w+) from "(\.[^"]+)"/.exec(statement) ?? [];
    if (all !== undefined)
      for (const [name, declared] of read(typing(path, all)).exported)
        names.local.set(`${space}.${name}`, declared);
    const [, verb, list, from] =
      /^(import|export) (?:type )?\{([^}]*)\}(?: from "(\.[^"]+)")?/.exec(statement) ?? [];
    for (const item of list?.split(",") ?? []) {
      const [name = "", as = name] = item
        .trim()
        .replace(/^type /, "")
        .split(" as ");
      const source = from === undefined ? names.local : read(typing(path, from)).exported;
      const declared = source.get(name);
      if (declared !== undefined) (verb === "import" ? names.local : names.exported).set(as, declared);
    }
  }
  return names;
}

function typing(from: string, to: string): string {
  return `${resolve(dirname(from), to).replace(/(\.d)?\.[jt]s$/, "")}.d.ts`;
}

/** Declarations that a text mentions, by name or as `space.Name`. */
function mentioned(text: string, local: Names["local"]): Declared[] {
  const names = [...text.matchAll(/(\w+)(?:\.\w+)?/g)];
  return names.flatMap(([whole, first]) => local.get(whole) ?? local.get(first!) ?? []);
}

/** What an entry exports, and what its signatures name: bases of classes and interfaces lend their members only. */
function surface(entry: string): { exported: Set<Declared>; named: Map<Declared, string> } {
  const exported = new Set(read(entry).exported.values());
  const named = new Map<Declared, string>();
  const shown = new Set(exported);
  for (const declared of shown) {
    const { local } = read(declared.path);
    const head = /^[^{]*\{/.exec(declared.text)?.[0] ?? "";
    const heritage = declared.kind === "class" || declared.kind === "interface" ? head : "";
    for (const base of mentioned(heritage, local)) shown.add(base);
    for (const other of mentioned(declared.text.slice(heritage.length), local))
      if (other !== declared && !["const", "function"].includes(other.kind)) named.set(other, declared.name);
  }
  return { exported, named };
}

const surfaces = ENTRIES.map((entry) => ({ ...entry, ...surface(entry.types) }));
const importable = new Set(surfaces.flatMap(({ exported }) => [...exported]));

describe.each(surfaces)("$name", ({ name, code, exported, named }) => {
  test("types that signatures name can be imported", () => {
    const missing = [...named].filter(([other]) => !importable.has(other) && !UNNAMED.includes(other.name));
    expect(missing.map(([other, by]) => `${other.name}, which ${by} names`)).toEqual([]);
  });

  test("so can the values: enumerations that signatures name, and errors", async () => {
    const all = (await import(code)) as Record<string, unknown>;
    const enums = [...named.keys(), ...exported].filter(({ kind }) => kind === "enum");
    const errors = ["DeviceError", "GraphError", ...(name === "./plan" ? [] : ["FormatError"])];
    expect(Object.keys(all)).toEqual(expect.arrayContaining([...enums.map((e) => e.name), ...errors]));
  });
});
