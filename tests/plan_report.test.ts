// What is shown of a plan: figures, text, picture, and the command.
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { PLAN_USAGE, planCommand, readCsv } from "../ts/cli/plan.ts";
import { FormatError, GraphError } from "../ts/errors.ts";
import { planToSVG } from "../ts/runtime/plan_svg.ts";
import {
  formatBytes,
  planReport,
  type ReportEntry,
  type ReportSource,
  reportToText,
} from "../ts/runtime/report.ts";
import { planWasm } from "./plan_data.ts";

const entries: ReportEntry[] = [
  { name: "x", lower: 0, upper: 2, size: 64, offset: 0 },
  { name: "y", lower: 1, upper: 3, size: 32, offset: 64, inPlace: ["relu"] },
  { name: "mul_mat", lower: 1, upper: 2, size: 128, offset: 96, scratch: true },
  { name: "z", lower: 2, upper: 4, size: 64, offset: 0 },
];
const source: ReportSource = {
  title: "a <graph> & more",
  peak: 224,
  lowerBound: 224,
  sum: 192,
  optimal: true,
  ms: 0.25,
  entries,
  stepName: (step) => `node ${step}`,
};

it("the report names the step that sets the peak, who fills it, and scratch apart", () => {
  const r = planReport(source);
  expect(r.peakStep).toEqual({ step: 1, name: "node 1", alive: 224, scratch: 128 });
  expect(r.consumers.map((c) => [c.name, c.size, c.scratch])).toEqual([
    ["mul_mat", 128, true],
    ["x", 64, false],
    ["y", 32, false],
  ]);
  expect([r.scratch, r.nSteps, r.nEntries, r.offsets]).toEqual([128, 4, 4, [0, 64, 96, 0]]);
});

it("the report says who re-uses whose memory", () => {
  const r = planReport(source);
  expect(r.reuse).toEqual([
    { name: "z", size: 64, previous: ["x"] },
    { name: "y", size: 32, previous: ["relu (in place)"] },
  ]);
  const parts: ReportEntry[] = [
    { name: "a", lower: 0, upper: 1, size: 10, offset: 0 },
    { name: "b", lower: 0, upper: 1, size: 10, offset: 10 },
    { name: "c", lower: 1, upper: 2, size: 10, offset: 5 },
    { name: "d", lower: 2, upper: 3, size: 20, offset: 0 },
  ];
  const { reuse } = planReport({ ...source, entries: parts });
  expect(reuse.map((u) => [u.name, u.previous])).toEqual([
    ["d", ["a", "c", "b"]],
    ["c", ["a", "b"]],
  ]);
});

it("the text shows exact bytes and the share saved", () => {
  const text = reportToText(planReport({ ...source, peak: 224, sum: 1000, lowerBound: 200, optimal: false }));
  expect(text).toContain("224 B, set by step 1 (node 1)");
  expect(text).toContain("1,000 B, 77.6 % saved");
  expect(text).toContain("128 B at most, 128 B at the peak");
  expect(text).toContain("z lies where x lay");
  expect([formatBytes(0), formatBytes(1023), formatBytes(1536), formatBytes(2 ** 40)]).toEqual([
    "0 B",
    "1023 B",
    "1.50 KiB",
    "1.00 TiB",
  ]);
});

// Every tag is closed, in order; entities are the known ones.
function expectWellFormed(svg: string): void {
  const open: string[] = [];
  let crossed = 0;
  for (const [, close, name, empty] of svg.matchAll(/<(\/?)([a-z]+)(?:\s[^<>]*?)?(\/?)>/g)) {
    if (close) crossed += Number(open.pop() !== name);
    else if (!empty) open.push(name ?? "");
  }
  expect([open, crossed]).toEqual([[], 0]);
  expect(svg.match(/&(?!amp;|lt;|gt;|quot;)/)).toBeNull();
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
}

it("the picture is well-formed, escapes names, has tooltips, both colour schemes and the peak", () => {
  const svg = planToSVG({ ...source, lowerBound: 100 });
  expectWellFormed(svg);
  expect(svg).toContain("a &lt;graph&gt; &amp; more");
  expect(svg.match(/<rect /g)?.length).toBe(4);
  expect(svg).toContain("64 B at 0, steps [0, 2)");
  expect(svg).toContain("prefers-color-scheme:dark");
  expect(svg).toContain("peak: step 1 node 1");
  expect(svg).toContain("lower bound 100 B");
});

it("with several buffers the step that sets the peak fills one of them and has most bytes alive", () => {
  const entries = [
    { name: "a", lower: 0, upper: 3, size: 96, offset: 0 },
    { name: "b", lower: 1, upper: 2, size: 64, offset: 100 },
    { name: "c", lower: 2, upper: 3, size: 32, offset: 164 },
  ];
  const buffers = [
    { name: "0", from: 0, nBytes: 100 },
    { name: "1", from: 100, nBytes: 64 },
    { name: "2", from: 164, nBytes: 32 },
  ];
  expect(planReport({ ...source, peak: 196, entries, buffers }).peakStep).toMatchObject({
    step: 1,
    alive: 160,
  });
});

it("the picture has a line between buffers, and names those that are high enough", () => {
  const names = ["low <1>", "high & last"];
  const buffers = [
    { name: names[0]!, from: 0, nBytes: source.peak - 8 },
    { name: names[1]!, from: source.peak - 8, nBytes: 8 },
  ];
  const svg = planToSVG({ ...source, buffers });
  expectWellFormed(svg);
  expect(svg.match(/class="border"/g)).toHaveLength(1);
  expect(svg).toContain(">low &lt;1&gt;</text>");
  expect(svg).not.toContain("high");
});

it("the picture stays a picture for nothing, one buffer, 10,000 and more than can be drawn", () => {
  const many = (n: number): ReportEntry[] =>
    Array.from({ length: n }, (_, i) => ({
      name: `t${i}`,
      lower: i,
      upper: i + 5,
      size: 1 + (i % 7),
      offset: i % 99,
    }));
  for (const n of [0, 1, 10, 10000, 25000]) {
    const svg = planToSVG({ ...source, peak: n === 0 ? 0 : 105, entries: many(n) });
    expectWellFormed(svg);
    expect(svg.match(/<rect /g)?.length ?? 0).toBe(Math.min(n, 20000));
    expect(svg.length).toBeLessThan(5e6);
  }
  expect(planToSVG({ ...source, entries: many(25000) })).toContain("25000 buffers, the 20000 largest drawn");
});

const folder = mkdtempSync(join(tmpdir(), "plan-"));

async function command(args: string[], csv: string): Promise<string> {
  const file = join(folder, "list.csv");
  writeFileSync(file, csv);
  let out = "";
  const host = planWasm();
  await planCommand([file, ...args], { host: () => host, write: (text) => void (out += text) });
  return out;
}

const csv = "id,lower,upper,size\nb,3,9,10\na,0,5,33\nc,5,9,31\n";

it("the command prints the plan as JSON on the last line, offsets in input order", async () => {
  const line = (await command(["--json"], csv)).trim().split("\n").at(-1) ?? "";
  const plan = JSON.parse(line) as Record<string, unknown>;
  expect(Object.keys(plan)).toEqual(["peak", "lowerBound", "sum", "ms", "optimal", "offsets"]);
  expect(plan).toMatchObject({ peak: 43, lowerBound: 43, sum: 74, optimal: true });
  const [b, a, c] = plan.offsets as [number, number, number];
  expect(b >= a + 33 || a >= b + 10).toBe(true);
  expect(b >= c + 31 || c >= b + 10).toBe(true);
});

it("the command prints text and writes a picture", async () => {
  const svg = join(folder, "plan.svg");
  expect(await command(["--svg", svg, "--capacity", "64", "--budget", "1000", "--seed", "2"], csv)).toContain(
    "43 B",
  );
  expectWellFormed(readFileSync(svg, "utf8"));
});

it("the command takes columns in any order, CRLF, and an empty list", async () => {
  const out = await command(["--json"], "size,id,upper,lower\r\n7,q,2,1\r\n");
  expect(JSON.parse(out)).toMatchObject({ peak: 7, offsets: [0] });
  expect(JSON.parse(await command(["--json"], "id,lower,upper,size\n"))).toMatchObject({
    peak: 0,
    offsets: [],
  });
});

it("the command takes alignments, places that are given, and chunks", async () => {
  const rows = "id,lower,upper,size,alignment,offset\na,0,2,10,,64\nb,0,2,10,32,\nc,1,3,70,,\n";
  const plan = JSON.parse(await command(["--json"], rows)) as { peak: number; offsets: number[] };
  expect([plan.offsets[0], plan.offsets[1]! % 32, plan.peak]).toEqual([64, 0, 144]);
  const list = "id,lower,upper,size\na,0,2,33\nb,0,2,31\nc,1,3,60\n";
  const chunked = JSON.parse(await command(["--json", "--max-chunk", "64", "--alignment", "32"], list)) as {
    offsets: number[];
  };
  expect(chunked.offsets.map((x) => x % 32)).toEqual([0, 0, 0]);
  expect(new Set(chunked.offsets.map((x) => Math.floor(x / 64))).size).toBe(3);
  await expect(command(["--max-chunk", "0"], list)).rejects.toThrow(GraphError);
});

it("the command prints its help when asked, and plans nothing", async () => {
  let out = "";
  const host = (): never => expect.unreachable();
  for (const flag of ["--help", "-h"])
    await planCommand([flag], { host, write: (text) => void (out += text) });
  expect(out).toBe(`${PLAN_USAGE}\n`.repeat(2));
  expect(out).toContain("--capacity");
});

it("misspelt options, values that are no numbers and missing files are refused", async () => {
  for (const args of [
    ["--capcity", "3"],
    ["--capacity", "x"],
    ["--seed", "-1"],
    ["--budget", ""],
    ["two.csv"],
  ]) {
    await expect(command(args, csv)).rejects.toThrow(TypeError);
  }
  await expect(planCommand([], { host: planWasm, write: () => undefined })).rejects.toThrow(TypeError);
});

it("a CSV file that is none is refused with line and column", () => {
  for (const bad of [
    "",
    "id,lower,size\n1,2,3\n",
    "id,lower,upper,size\n1,2\n",
    "id,lower,upper,size\n1,2,x,4\n",
    "id,lower,upper,size,offset\n1,2,3,4,x\n",
  ]) {
    expect(() => readCsv(bad)).toThrow(FormatError);
  }
  expect(() => readCsv("id,lower,upper,size\n1,0,1,1\n1,2,x,4\n")).toThrow('csv: line 3: upper is "x"');
});
