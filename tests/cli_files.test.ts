// Every command says of a file that is not there the same thing, with the status of a wrong call.
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";

const SHIPPED = fileURLToPath(new URL("../examples/demo-model/slackwater-stories.gguf", import.meta.url));

test.each([
  ["run", "nowhere.gguf"],
  ["chat", "nowhere.gguf"],
  ["chat", SHIPPED, "--messages", "nowhere.json"],
  ["eval", "nowhere.gguf", "--text-file", SHIPPED],
  ["eval", SHIPPED, "--text-file", "nowhere.txt"],
  ["embed", "nowhere.gguf", "--file", SHIPPED],
  ["embed", SHIPPED, "--file", "nowhere.txt"],
  ["inspect", "nowhere.gguf"],
  ["plan", "nowhere.gguf"],
  ["plan", "nowhere.csv"],
  ["bench", "nowhere.gguf"],
  ["quantize", "nowhere.gguf", "out.gguf", "Q4_0"],
  ["quantize", SHIPPED, "out.gguf", "Q4_0", "--imatrix", "nowhere.gguf"],
  // no file of these is fetched
  ["chat", SHIPPED, "--messages", "nowhere://a.json"],
  ["eval", SHIPPED, "--text-file", "nowhere://a.txt"],
  ["embed", SHIPPED, "--file", "nowhere://a.txt"],
  ["plan", "nowhere://a.csv"],
])("%s %s", async (...argv) => {
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    const status = await main(argv);
    const missing = argv.find((x) => x.startsWith("nowhere"));
    expect([status, error.mock.calls]).toEqual([2, [[`slackwater: no such file: ${missing}`]]]);
  } finally {
    error.mockRestore();
  }
});

test("texts that cannot be read end embed with the error of the system", async () => {
  const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
  try {
    const status = await main(["embed", SHIPPED, "--file", import.meta.dirname]);
    expect([status, error.mock.calls]).toEqual([1, [[expect.stringMatching(/^slackwater: EISDIR/)]]]);
  } finally {
    error.mockRestore();
  }
});
