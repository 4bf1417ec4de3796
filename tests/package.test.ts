// The package as npm would publish it: what it holds, that it installs and runs, that its typings hold.
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { itNeeds } from "./hosts/host.ts";
import { type Ended, runCommand } from "./hosts/process.ts";

const ROOT = resolve(import.meta.dirname, "..");
const TOOLS = join(ROOT, ".ci/tools/node_modules");
const LIMIT_MS = 120_000;

/** Surroundings of a program: types of Node without the DOM's, those of pages, those of workers. */
const NODE = { module: "nodenext", moduleResolution: "nodenext", lib: [], types: ["node"] };
const PAGE = { module: "esnext", moduleResolution: "bundler", lib: ["dom"], types: [] };
const WORKER = { ...PAGE, lib: ["webworker"] };
const compilerOf = (modules: string): string => join(ROOT, modules, "bin/tsc");
const COMPILERS = [
  {
    version: "5.9",
    compiler: compilerOf("tests/hosts/node_modules/typescript-5"),
    surroundings: [NODE, PAGE],
  },
  {
    version: "6.0",
    compiler: compilerOf("tests/hosts/node_modules/typescript-6"),
    surroundings: [NODE, PAGE],
  },
  { version: "7.0", compiler: compilerOf("node_modules/typescript"), surroundings: [NODE, PAGE, WORKER] },
];

/** What `npm pack --json` says. */
interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

// A script run by npm hands its own settings down; the commands here are a user's.
const scriptVariables = Object.keys(process.env).filter((k) =>
  /^npm_(lifecycle|package|command|config_local_prefix)/.test(k),
);
const USER_ENV = {
  ...Object.fromEntries(scriptVariables.map((k) => [k, undefined])),
  NO_COLOR: "1",
  FORCE_COLOR: undefined,
};

function run(command: string, args: readonly string[], cwd: string): Promise<Ended> {
  return runCommand(command, args, { limitMs: LIMIT_MS, cwd, env: USER_ENV });
}

/** Output of a command that must succeed. */
async function output(command: string, args: readonly string[], cwd: string): Promise<string> {
  const ended = await run(command, args, cwd);
  if (ended.code !== 0)
    throw new Error(`${command} ${args.join(" ")}: ${ended.code}\n${ended.stdout}\n${ended.stderr}`);
  return ended.stdout;
}

describe("the package", () => {
  let folder = "";
  let packed: Packed;
  let tarball = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "slackwater-package-"));
    const text = await output(
      "npm",
      ["pack", "--json", "--ignore-scripts", "--pack-destination", folder],
      ROOT,
    );
    packed = (JSON.parse(text) as Packed[])[0]!;
    tarball = join(folder, packed.filename);
    await mkdir(join(folder, "user"));
    await writeFile(
      join(folder, "user/package.json"),
      JSON.stringify({ name: "user", private: true, type: "module" }),
    );
    await output(
      "npm",
      ["install", "--no-audit", "--no-fund", "--no-package-lock", tarball],
      join(folder, "user"),
    );
  }, 2 * LIMIT_MS);

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const user = (): string => join(folder, "user");

  it("holds the built files, the model and the papers, and nothing else", () => {
    const kinds = new Set(packed.files.map((f) => f.path.replace(/^dist\/.*/, "dist/")));
    expect(
      [...kinds].filter((k) => !/^examples\/(.*\/)?README.md$/.test(k) && !k.endsWith(".gguf")).sort(),
    ).toEqual(["CHANGELOG.md", "LICENSE", "README.md", "dist/", "package.json"].sort());
    expect(packed.files.filter((f) => f.path.endsWith(".gguf"))).toHaveLength(1);
    // The model takes a third of it; the code is there as modules, as a worker's script (deflated), and for a script tag.
    expect(packed.unpackedSize).toBeLessThan(2_700_000);
  });

  it("runs nothing at install and brings nothing along; its script is where content networks look", () => {
    const manifest = JSON.parse(
      readFileSync(join(user(), "node_modules/slackwater/package.json"), "utf8"),
    ) as {
      scripts?: Record<string, string>;
      dependencies?: Record<string, string>;
      exports: Record<string, string | Record<string, string>>;
      unpkg: string;
      jsdelivr: string;
    };
    const hooks = ["preinstall", "install", "postinstall", "prepare"];
    expect(hooks.filter((h) => manifest.scripts?.[h] !== undefined)).toEqual([]);
    const installed = readdirSync(join(user(), "node_modules")).filter((n) => !n.startsWith("."));
    expect(installed).toEqual(["slackwater"]);
    expect(manifest.dependencies ?? {}).toEqual({});
    const entries = Object.values(manifest.exports).flatMap((e) =>
      typeof e === "string" ? [e] : Object.values(e),
    );
    const paths = [...entries, manifest.unpkg, manifest.jsdelivr];
    const held = new Set(packed.files.map((f) => `./${f.path}`));
    expect(paths.filter((p) => !held.has(p))).toEqual([]);
  });

  it(
    "prints its version with npx",
    async () => {
      const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
      for (const flag of ["--version", "-v"])
        expect(await output("npx", ["--no-install", "slackwater", flag], user())).toBe(`${version}\n`);
    },
    LIMIT_MS,
  );

  it(
    "tells a story with npx in an empty folder",
    async () => {
      const args = ["--no-install", "slackwater", "run", "-n", "20", "--temp", "0"];
      const story = await output("npx", args, user());
      expect(story.startsWith("Once upon a time")).toBe(true);
      expect(story.trim().split(/\s+/).length).toBeGreaterThan(10);
      const json = (await output("npx", [...args, "--json"], user())).trimEnd().split("\n").at(-1)!;
      const result = JSON.parse(json) as { tokens: number[]; text: string; stopReason: string };
      expect(result.tokens).toHaveLength(20);
      expect(result.stopReason).toBe("limit");
      expect(story).toContain(result.text);
    },
    LIMIT_MS,
  );

  it(
    "is imported and required by name",
    async () => {
      const names = ["slackwater", "slackwater/llm", "slackwater/gguf", "slackwater/plan"];
      const print =
        "console.log(all.map((m) => typeof (m.createEngine ?? m.loadModel ?? m.openGguf ?? m.createPlanner)).join())";
      const esm = `const all = await Promise.all(${JSON.stringify(names)}.map((n) => import(n))); ${print}`;
      const cjs = `const all = ${JSON.stringify(names)}.map((n) => require(n)); ${print}`;
      for (const [type, code] of [
        ["module", esm],
        ["commonjs", cjs],
      ] as const) {
        const args = ["--no-warnings", `--input-type=${type}`, "--eval", code];
        expect((await output(process.execPath, args, user())).trim(), type).toBe(
          "function,function,function,function",
        );
      }
      const file = `import { readFileSync } from "node:fs"; import { createRequire } from "node:module";
      console.log(WebAssembly.validate(readFileSync(createRequire(process.cwd() + "/x.js").resolve("slackwater/core.wasm"))))`;
      expect((await output(process.execPath, ["--input-type=module", "--eval", file], user())).trim()).toBe(
        "true",
      );
    },
    LIMIT_MS,
  );

  for (const { version, compiler, surroundings } of COMPILERS) {
    for (const { module, moduleResolution, lib, types } of surroundings) {
      itNeeds(
        [compiler],
        `typings hold in TypeScript ${version} for a strict user with ${[...lib, ...types].join()} (${moduleResolution})`,
        async () => {
          const compilerOptions = {
            target: "es2022",
            module,
            moduleResolution,
            lib: ["es2023", ...lib],
            types,
            typeRoots: [join(ROOT, "node_modules/@types")],
            strict: true,
            exactOptionalPropertyTypes: true,
            noUncheckedIndexedAccess: true,
            skipLibCheck: false,
            noEmit: true,
          };
          const config = join(user(), "tsconfig.json");
          await writeFile(config, JSON.stringify({ compilerOptions, files: ["user.ts"] }));
          await writeFile(join(user(), "user.ts"), USER_PROGRAM);
          const ended = await run(process.execPath, [compiler, "-p", config], user());
          expect(ended).toMatchObject({ stdout: "", code: 0 });
        },
        LIMIT_MS,
      );
    }
  }

  itNeeds(
    [join(TOOLS, "publint")],
    "publint finds nothing to mend",
    async () => {
      const ended = await run(
        process.execPath,
        [join(TOOLS, "publint/src/cli.js"), "run", tarball, "--strict"],
        folder,
      );
      expect(ended, ended.stdout).toMatchObject({ code: 0 });
    },
    LIMIT_MS,
  );

  itNeeds(
    [join(TOOLS, "@arethetypeswrong/cli")],
    "types resolve as modules do",
    async () => {
      const files = ["./worker", "./core.wasm"];
      const args = [
        tarball,
        "--profile",
        "esm-only",
        "--no-emoji",
        "--no-color",
        "--exclude-entrypoints",
        ...files,
      ];
      const ended = await run(
        process.execPath,
        [join(TOOLS, "@arethetypeswrong/cli/dist/index.js"), ...args],
        folder,
      );
      expect(ended, ended.stdout).toMatchObject({ code: 0 });
    },
    LIMIT_MS,
  );
});

const USER_PROGRAM = `
import { createEngine, Type } from "slackwater";
import { loadModel } from "slackwater/llm";
import * as gguf from "slackwater/gguf";
import { createPlanner, type PlanReport } from "slackwater/plan";

export async function softMax(samples: Float32Array): Promise<number> {
  using engine = await createEngine({ nThreads: 1 });
  const g = engine.graph();
  const x = g.input("x", Type.F32, [64, 4]);
  const w = g.weight("w", Type.Q8_0, [64, 32]);
  const y = g.softMax(g.mulMat(w, x)).asOutput("y");
  const plan = g.plan();
  x.write(samples);
  await g.compute();
  const values = await y.read();
  return plan.nBytes + Number(values[0] ?? 0);
}

export async function story(source: string | URL | Blob | ArrayBuffer, signal: AbortSignal): Promise<string> {
  await using model = await loadModel(source, { signal, onProgress: ({ loaded, total }) => void (loaded / total) });
  let story = "";
  for await (const text of model.generate("Once upon a time", { maxTokens: 80, temperature: 0 })) story += text;
  // @ts-expect-error a misspelt option
  await loadModel(source, { nThread: 2 });
  // @ts-expect-error a type that no tensor has
  Type.Q9_0;
  return story;
}

export async function pack(): Promise<[PlanReport, string]> {
  using planner = await createPlanner();
  const plan = planner.planBuffers([{ name: "a", lower: 0, upper: 2, size: 100, alignment: 32 }], { maxChunk: 4096 });
  return [plan.report(), plan.toSVG()];
}

export const names: string[] = Object.keys(gguf);
`;
