// Models in workers of their own: the same as on the spot, in Node and in Chromium.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "./hosts/browser.ts";
import { startChromium } from "./hosts/chromium.ts";
import { CHROMIUM, itNeeds, PLAYWRIGHT } from "./hosts/host.ts";
import { runCommand } from "./hosts/process.ts";
import { type Server, startServer } from "./hosts/server.ts";

const ROOT = resolve(import.meta.dirname, "..");
const HOSTS = join(ROOT, "tests/hosts");
const MODEL = join(ROOT, "examples/demo-model/slackwater-stories.gguf");
const NEEDS = [CHROMIUM, PLAYWRIGHT];
const LIMIT_MS = 60_000;

type Outcomes = Record<string, Record<string, unknown>>;

/** Plays all scenes in a process of Node's; `worker` as `loadModel` takes it. */
async function playInNode(worker: boolean): Promise<Outcomes> {
  const program = `
    import * as core from ${JSON.stringify(join(ROOT, "dist/index.js"))};
    import * as llm from ${JSON.stringify(join(ROOT, "dist/llm.js"))};
    import { playAll } from ${JSON.stringify(join(HOSTS, "worker_scenes.mjs"))};
    const lib = { ...core, ...llm };
    const fixed = { nThreads: 1, chatTemplate: "chatml", worker: ${worker} };
    const make = (options, input = ${JSON.stringify(MODEL)}) => lib.loadModel(input, { ...fixed, ...options });
    console.log(JSON.stringify(await playAll(lib, make)));`;
  const args = ["--no-warnings", "--input-type=module", "--eval", program];
  const ended = await runCommand(process.execPath, args, { limitMs: LIMIT_MS });
  expect(ended).toMatchObject({ code: 0, timedOut: false, stderr: "" });
  return JSON.parse(ended.stdout) as Outcomes;
}

describe("a model in a worker", () => {
  let here: Outcomes;

  beforeAll(async () => {
    here = await playInNode(false);
  }, LIMIT_MS);

  /** What must differ: this thread is free meanwhile, and what would have to answer at once is refused. */
  function expectAsHere(outcomes: Outcomes): void {
    const error = (code: string, message: RegExp): object => ({
      class: "GraphError",
      code,
      message: expect.stringMatching(message) as string,
      details: expect.anything() as object,
    });
    const there = structuredClone(here);
    there["story"]!["ticked"] = true;
    there["errors"]!["logits"] = error("unsupported", /^complete: onLogits .* worker: false$/);
    there["errors"]!["unsendable"] = error("bad-param", /cannot be sent/);
    there["two"]!["asked"] = error("disposed", /disposed/);
    expect(outcomes).toEqual(there);
  }

  it("tells whole stories here, the standard for all others", () => {
    expect(here["story"]).toMatchObject({ told: true, manyParts: true, stopReason: "limit", nLogprobs: 64 });
    expect(here["story"]!["joined"]).toBe(here["story"]!["text"]);
    expect(here["chat"]).toMatchObject({ cached: true, lines: true, joined: here["chat"]!["content"] });
    expect(here["contexts"]).toMatchObject({ same: true, both: true, restored: 12, memoryBack: true });
    expect(here["abort"]).toMatchObject({
      cut: { stopReason: "abort", some: true },
      embed: true,
      chat: true,
    });
    expect(here["loading"]).toMatchObject({ whole: true, aborted: true, bad: { class: "FormatError" } });
    expect(here["disposing"]).toMatchObject({ run: { code: "disposed" } });
  });

  it(
    "does all that it does here in Node, with the same bits and the same errors, and the process ends by itself",
    async () => {
      expectAsHere(await playInNode(true));
    },
    LIMIT_MS,
  );

  describe("in Chromium", () => {
    let browser: Browser | undefined;
    let server: Server | undefined;

    beforeAll(async () => {
      if (!NEEDS.every((p) => existsSync(p)) && process.env["CI"] !== "true") return;
      const script = async (name: string): Promise<string> => {
        const entryPoints = [join(HOSTS, name)];
        const format = name.startsWith("own") ? "iife" : "esm";
        const options = { entryPoints, format, bundle: true, write: false, logLevel: "silent" } as const;
        return (await build(options)).outputFiles[0]!.text;
      };
      const html = '<!doctype html><meta charset="utf-8"><script type="module" src="page.js"></script>';
      server = await startServer(
        new Map<string, string | URL>([
          ["page.html", html],
          ["page.js", await script("worker_page.mjs")],
          ["own.js", await script("own_worker.mjs")],
          ["model.gguf", pathToFileURL(MODEL)],
        ]),
      );
      browser = await startChromium();
    }, LIMIT_MS);

    afterAll(async () => {
      await browser?.close();
      await server?.close();
    });

    async function play(
      mode: string,
      name: string,
    ): Promise<{ outcome: Outcomes; others: readonly string[] }> {
      const address = `${server!.origin}/${mode}/page.html?play=${name}`;
      const { line, others } = await browser!.logged(address, "outcome ", LIMIT_MS);
      const outcome = JSON.parse(line) as Outcomes;
      expect(outcome["error"]).toBeUndefined();
      return { outcome, others };
    }

    for (const mode of ["plain", "isolated"]) {
      itNeeds(
        NEEDS,
        `does all that it does in Node, with the same bits and the same errors, while the page computes nothing (${mode})`,
        async () => {
          const { outcome, others } = await play(mode, "scenes");
          const { workers, compiled, ...scenes } = outcome;
          expect({ compiled, others }).toEqual({ compiled: 0, others: [] });
          expect(workers).toBeGreaterThan(1);
          expectAsHere(scenes);
        },
        LIMIT_MS,
      );
    }

    itNeeds(
      NEEDS,
      "takes paths, addresses, Blobs, file handles and bytes, which stay with the page",
      async () => {
        const { texts, bytesKept, workers, compiled } = (await play("plain", "sources")).outcome;
        const told = Object.entries(texts!);
        expect(told.map(([name]) => name)).toEqual([
          "path",
          "url",
          "blobUrl",
          "file",
          "handle",
          "bytes",
          "view",
        ]);
        expect(new Set(told.map(([, text]) => text)).size).toBe(1);
        expect({ bytesKept, workers, compiled }).toEqual({
          bytesKept: true,
          workers: told.length,
          compiled: 0,
        });
      },
      LIMIT_MS,
    );

    itNeeds(
      NEEDS,
      "is a typed error when its worker is terminated, for what is under way and for what comes after",
      async () => {
        const { outcome } = await play("plain", "terminated");
        expect(outcome).toEqual(["DeviceError worker-lost", "DeviceError worker-lost"]);
      },
      LIMIT_MS,
    );

    itNeeds(
      NEEDS,
      "runs in a worker of one's own, or in the page when that is asked for, even where blobs are no workers",
      async () => {
        const { outcome } = await play("strict", "places");
        expect(outcome).toEqual({ same: true, workers: 1, compiled: 2 });
      },
      LIMIT_MS,
    );

    itNeeds(
      NEEDS,
      "runs in the page with one thread, after one notice, where a policy blocks its worker",
      async () => {
        const { outcome } = await play("strict", "blocked");
        expect(outcome).toMatchObject({ nThreads: 1, workers: 1, compiled: 1 });
        expect(outcome["notices"]).toEqual([expect.stringMatching(/worker-src blob:.*one thread/)]);
        expect(here["story"]!["text"]).toMatch(new RegExp(`^${String(outcome["text"])}`));
      },
      LIMIT_MS,
    );
  });
});
