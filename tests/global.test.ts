// The script tag's file in Chromium: over http, from a folder, and under a strict policy.
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadModel } from "../ts/llm/index.ts";
import type { Browser } from "./hosts/browser.ts";
import { startChromium } from "./hosts/chromium.ts";
import { CHROMIUM, itNeeds, PLAYWRIGHT } from "./hosts/host.ts";
import { type Server, startServer } from "./hosts/server.ts";

const ROOT = resolve(import.meta.dirname, "..");
const SCRIPT = join(ROOT, "dist/slackwater.global.js");
const MODEL = join(ROOT, "examples/demo-model/slackwater-stories.gguf");
const PAGE = join(ROOT, "tests/hosts/tag_page.js");
const NEEDS = [CHROMIUM, PLAYWRIGHT];
const LIMIT_MS = 60_000;

/** What the page of tests/hosts/tag_page.js logs. */
interface Outcome {
  readonly text: string;
  readonly chat: string;
  readonly nThreads: number;
  readonly notices: readonly string[];
  readonly sums: readonly number[];
  readonly peak: number;
}

const html = (...scripts: string[]): string =>
  `<!doctype html><meta charset="utf-8">${scripts.map((s) => `<script src="${s}"></script>`).join("")}`;

describe("dist/slackwater.global.js", () => {
  let browser: Browser | undefined;
  let server: Server | undefined;
  let folder = "";
  let told: Pick<Outcome, "text" | "chat">;

  beforeAll(async () => {
    if (!NEEDS.every((p) => existsSync(p)) && process.env["CI"] !== "true") return;
    told = await toldHere();
    folder = await folderWithPage();
    server = await startServer(
      new Map<string, string | URL>([
        ["page.html", html("slackwater.global.js", "page.js")],
        ["page.js", pathToFileURL(PAGE)],
        ["slackwater.global.js", pathToFileURL(SCRIPT)],
        ["worker.js", pathToFileURL(join(ROOT, "dist/worker.js"))],
        ["model.gguf", pathToFileURL(MODEL)],
      ]),
    );
    browser = await startChromium();
  }, LIMIT_MS);

  afterAll(async () => {
    await browser?.close();
    await server?.close();
    if (folder !== "") await rm(folder, { recursive: true, force: true });
  });

  // The same in this process.
  async function toldHere(): Promise<Pick<Outcome, "text" | "chat">> {
    using model = await loadModel(MODEL, { nThreads: 1, chatTemplate: "chatml" });
    const { text } = await model.complete("Once upon a time", { maxTokens: 24, temperature: 0 });
    const messages = [{ role: "user", content: "Tell me of a dog." }];
    const answer = await model.chat.completions.create({ messages, max_tokens: 12, temperature: 0 });
    return { text, chat: answer.choices[0].message.content };
  }

  // A page with all it needs beside it, as someone would open it from a disk.
  async function folderWithPage(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), "slackwater-tag-"));
    const model = (await readFile(MODEL)).toString("base64");
    await writeFile(join(path, "page.html"), html("slackwater.global.js", "model.js", "page.js"));
    await writeFile(join(path, "model.js"), `var modelText = "${model}";`);
    await copyFile(SCRIPT, join(path, "slackwater.global.js"));
    await copyFile(PAGE, join(path, "page.js"));
    return path;
  }

  async function outcomeOf(address: string): Promise<Outcome> {
    const { line, others } = await browser!.logged(address, "outcome ", LIMIT_MS);
    expect(others.filter((text) => text.startsWith("error") && !text.includes("Content Security"))).toEqual(
      [],
    );
    const outcome = JSON.parse(line) as Outcome;
    expect(outcome).toMatchObject({ ...told, sums: [2, 4, 6], peak: 64 });
    return outcome;
  }

  it("is one file that defines one name and nothing else", async () => {
    const text = await readFile(SCRIPT, "utf8");
    expect(text.slice(0, 60)).toMatch(/^var slackwater=\(function \w+\(\)\{\s*"use strict";/);
    expect(text).not.toMatch(
      /\bimport\.meta\b|\beval\s*\(|\bnew\s+Function\b|\brequire\s*\(|\bimport\s*\(\s*["'`]/,
    );
    const scope: Record<string, unknown> = { atob, TextDecoder, TextEncoder };
    runInNewContext(text, scope);
    expect(Object.keys(scope)).toEqual(["atob", "TextDecoder", "TextEncoder", "slackwater"]);
    expect(Object.keys(scope["slackwater"] as object)).toEqual(
      expect.arrayContaining(["createEngine", "createPlanner", "loadModel", "openGguf", "FormatError"]),
    );
  });

  it("stays under 1 MB", async () => {
    expect((await readFile(SCRIPT)).length).toBeLessThan(1_000_000);
  });

  itNeeds(
    NEEDS,
    "a page that is not isolated computes with one thread",
    async () => {
      const { nThreads, notices } = await outcomeOf(`${server!.origin}/plain/page.html`);
      expect(nThreads).toBe(1);
      expect(notices).toEqual([expect.stringContaining("isolated")]);
    },
    LIMIT_MS,
  );

  itNeeds(
    NEEDS,
    "an isolated page computes with two threads, from the worker inside",
    async () => {
      const { nThreads, notices } = await outcomeOf(`${server!.origin}/isolated/page.html`);
      expect({ nThreads, notices }).toEqual({ nThreads: 2, notices: [] });
    },
    LIMIT_MS,
  );

  itNeeds(
    NEEDS,
    "a page opened from a folder works, from a Blob",
    async () => {
      const { nThreads, notices } = await outcomeOf(pathToFileURL(join(folder, "page.html")).href);
      expect(nThreads).toBe(1);
      expect(notices).toEqual([expect.stringContaining("isolated")]);
    },
    LIMIT_MS,
  );

  itNeeds(
    NEEDS,
    "a policy that allows wasm and nothing more leaves one thread and one notice",
    async () => {
      const { nThreads, notices } = await outcomeOf(`${server!.origin}/strict/page.html`);
      expect(nThreads).toBe(1);
      expect(notices).toEqual([expect.stringMatching(/worker/)]);
    },
    LIMIT_MS,
  );
});
