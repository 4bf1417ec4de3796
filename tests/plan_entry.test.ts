// slackwater/plan: the planner by itself, its reports and its end.
import { expect, it } from "vitest";
import { createPlanner } from "../ts/plan.ts";
import { pareto, sweepFault } from "./plan_lists.ts";

const code = (value: string): unknown => expect.objectContaining({ code: value });

it("plans a named list and reports on it", async () => {
  const planner = await createPlanner();
  const plan = planner.planBuffers([
    { name: "a", lower: 0, upper: 3, size: 400 },
    { name: "b", lower: 2, upper: 5, size: 300, alignment: 256 },
    { name: "c", lower: 4, upper: 6, size: 100, offset: 0 },
  ]);
  expect([plan.peak, plan.lowerBound, plan.optimal]).toEqual([812, 700, true]);
  expect([plan.offsets[1]! % 256, plan.offsets[2]]).toEqual([0, 0]);
  const report = plan.report();
  expect(report.peakStep).toMatchObject({ step: 2, alive: 700 });
  expect(report.consumers.map((c) => c.name)).toEqual(["a", "b"]);
  expect(plan.toText()).toContain("13.8 % below; a complete search found no smaller plan");
  expect(plan.toSVG("three <buffers>")).toContain("three &lt;buffers&gt;");
  expect(JSON.parse(JSON.stringify(plan))).toMatchObject({ peak: 812, nEntries: 3 });
});

it("shows chunks one on the other and columns by number", async () => {
  const planner = await createPlanner();
  const columns = { lower: [0, 0, 0], upper: [1, 1, 1], size: [60, 60, 30] };
  const plan = planner.planBuffers(columns, { maxChunk: 100 });
  expect([[...plan.chunks].sort(), plan.peak]).toEqual([[60, 90], 150]);
  const { entries, buffers } = plan.source();
  expect(buffers!.map((b) => [b.name, b.from, b.nBytes])).toEqual([
    ["chunk 0", 0, plan.chunks[0]],
    ["chunk 1", plan.chunks[0], plan.chunks[1]],
  ]);
  entries.forEach(({ within }, i) =>
    expect(within).toEqual({ buffer: `chunk ${plan.chunkOf[i]}`, offset: plan.offsets[i] }),
  );
  expect(plan.toText()).toContain("of chunk 1");
  expect(plan.toSVG()).toContain(">chunk 0</text>");
  const tops = entries.map((e) => e.offset + e.size);
  expect(Math.max(...tops)).toBe(150);
  expect(new Set(entries.map((e) => e.offset)).size).toBe(3);
  expect(entries[2]!.name).toBe("buffer 2");
});

it("plans long lists after short ones, and the same again", async () => {
  const planner = await createPlanner();
  const c = pareto(20000, 1, 64);
  const first = planner.planBuffers(c, { budget: 0 });
  planner.planBuffers([{ lower: 0, upper: 1, size: 1 }]);
  expect(planner.planBuffers(c, { budget: 0 }).offsets).toEqual(first.offsets);
  expect(sweepFault(c, first.offsets, first.peak)).toBe("");
});

it("refuses misspelt options and calls after its end", async () => {
  await expect(createPlanner({ was: 1 } as never)).rejects.toThrow(TypeError);
  const planner = await createPlanner();
  planner.dispose();
  planner.dispose();
  expect(() => planner.planBuffers([])).toThrow(code("disposed"));
});
