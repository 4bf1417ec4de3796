// The package as JSR gets it: accepted by `deno publish`, and imported by name in Deno. Needs build/; no network.
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dataDir } from "./data.ts";
import { itNeeds, RUNTIMES } from "./hosts/host.ts";
import { type Ended, runCommand } from "./hosts/process.ts";

const DENO = RUNTIMES.find((r) => r.name === "Deno")!.command;
const LIMIT_MS = 120_000;
const PACKAGE = "jsr:@slackwater/slackwater";

const PROGRAM = `
import { createEngine, type Engine, Type } from "${PACKAGE}";
import { parseGguf } from "${PACKAGE}/gguf";
import { loadModel, type Model } from "${PACKAGE}/llm";
import { createPlanner } from "${PACKAGE}/plan";

using engine: Engine = await createEngine({ device: "cpu", nThreads: 1 });
using planner = await createPlanner();
const plan = planner.planBuffers([{ lower: 0, upper: 1, size: 64 }]);
const options = { device: "cpu", nThreads: 2, chatTemplate: "{{ messages[0].content }}" } as const;
await using model: Model = await loadModel(Deno.args[0]!, options);
const story = await model.complete("Once upon a time", { maxTokens: 5, temperature: 0 });
const messages = [{ role: "user", content: "Once upon a time" }] as const;
const answer = await model.chat.completions.create({ messages, max_tokens: 5, temperature: 0 });
console.log(JSON.stringify({
  told: story.text === answer.choices[0].message.content && story.text,
  nThreads: [engine.nThreads, model.engine.nThreads],
  others: [typeof parseGguf, Type.F32, plan.peak],
}));
`;

describe("the package for JSR", () => {
  let folder = "";
  let files: string[] = [];
  const tree = (): string => join(folder, "tree");

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "slackwater-jsr-"));
    const script = await runCommand(process.execPath, [".ci/package/jsr.mjs", tree()], { limitMs: LIMIT_MS });
    expect(script).toMatchObject({ code: 0, stderr: "" });
    const entries = await readdir(tree(), { recursive: true, withFileTypes: true });
    files = entries.filter((e) => e.isFile()).map((e) => join(e.parentPath, e.name));
    for (const at of [tree(), folder]) await install(at);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** The one dependency, where Deno finds it without asking a registry. */
  async function install(at: string): Promise<void> {
    const name = "@huggingface/jinja";
    const { devDependencies } = JSON.parse(await readFile("package.json", "utf8")) as {
      devDependencies: Record<string, string>;
    };
    await writeFile(
      join(at, "package.json"),
      JSON.stringify({ dependencies: { [name]: devDependencies[name] } }),
    );
    await mkdir(join(at, "node_modules/@huggingface"), { recursive: true });
    await symlink(resolve("node_modules", name), join(at, "node_modules", name));
  }

  function deno(args: readonly string[], cwd: string): Promise<Ended> {
    const proxy = "http://127.0.0.1:9"; // nobody answers there
    const env = {
      NO_COLOR: "1",
      DENO_NO_UPDATE_CHECK: "1",
      DENO_DIR: join(folder, "deno"),
      HTTPS_PROXY: proxy,
      HTTP_PROXY: proxy,
      CI: undefined,
    };
    return runCommand(DENO, args, { limitMs: LIMIT_MS, cwd, env });
  }

  it("has the version and the entries of the package for npm", async () => {
    const read = async (path: string): Promise<Record<string, unknown>> =>
      JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>;
    const [npm, jsr] = [await read("package.json"), await read(join(tree(), "deno.json"))];
    expect(jsr).toMatchObject({ version: npm["version"], license: npm["license"] });
    const typed = Object.entries(npm["exports"] as object).filter(([, to]) => typeof to === "object");
    expect(Object.keys(jsr["exports"] as object)).toEqual(typed.map(([name]) => name));
  });

  itNeeds(
    [DENO],
    "publishing would succeed: types check, none is slow, every module is there",
    async () => {
      const { code, stderr } = await deno(
        ["publish", "--dry-run", "--allow-dirty", "--no-provenance"],
        tree(),
      );
      expect(code, stderr).toBe(0);
      expect(stderr).toContain("Checking for slow types");
      expect(stderr).toContain("Success Dry run complete");
      // the one import that must not be followed: an adapter for Node, by a name that the caller may have installed
      const complaints = [...stderr.matchAll(/^(?:error|warning)\[[\w-]+\].*\n *--> .*?(\w+\/\w+\.ts)/gm)];
      expect(complaints.map(([, path]) => path).filter((path) => path !== "webgpu/device.ts")).toEqual([]);
      for (const path of files) expect(stderr, path).toContain(path);
    },
    LIMIT_MS,
  );

  itNeeds(
    [DENO, dataDir("models")],
    "Deno checks and runs a program that imports it by name",
    async () => {
      const user = join(folder, "main.ts");
      await writeFile(user, PROGRAM);
      await writeFile(join(folder, "deno.json"), JSON.stringify({ links: [tree()] }));
      const model = join(dataDir("models"), "stories260K/stories260K-f32.gguf");
      const ended = await deno(
        ["run", "--check", "--quiet", "--allow-read", "--no-prompt", user, model],
        folder,
      );
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      expect(JSON.parse(ended.stdout)).toEqual({
        told: expect.stringMatching(/^, there/) as unknown,
        nThreads: [1, 2],
        others: ["function", 0, 64],
      });
    },
    LIMIT_MS,
  );
});
