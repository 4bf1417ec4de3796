// What commands leave behind when they fail: no listeners, no files, nothing that holds the process.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";
import { GgufType, writeGguf } from "../ts/gguf/index.ts";
import { Type } from "../ts/types.ts";
import { modelFile } from "./arch/golden.ts";
import { describeWith } from "./data.ts";

const CLI = fileURLToPath(new URL("../dist/cli.js", import.meta.url));
const SHIPPED = fileURLToPath(new URL("../examples/demo-model/slackwater-stories.gguf", import.meta.url));

let folder: string;
let errors: string[];

beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "left-"))));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => {
  errors = [];
  vi.spyOn(console, "log").mockImplementation(() => undefined);
  vi.spyOn(console, "error").mockImplementation((text: string) => void errors.push(text));
  vi.spyOn(process.stdout, "write").mockReturnValue(true);
});
afterEach(() => vi.restoreAllMocks());

test.each<[status: number, ...argv: string[]]>([
  [0, "run", SHIPPED, "-n", "1"],
  [2, "run", SHIPPED, "-n", "few"],
  [1, "run", import.meta.filename],
  [2, "bench", SHIPPED, "--wasm", "fast"],
  [2, "bench", SHIPPED, "--pp", "99999"],
  [1, "eval", import.meta.filename, "--text-file", SHIPPED],
  [1, "embed", import.meta.filename, "--file", SHIPPED],
  [1, "chat", SHIPPED, "--prompt", "hi"],
  [1, "quantize", SHIPPED, "/nowhere/out.gguf", "Q8_0", "--requantize"],
  [2, "quantize", SHIPPED, "/nowhere/out.gguf", "Q9_X"],
])("no listener stays behind: status %i of %s", async (status, ...argv) => {
  const before = process.listenerCount("SIGINT");
  expect(await main([...argv, "--threads", "1"])).toBe(status);
  expect(process.listenerCount("SIGINT")).toBe(before);
});

test("input that ends during an answer ends the conversation after it", async () => {
  const input = Object.assign(new PassThrough(), { isTTY: true });
  vi.spyOn(process, "stdin", "get").mockReturnValue(input as unknown as typeof process.stdin);
  input.end("Once upon a time\n");
  const status = await main(["chat", SHIPPED, "--template", "chatml", "-n", "20", "--threads", "1"]);
  expect([status, errors]).toEqual([0, []]);
});

test("quantize does not write over what it is made of, under another name either", async () => {
  const file = join(folder, "own.gguf");
  copyFileSync(SHIPPED, file);
  symlinkSync(file, join(folder, "other.gguf"));
  const before = readFileSync(file);
  for (const out of [file, join(folder, "other.gguf")]) {
    expect(await main(["quantize", file, out, "F16", "--requantize", "--threads", "1"])).toBe(2);
  }
  expect(readFileSync(file).equals(before)).toBe(true);
});

test.runIf(existsSync("/dev/full"))(
  "a disk that is full while a tensor is converted ends quantize",
  async () => {
    const ne = [4096, 4096, 1, 1];
    const data = new Uint8Array(4 * 4096 * 4096);
    const from = join(folder, "large.gguf");
    const arch = { type: GgufType.STRING, value: "llama" } as const;
    const tensor = { name: "blk.0.attn_q.weight", ne, nDims: 2, type: Type.F32, data };
    writeFileSync(from, writeGguf([["general.architecture", arch]], [tensor]));
    const out = join(folder, "out.gguf");
    symlinkSync("/dev/full", `${out}.part`);
    expect(await main(["quantize", from, out, "Q8_0", "--threads", "1"])).toBe(1);
    expect(errors).toEqual([expect.stringMatching(/^slackwater: ENOSPC/)]);
    expect(lstatSync(`${out}.part`, { throwIfNoEntry: false })).toBeUndefined();
  },
);

describeWith("golden", "slackwater embed", () => {
  test("a wrong line ends the command, though its input is not at its end", async () => {
    const args = [CLI, "embed", modelFile("bert-mean"), "--threads", "1"];
    const command = spawn(process.execPath, args, { stdio: ["pipe", "ignore", "pipe"] });
    try {
      command.stdin.write('{"text": 3}\n');
      const signal = AbortSignal.timeout(20_000);
      expect(await once(command, "exit", { signal })).toEqual([2, null]);
    } finally {
      command.kill();
    }
  });
});
