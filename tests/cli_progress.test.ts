// The progress line on a terminal: it stands alone, and is gone before anything else is written.
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { main } from "../ts/cli/main.ts";
import { clearProgress, complain, progressLine } from "../ts/cli/progress.ts";
import * as llm from "../ts/llm/index.ts";

vi.mock(import("../ts/llm/index.ts"), { spy: true });

const SHIPPED = fileURLToPath(new URL("../examples/demo-model/slackwater-stories.gguf", import.meta.url));
const CLEAR = "\r\x1b[K";

let now: number;
let terminal: boolean;
let written: string[];

beforeEach(() => {
  [now, terminal, written] = [0, true, []];
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const stderr = {
    get isTTY() {
      return terminal;
    },
    write: (text: string) => written.push(text) > 0,
  };
  vi.spyOn(process, "stderr", "get").mockReturnValue(stderr as unknown as typeof process.stderr);
  vi.spyOn(console, "error").mockImplementation((text: string) => void written.push(`${text}\n`));
});

afterEach(() => {
  clearProgress();
  vi.restoreAllMocks();
});

/** A load that tells of its half after a second, then does something else. */
function halfThen(then: (options: llm.LoadOptions) => void): void {
  vi.mocked(llm.loadModel).mockImplementation(((_: unknown, options: llm.LoadOptions) => {
    now = 1000;
    options.onProgress?.({ phase: "load", loaded: 1, total: 2 });
    then(options);
    return Promise.reject(new Error("broken"));
  }) as typeof llm.loadModel);
}

test("a load that fails takes its line back before the error", async () => {
  halfThen(() => undefined);
  expect(await main(["run", SHIPPED])).toBe(1);
  expect(written).toEqual(["\rload 50%", CLEAR, "slackwater: broken\n"]);
});

test("a warning takes the line back, and the next step shows it again", async () => {
  halfThen(({ logger, onProgress }) => {
    logger?.warn?.("no threads");
    onProgress?.({ phase: "load", loaded: 3, total: 4 });
  });
  expect(await main(["run", SHIPPED])).toBe(1);
  const error = "slackwater: broken\n";
  expect(written).toEqual(["\rload 50%", CLEAR, "slackwater: no threads\n", "\rload 75%", CLEAR, error]);
});

test("what is done, or over at once, leaves nothing on the line", () => {
  const line = progressLine();
  line({ phase: "load", loaded: 1, total: 4 });
  now = 299;
  line({ phase: "load", loaded: 2, total: 4 });
  expect(written).toEqual([]);
  now = 300;
  line({ phase: "load", loaded: 3, total: 4 });
  line({ phase: "load", loaded: 4, total: 4 });
  complain("done");
  expect(written).toEqual(["\rload 75%", CLEAR, "slackwater: done\n"]);
});

test("errors that go to a file get no line", async () => {
  terminal = false;
  halfThen(() => undefined);
  expect(await main(["run", SHIPPED])).toBe(1);
  expect(written).toEqual(["slackwater: broken\n"]);
});
