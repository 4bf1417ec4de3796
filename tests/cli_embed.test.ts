// slackwater embed: lines in, lines out, in order; wrong lines are named.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";
import { loadModel } from "../ts/llm/index.ts";
import { modelFile } from "./arch/golden.ts";
import { describeWith } from "./data.ts";

interface Line {
  readonly index: number;
  readonly embedding: readonly number[];
  readonly tokens: number;
  readonly truncated?: boolean;
}

/** Runs the command; what it prints, line by line. */
async function embed(...argv: string[]): Promise<{ status: number; out: string[]; errors: string }> {
  const out: string[] = [];
  const errors: string[] = [];
  const log = vi.spyOn(console, "log").mockImplementation((text: string) => void out.push(text));
  const error = vi.spyOn(console, "error").mockImplementation((text: string) => void errors.push(text));
  try {
    const status = await main(["embed", ...argv, "--threads", "1"]);
    return { status, out, errors: errors.join("\n") };
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
}

describeWith("golden", "slackwater embed", () => {
  const model = modelFile("bert-mean");
  let folder: string;
  const file = (text: string): string => {
    const path = join(folder, "texts.txt");
    writeFileSync(path, text);
    return path;
  };

  beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "embed-"))));
  afterAll(() => rmSync(folder, { recursive: true }));

  test("plain lines, JSON strings and objects give a line each, and a summary at the end", async () => {
    const texts = ["the hot word", "is\non", "na\u00efve"];
    const lines = [texts[0]!, "", JSON.stringify(texts[1]), JSON.stringify({ id: 7, text: texts[2] })];
    const ran = await embed(model, "--file", file(lines.join("\r\n")), "--json");
    expect(ran.status).toBe(0);
    const got = ran.out.slice(0, 3).map((line) => JSON.parse(line) as Line);
    const direct = await loadModel(model, { nThreads: 1 });
    const want = await direct.embed(texts);
    direct.dispose();
    got.forEach(({ index, embedding, tokens }, i) => {
      expect(index).toBe(i);
      expect(tokens).toBe(want[i]!.nTokens);
      expect(Float32Array.from(embedding)).toEqual(want[i]!.embedding);
    });
    const total = got.reduce((sum, { tokens }) => sum + tokens, 0);
    expect(JSON.parse(ran.out[3]!)).toEqual({ texts: 3, tokens: total, truncated: 0 });
  });

  test("hundreds of lines keep their order", async () => {
    const ran = await embed(model, "-f", file("on\nis\n".repeat(150)));
    const got = ran.out.map((line) => JSON.parse(line) as Line);
    expect(got.map(({ index }) => index)).toEqual(Array.from({ length: 300 }, (_, i) => i));
    for (const { index, embedding } of got) expect(embedding).toEqual(got[index % 2]!.embedding);
  });

  test("pooling, raw vectors and cutting are options", async () => {
    const ran = await embed(
      model,
      "-f",
      file("word ".repeat(300)),
      "--truncate",
      "--pooling",
      "cls",
      "--raw",
      "-c",
      "32",
    );
    const line = JSON.parse(ran.out[0]!) as Line;
    expect(line).toMatchObject({ tokens: 32, truncated: true });
    expect(line.embedding.reduce((sum, x) => sum + x * x, 0)).toBeGreaterThan(2);
  });

  test("a wrong line is named; a wrong call says what is missing", async () => {
    const broken = await embed(model, "-f", file('on\n{"text": 3}'));
    expect(broken).toMatchObject({ status: 2, errors: expect.stringContaining("line 2") as string });
    const json = await embed(model, "-f", file('"on'));
    expect(json).toMatchObject({ status: 2, errors: expect.stringContaining("line 1 is no JSON") as string });
    const long = await embed(model, "-f", file("word ".repeat(300)), "--json");
    expect(long.status).toBe(1);
    expect(JSON.parse(long.out.at(-1)!)).toMatchObject({ error: { code: "context-full" } });
    expect((await embed(model, "-f", join(folder, "none.txt"))).status).toBe(2);
    expect((await embed(model, "--file")).status).toBe(2);
  });
});
