// The same generation, embeddings and chat on every runtime and in two headless browsers, from the built package.
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build as esbuild, type BuildOptions } from "esbuild";
import { build as vite } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dataDir, describeWith } from "./data.ts";
import type { Browser } from "./hosts/browser.ts";
import { startChromium } from "./hosts/chromium.ts";
import { startFirefox } from "./hosts/firefox.ts";
import { CHROMIUM, FIREFOX, itNeeds, PLAYWRIGHT, PUPPETEER, type Runtime, RUNTIMES } from "./hosts/host.ts";
import { type Ended, runCommand } from "./hosts/process.ts";
import { type Server, startServer } from "./hosts/server.ts";
import { HostTask, type Result, type Row } from "./hosts/task.ts";

const ROOT = resolve(import.meta.dirname, "..");
const HOSTS = join(ROOT, "tests/hosts");
const LIMIT_MS = 60_000;
const TEST_MS = 2 * LIMIT_MS;

// As the scripts of package.json bundle what imports the sources.
const LOADER = { ".wasm": "binary", ".txt": "text" } as const;

/** What tests/hosts/vector_bits.ts prints. */
interface VectorRun {
  readonly vectors: number;
  readonly build: string;
  /** digests by name */
  readonly results: Readonly<Record<string, string>>;
}

/** Those results that are products of floats, or may be: the relaxed build fuses these. */
const FLOATS = /^(F32|F16|BF16|graph) |-f(32|16)\.gguf$/;

const BROWSERS = [
  { name: "Chromium", needs: [CHROMIUM, PLAYWRIGHT], start: startChromium },
  { name: "Firefox", needs: [FIREFOX, PUPPETEER], start: startFirefox },
];

describeWith("models", "generation, embeddings and chat", () => {
  let host: HostTask;
  beforeAll(async () => {
    host = await HostTask.make();
    return () => host.close();
  });

  describe("runtimes", () => {
    const sources = [
      { name: "f32", source: "path" },
      { name: "f16", source: "path" },
      { name: "f32", source: "buffer" },
    ];

    async function run(runtime: Runtime, script: string, change: object = {}): Promise<Ended> {
      const task = { ...host.task(sources), files: host.files, nThreads: 2, ...change };
      const env = { NODE_OPTIONS: "", NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1" };
      const options = { limitMs: LIMIT_MS, cwd: ROOT, env };
      return runCommand(runtime.command, [...runtime.args, script, JSON.stringify(task)], options);
    }

    /** The result of a process that ended well by itself and said nothing else. */
    function resultOf(ended: Ended): Result {
      expect(ended).toMatchObject({ code: 0, timedOut: false, stderr: "" });
      const lines = ended.stdout.trimEnd().split("\n");
      expect(lines).toHaveLength(1);
      return JSON.parse(lines[0]!) as Result;
    }

    const newest = RUNTIMES.find((r) => r.name === "Node 26")!;
    itNeeds(
      [newest.command],
      "Node 26, which has relaxed SIMD, passes the tests of operators and products in both builds",
      async () => {
        const files = ["ops", "mul_mat", "flash_attn_ext", "quants", "quads"].map(
          (f) => `tests/${f}.test.ts`,
        );
        const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
        const args = [vitest, "run", "--config", "tests/vitest.config.ts", "--reporter", "json", ...files];
        const env = { NODE_OPTIONS: "", NO_COLOR: "1", TEST_REPORT: undefined };
        const ended = await runCommand(newest.command, args, { limitMs: 2 * LIMIT_MS, cwd: ROOT, env });
        const report = JSON.parse(ended.stdout.slice(ended.stdout.indexOf("{"))) as Record<string, number>;
        expect(report).toMatchObject({ numFailedTests: 0, numPendingTests: 0 });
        expect(report["numPassedTests"]).toBeGreaterThan(1000);
      },
      3 * LIMIT_MS,
    );

    describe("vectors of 256 bits", () => {
      let script: string;
      beforeAll(async () => {
        script = join(ROOT, "build/vector_bits.js");
        const entry = join(HOSTS, "vector_bits.ts");
        const common = { format: "esm", platform: "node", target: "es2022" } as const;
        await bundle({ entryPoints: [entry], outfile: script, loader: LOADER, ...common });
      });

      // Optimised from the first call on, as all code is that the pass sees.
      async function resultsOf(build: string, bits: number): Promise<Ended> {
        const args = [
          "--no-liftoff",
          "--trace-wasm-revectorize",
          script,
          build,
          String(bits),
          dataDir("models"),
        ];
        return runCommand(newest.command, args, { limitMs: LIMIT_MS, cwd: ROOT, env: { NODE_OPTIONS: "" } });
      }

      itNeeds(
        [newest.command],
        "products of all types, random graphs and models keep their bits in Node 26; blocks have them in both builds",
        async () => {
          const seen: VectorRun[] = [];
          for (const build of ["relaxed", "simd"]) {
            for (const bits of [128, 256]) {
              const { code, stdout } = await resultsOf(build, bits);
              expect(code).toBe(0);
              const said = JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as VectorRun;
              expect(said).toMatchObject({ build, vectors: bits });
              // the pass is at work only when it is asked for
              if (bits === 128) expect(stdout).not.toContain("Revec");
              else expect(stdout.match(/Decided? to vectorize/g)?.length).toBeGreaterThan(10);
              seen.push(said);
            }
          }
          const names = Object.keys(seen[0]!.results);
          expect(names.length).toBeGreaterThan(1500);
          expect(names.filter((name) => name.endsWith(".gguf")).length).toBeGreaterThan(3);
          for (const { results, build } of seen) {
            expect(results).toEqual(seen.find((s) => s.build === build)!.results);
          }
          const blocks = names.filter((name) => !FLOATS.test(name));
          expect(blocks.length).toBeGreaterThan(600);
          const [relaxed, simd] = [seen[0]!.results, seen.at(-1)!.results];
          for (const name of blocks) expect(relaxed[name], name).toBe(simd[name]);
        },
        3 * LIMIT_MS,
      );
    });

    for (const runtime of RUNTIMES) {
      const needs = [runtime.command];
      const program = join(HOSTS, "command.mjs");

      itNeeds(
        needs,
        `${runtime.name} tells the reference's stories, embeds and chats with two threads, quietly, and ends`,
        async () => {
          const result = resultOf(await run(runtime, program));
          host.expectResult(result, sources);
          for (const row of result.generations)
            expect(row).toMatchObject({ nThreads: 2, notices: [], build: runtime.build });
        },
        TEST_MS,
      );

      itNeeds(
        needs,
        `${runtime.name} ends by itself although nothing was disposed`,
        async () => {
          const change = { keep: true, prompts: host.task(sources).prompts.slice(0, 1) };
          const { generations } = resultOf(await run(runtime, program, change));
          expect(generations).toHaveLength(sources.length);
        },
        TEST_MS,
      );
    }

    it(
      "a CommonJS bundle made by esbuild runs in Node",
      async () => {
        const out = await mkdtemp(join(tmpdir(), "slackwater-cjs-"));
        try {
          const script = join(out, "bundle.cjs");
          await bundle({
            entryPoints: [join(HOSTS, "command.mjs")],
            format: "cjs",
            platform: "node",
            outfile: script,
          });
          host.expectResult(resultOf(await run(RUNTIMES[0]!, script)), sources);
        } finally {
          await rm(out, { recursive: true, force: true });
        }
      },
      TEST_MS,
    );
  });

  describe.each(BROWSERS)("$name", ({ name, needs, start }) => {
    const sources = [
      { name: "f32", source: "url" },
      { name: "f16", source: "blob" },
      { name: "f32", source: "buffer" },
    ];
    let server: Server | undefined;
    let browser: Browser | undefined;

    beforeAll(async () => {
      if (!needs.every((p) => existsSync(p)) && process.env["CI"] !== "true") return;
      const script = await pageScript();
      const files: [string, string | URL][] = [
        ["page.html", '<!doctype html><script type="module" src="page.js"></script>'],
        ["page.js", script],
        ["vite.html", '<!doctype html><script type="module" src="vite.js"></script>'],
        ...(await viteScripts()),
        ["worker.js", pathToFileURL(join(ROOT, "dist/worker.js"))],
        ["task.json", JSON.stringify(host.task(sources))],
        ...Object.entries(host.files).map(([name, path]): [string, URL] => [
          `models/${name}.gguf`,
          pathToFileURL(path),
        ]),
      ];
      server = await startServer(new Map(files));
      browser = await start();
    }, LIMIT_MS);

    afterAll(async () => {
      await browser?.close();
      await server?.close();
    });

    async function rowsOf(address: string): Promise<{ rows: readonly Row[]; others: readonly string[] }> {
      const { line, others } = await browser!.logged(`${server!.origin}/${address}`, "result ", LIMIT_MS);
      const result = JSON.parse(line) as Result | { error: string };
      if ("error" in result) throw new Error(`${address}: ${result.error}`);
      host.expectResult(result, sources);
      return { rows: result.generations, others };
    }

    itNeeds(
      needs,
      "an isolated page computes with two threads",
      async () => {
        const { rows, others } = await rowsOf("isolated/page.html?nThreads=2");
        for (const row of rows) expect(row).toMatchObject({ nThreads: 2, notices: [], build: "relaxed" });
        expect(others).toEqual([]);
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a page that is not isolated computes with one thread and says so once",
      async () => {
        const { rows, others } = await rowsOf("plain/page.html?nThreads=2");
        for (const row of rows)
          expect(row).toMatchObject({ nThreads: 1, notices: [expect.stringContaining("isolated")] });
        expect(others).toEqual([]);
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a bundle made by vite computes in a page",
      async () => {
        const { rows } = await rowsOf("isolated/vite.html?nThreads=2");
        for (const row of rows) expect(row).toMatchObject({ nThreads: 2, notices: [] });
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a dedicated worker of an isolated page computes with two threads, in Firefox with one",
      async () => {
        const { rows } = await rowsOf("isolated/page.html?nThreads=2&in=worker");
        const expected =
          name === "Firefox"
            ? { nThreads: 1, notices: [expect.stringContaining("wait for them forever")] }
            : { nThreads: 2, notices: [] };
        for (const row of rows) expect(row).toMatchObject(expected);
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a dedicated worker of a page that is not isolated computes with one thread and says so once",
      async () => {
        const { rows } = await rowsOf("plain/page.html?nThreads=2&in=worker");
        for (const row of rows)
          expect(row).toMatchObject({ nThreads: 1, notices: [expect.stringContaining("isolated")] });
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a policy that blocks blob workers leaves one thread and one notice",
      async () => {
        const { rows } = await rowsOf("strict/page.html?nThreads=2");
        for (const row of rows)
          expect(row).toMatchObject({ nThreads: 1, notices: [expect.stringMatching(/worker/)] });
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "under that policy a worker file of the site's own brings the threads back",
      async () => {
        const { rows } = await rowsOf("strict/page.html?nThreads=2&workerUrl=worker.js");
        // The model itself stays in the page.
        for (const row of rows)
          expect(row).toMatchObject({ nThreads: 2, notices: [expect.stringMatching(/in the page itself$/)] });
      },
      TEST_MS,
    );

    itNeeds(
      needs,
      "a policy that forbids wasm is a typed error that names the missing word",
      async () => {
        const blocked = /^closed.*: DeviceError wasm-blocked: .*'wasm-unsafe-eval'/;
        await expect(rowsOf("closed/page.html?nThreads=1")).rejects.toThrow(blocked);
      },
      TEST_MS,
    );
  });

  async function bundle(options: BuildOptions): Promise<string> {
    // hidden by esbuild too when the package lies in node_modules
    const logOverride = { "ignored-bare-import": "silent" as const };
    const result = await esbuild({ bundle: true, logLevel: "silent", logOverride, ...options });
    expect(result.warnings).toEqual([]);
    return result.outputFiles?.[0]?.text ?? "";
  }

  function pageScript(): Promise<string> {
    return bundle({
      entryPoints: [join(HOSTS, "page.mjs")],
      format: "esm",
      platform: "browser",
      write: false,
    });
  }

  /** Names and texts of what vite makes of the page's script; the first is `vite.js`. */
  async function viteScripts(): Promise<[string, string][]> {
    const out = await mkdtemp(join(tmpdir(), "slackwater-vite-"));
    try {
      const lib = { entry: join(HOSTS, "page.mjs"), formats: ["es" as const], fileName: "vite" };
      const built = await vite({
        root: HOSTS,
        configFile: false,
        logLevel: "silent",
        publicDir: false,
        build: { lib, write: false, outDir: out, minify: true },
      });
      const output = [built].flat().flatMap((b) => ("output" in b ? b.output : []));
      return output.map((o) => [o.fileName, o.type === "chunk" ? o.code : o.source.toString()]);
    } finally {
      await rm(out, { recursive: true, force: true });
    }
  }
});
