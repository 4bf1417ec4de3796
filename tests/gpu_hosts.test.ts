// The golden vectors on other implementations of WebGPU: Chromium (a page, a worker) and Deno, which compiles WGSL with
// another compiler and has f16 on Mesa's software Vulkan.
import { writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { build as esbuild } from "esbuild";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { dataDir, describeWith } from "./data.ts";
import type { Halves } from "./gpu_f16.ts";
import { goldenCases, goldenFiles, goldenFolder } from "./golden/file.ts";
import type { Report } from "./golden/tally.ts";
import { startWebGpuChromium } from "./hosts/chromium.ts";
import type { Browser } from "./hosts/browser.ts";
import type { PageResult } from "./hosts/gpu_page.ts";
import { CHROMIUM, itNeeds, PLAYWRIGHT, RUNTIMES } from "./hosts/host.ts";
import { runCommand } from "./hosts/process.ts";
import { type Server, startServer } from "./hosts/server.ts";

const ROOT = resolve(import.meta.dirname, "..");
const LIMIT_MS = 300_000;
/** A busy machine compiles slowly. */
const BROWSER_MS = 480_000;
const LAVAPIPE = process.env["LAVAPIPE"] ?? "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

/** What hosts/gpu_models.ts says. */
interface ModelsResult {
  readonly variants: readonly { readonly dispatches: number; readonly stray?: string }[];
  readonly loss: object;
  readonly unhandled: readonly string[];
}

/** What hosts/gpu_modules.ts says. */
interface ModulesResult {
  readonly modules: number;
  readonly withF16: number;
  readonly refused: readonly string[];
  readonly halves: Halves;
}

/** A bundle of a script of ours, as text. */
async function bundle(entry: string, platform: "browser" | "node"): Promise<string> {
  const { outputFiles } = await esbuild({
    entryPoints: [join(ROOT, "tests", entry)],
    bundle: true,
    write: false,
    format: "esm",
    platform,
    target: "es2022",
    packages: "external",
    loader: { ".wasm": "binary", ".txt": "text" },
  });
  return outputFiles[0]!.text;
}

function expectAllWell(report: Report | undefined, least: number): void {
  expect(report?.failures).toEqual([]);
  expect(report?.passed).toBeGreaterThan(least);
}

describeWith("golden", "golden vectors on WebGPU", () => {
  describe("Chromium", () => {
    let server: Server;
    let browser: Browser;

    beforeAll(async () => {
      const files = new Map<string, string | URL>([
        [
          "page.html",
          '<!doctype html><title>WebGPU</title><script type="module" src="gpu_page.js"></script>',
        ],
        ["gpu_page.js", await bundle("hosts/gpu_page.ts", "browser")],
        ["golden.json", JSON.stringify(goldenFiles())],
        ...goldenFiles().map((f): [string, URL] => [
          `golden/${f}`,
          new URL(`file://${join(goldenFolder(), f)}`),
        ]),
      ]);
      server = await startServer(files);
      browser = await startWebGpuChromium();
    });

    afterAll(async () => {
      await browser?.close();
      await server?.close();
    });

    // each begins where the one before ended
    let next = 0;
    for (const [where, part] of [
      ["page", "a fifth"],
      ["worker", "the rest"],
    ] as const) {
      itNeeds(
        [CHROMIUM, PLAYWRIGHT],
        `${part} of them pass in a ${where}`,
        async () => {
          const { line, others } = await browser.logged(
            `${server.origin}/plain/page.html?in=${where}`,
            "result ",
            BROWSER_MS,
          );
          const result = JSON.parse(line) as PageResult;
          expect(result).toMatchObject({
            adapter: expect.stringMatching(/swiftshader/i) as string,
            f16: false,
          });
          expect(result.stray).toBeUndefined();
          const [first, last, all] = result.ran!;
          expect([first, all]).toEqual([next, [...goldenCases()].length]);
          if (part === "the rest") expect(last).toBe(all);
          next = last;
          expectAllWell(result.report, 80);
          const { passed, notBuilt } = result.report!;
          expect(passed + notBuilt).toBe(last - first);
          expect(others.filter((o) => !o.startsWith("warning:"))).toEqual([]);
        },
        BROWSER_MS,
      );
    }
  });

  const deno = RUNTIMES.find((r) => r.name === "Deno")!;
  /** Runs a script of ours in Deno; what its last line says. */
  async function inDeno(entry: string, ...args: readonly string[]): Promise<unknown> {
    const script = join(ROOT, `build/deno_${basename(entry, ".ts")}.js`);
    await writeFile(script, await bundle(entry, "node"));
    const env = {
      VK_ICD_FILENAMES: LAVAPIPE,
      XDG_RUNTIME_DIR: "/tmp",
      NO_COLOR: "1",
      DENO_NO_UPDATE_CHECK: "1",
    };
    const line = ["run", "-A", "--no-prompt", script, ...args];
    const { code, stdout, stderr } = await runCommand(deno.command, line, {
      limitMs: LIMIT_MS,
      cwd: ROOT,
      env,
    });
    expect(code, `${stderr}${stdout.slice(-4000)}`).toBe(0);
    return JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "{}");
  }

  itNeeds(
    [deno.command, LAVAPIPE],
    "all pass in Deno, whose compiler is another and whose adapter has f16",
    async () => {
      expectAllWell((await inDeno("conformance.ts", "--backend", "webgpu", "--json")) as Report, 440);
    },
    LIMIT_MS,
  );

  itNeeds(
    [deno.command, LAVAPIPE],
    "products pass in Deno without f16",
    async () => {
      const only = ["--without", "f16", "--only", "MM"];
      expectAllWell((await inDeno("conformance.ts", "--backend", "webgpu", "--json", ...only)) as Report, 30);
    },
    LIMIT_MS,
  );

  itNeeds(
    [deno.command, LAVAPIPE, dataDir("models")],
    "a model agrees with the CPU in Deno in all its types, with f16 and with the least that devices have, and outlives its device",
    async () => {
      const { variants, loss, unhandled } = (await inDeno(
        "hosts/gpu_models.ts",
        dataDir("models"),
      )) as ModelsResult;
      const well = { found: [], liveBytes: 0 };
      const least = { f16: false, subgroups: false, binding: 2 ** 27 };
      expect(variants).toMatchObject([
        { ...well, f16: true },
        { ...well, ...least },
      ]);
      for (const { dispatches, stray } of variants) {
        expect(dispatches).toBeGreaterThan(1000);
        expect(stray).toBeUndefined();
      }
      expect(loss).toEqual({ code: "device-lost", same: [true, true], again: true, liveBytes: [0, 0] });
      expect(unhandled).toEqual([]);
    },
    LIMIT_MS,
  );

  itNeeds(
    [deno.command, LAVAPIPE],
    "random graphs, some of their nodes on the CPU, give the CPU's results in Deno",
    async () => {
      const said = (await inDeno("hosts/gpu_graphs.ts")) as { results: number; apart: readonly string[] };
      expect(said.apart).toEqual([]);
      expect(said.results).toBeGreaterThan(300);
    },
    LIMIT_MS,
  );

  itNeeds(
    [deno.command, LAVAPIPE],
    "every shader module compiles in Deno, and kernels with f16 agree with double precision or are replaced",
    async () => {
      const { modules, withF16, refused, halves } = (await inDeno("hosts/gpu_modules.ts")) as ModulesResult;
      expect(refused).toEqual([]);
      expect(modules).toBeGreaterThan(300);
      expect(halves.apart).toEqual([]);
      const labels = ["mul_mat", "mul_mat_id"].flatMap((op) => [
        `${op} Q4_K x F32 tile32 f16`,
        `${op} Q4_K x F32 tile64 f16`,
      ]);
      expect(halves.kernels).toEqual(expect.arrayContaining(labels));
      expect(halves.kernels.length).toBeGreaterThan(50);
      expect(withF16).toBeGreaterThanOrEqual(halves.kernels.length);
      expect(halves.refused).toEqual(["mul_mat Q4_K x F32 tile32 f16", "mul_mat_id Q4_K x F32 tile32 f16"]);
      expect(halves.goesOn).toBe(true);
    },
    LIMIT_MS,
  );
});
