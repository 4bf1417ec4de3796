// A list, a seed and a budget give the same plan on every runtime and in headless Chromium.
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";
import { createPlanner } from "../ts/plan.ts";
import type { Lifetime, LifetimeColumns, PlanOptions } from "../ts/runtime/plan_check.ts";
import { startChromium } from "./hosts/chromium.ts";
import { CHROMIUM, itNeeds, PLAYWRIGHT, RUNTIMES } from "./hosts/host.ts";
import { runCommand } from "./hosts/process.ts";
import { startServer } from "./hosts/server.ts";
import { entriesOf, packing, pareto } from "./plan_lists.ts";

const ROOT = resolve(import.meta.dirname, "..");
const PROGRAM = join(ROOT, "tests/hosts/plan.mjs");
const LIMIT_MS = 60_000;

interface Task {
  readonly list: readonly Lifetime[] | LifetimeColumns;
  readonly options: PlanOptions;
}

/** The columns as entries, every `k`-th with a rule of its own. */
function withRules(c: LifetimeColumns, k: number): Lifetime[] {
  return entriesOf(c).map((b, i) => (i % k === 0 ? { ...b, alignment: 64 } : b));
}

function plain(c: LifetimeColumns): LifetimeColumns {
  return { lower: Array.from(c.lower), upper: Array.from(c.upper), size: Array.from(c.size) };
}

// Solved by the search, given up in its middle, restarts of the skyline alone, rules, chunks.
const TASKS: readonly Task[] = [
  { list: entriesOf(packing(120, 1, 1000, 1e6)), options: { seed: 3, budget: 1e8 } },
  { list: entriesOf(packing(400, 2, 1000, 1e6)), options: { seed: 4, budget: 2e7 } },
  { list: plain(packing(4200, 5, 900, 9000)), options: { seed: 5, budget: 2e6 } },
  { list: withRules(packing(90, 6, 300, 9000), 4), options: { seed: 6, budget: 1e6 } },
  { list: entriesOf(pareto(300, 7, 64)), options: { seed: -7, budget: 1e6, maxChunk: 20000 } },
];

async function planHere(): Promise<unknown> {
  using planner = await createPlanner();
  return TASKS.map(({ list, options }) => {
    const { offsets, chunkOf, peak, lowerBound, optimal, work } = planner.planBuffers(list, options);
    return { offsets: [...offsets], chunkOf: [...chunkOf], peak, lowerBound, optimal, work };
  });
}

describe("the same plans", () => {
  for (const { name, command, args } of RUNTIMES) {
    itNeeds(
      [command],
      `on ${name}`,
      async () => {
        const env = { NODE_OPTIONS: "", NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1", DO_NOT_TRACK: "1" };
        const options = { limitMs: LIMIT_MS, cwd: ROOT, env };
        const ended = await runCommand(command, [...args, PROGRAM, JSON.stringify(TASKS)], options);
        expect(ended).toMatchObject({ code: 0, stderr: "" });
        expect(JSON.parse(ended.stdout)).toEqual(await planHere());
      },
      2 * LIMIT_MS,
    );
  }

  itNeeds(
    [CHROMIUM, PLAYWRIGHT],
    "in Chromium",
    async () => {
      const bundle = await build({
        entryPoints: [PROGRAM],
        bundle: true,
        format: "esm",
        write: false,
        logLevel: "silent",
      });
      const files: [string, string][] = [
        ["page.html", '<!doctype html><script type="module" src="page.js"></script>'],
        ["page.js", bundle.outputFiles[0]!.text],
        ["task.json", JSON.stringify(TASKS)],
      ];
      const server = await startServer(new Map(files));
      const browser = await startChromium();
      try {
        const { line } = await browser.logged(`${server.origin}/plain/page.html`, "result ", LIMIT_MS);
        expect(JSON.parse(line)).toEqual(await planHere());
      } finally {
        await browser.close();
        await server.close();
      }
    },
    2 * LIMIT_MS,
  );
});

it("another seed gives another plan where the search is given up", async () => {
  using planner = await createPlanner();
  const { list, options } = TASKS[1]!;
  const plans = [1, 2].map((seed) => planner.planBuffers(list, { ...options, seed }));
  expect(plans[0]!.offsets).not.toEqual(plans[1]!.offsets);
});
