// The commands that generate: chat in one shot, and the sampling options of run.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";
import { type ChatCompletion, type Generation } from "../ts/llm/index.ts";
import { dataDir, describeWith } from "./data.ts";

const MODEL = join(dataDir("models"), "stories260K/stories260K-f32.gguf");

interface Ended {
  readonly status: number;
  readonly out: string;
  readonly errors: string;
}

/** Runs a command; what it prints is kept. */
async function cli(...argv: string[]): Promise<Ended> {
  const out: string[] = [];
  const errors: string[] = [];
  const spies = [
    vi.spyOn(console, "log").mockImplementation((text: string) => void out.push(`${text}\n`)),
    vi.spyOn(console, "error").mockImplementation((text: string) => void errors.push(`${text}\n`)),
    vi.spyOn(process.stdout, "write").mockImplementation((text) => {
      out.push(String(text));
      return true;
    }),
  ];
  try {
    const status = await main([...argv, "--threads", "1"]);
    return { status, out: out.join(""), errors: errors.join("") };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

const lastJson = <T>({ out }: Ended): T => JSON.parse(out.trim().split("\n").at(-1)!) as T;

describeWith("models", "commands", () => {
  let folder: string;
  const file = (name: string, content: unknown): string => {
    const path = join(folder, name);
    writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
    return path;
  };
  let template: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "chat-"));
    template = file(
      "t.jinja",
      "{% for m in messages %}{{ m.content | trim }}{{ eos_token }}{% endfor %}{{ tools | length if tools else '' }}",
    );
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test("chat answers the messages of a file with one completion", async () => {
    const messages = [{ role: "user", content: "Once upon a time there was a dog." }];
    const common = ["chat", MODEL, "--template", template, "--temp", "0", "-n", "8", "--json"];
    const list = await cli(...common, "-m", file("list.json", messages));
    expect(list.status).toBe(0);
    const completion = lastJson<ChatCompletion>(list);
    expect(completion).toMatchObject({ object: "chat.completion", usage: { completion_tokens: 8 } });
    const request = { messages, temperature: 2, max_tokens: 99, seed: 3 };
    const again = await cli(...common, "-m", file("request.json", request));
    expect(lastJson<ChatCompletion>(again).choices).toEqual(completion.choices);
    const plain = await cli(...common.slice(0, -1), "-p", "Once upon a time there was a dog.");
    expect(plain.out).toBe(`${completion.choices[0].message.content}\n`);
  });

  test("a system message goes first; tools of a request reach the template", async () => {
    const tools = [{ type: "function", function: { name: "f" } }];
    const path = file("tools.json", { messages: [{ role: "user", content: "Hi." }], tools });
    const count = async (...more: string[]): Promise<number> => {
      const ended = await cli(
        "chat",
        MODEL,
        "--template",
        template,
        "-m",
        path,
        "-n",
        "1",
        "--json",
        ...more,
      );
      return lastJson<ChatCompletion>(ended).usage.prompt_tokens;
    };
    expect(await count("--system", "Be good.")).toBeGreaterThan(await count());
  });

  test("errors of chat have their code and status", async () => {
    const none = await cli("chat", MODEL, "-p", "hi", "--json");
    expect(none.status).toBe(1);
    expect(lastJson(none)).toMatchObject({ error: { code: "template-error" } });
    expect((await cli("chat")).status).toBe(2);
    expect((await cli("chat", MODEL, "-p", "hi", "--temp", "warm")).status).toBe(2);
    const unknown = await cli("chat", MODEL, "-m", file("bad.json", { messages: [], colour: 1 }), "--json");
    expect(unknown.status).toBe(2);
  });

  test("a file of messages that holds none is refused by name", async () => {
    for (const content of ["Once upon", "5", "null", "{}", '{ "messages": "hi" }']) {
      const path = file("none.json", content);
      const ended = await cli("chat", MODEL, "--template", template, "-m", path, "--json");
      expect(ended.status).toBe(1);
      const { error } = lastJson<{ error: { code: string; message: string } }>(ended);
      expect(error.code).toBe("bad-value");
      expect(error.message).toContain(path);
    }
    expect((await cli("chat", MODEL, "-m", join(folder, "nowhere.json"))).status).toBe(2);
  });

  test("run takes the sampling options, and tells log-probabilities and bad ones", async () => {
    const run = async (...more: string[]): Promise<Generation> => {
      const ended = await cli(
        "run",
        MODEL,
        "-p",
        "Once upon a time",
        "-n",
        "12",
        "--temp",
        "0",
        "--json",
        ...more,
      );
      expect(ended.status).toBe(0);
      return lastJson<Generation>(ended);
    };
    const plain = await run();
    expect(plain.logprobs).toBeUndefined();
    expect((await run("--logprobs", "2")).logprobs!.map((t) => t.top.length)).toEqual(Array(12).fill(2));
    expect((await run("--logit-bias", `${plain.tokens[2]}=-100`)).tokens[2]).not.toBe(plain.tokens[2]);
    const wild = ["--temp", "1.5", "--seed", "4", "--typical-p", "0.8", "--frequency-penalty", "0.4"];
    expect((await run(...wild)).tokens).toEqual((await run(...wild)).tokens);
    expect((await run(...wild, "--dry-multiplier", "2", "--presence-penalty", "1")).tokens.length).toBe(12);
    expect((await run("-c", "16", "-n", "40", "--shift-keep", "4")).tokens.length).toBe(40);
    expect((await cli("run", MODEL, "--logit-bias", "5:1")).status).toBe(2);
    expect((await cli("run", MODEL, "--kv", "q8_0")).errors).toContain("multiple of 32");
    expect((await cli("run", MODEL, "--kv", "q5")).status).toBe(2);
  });
});
