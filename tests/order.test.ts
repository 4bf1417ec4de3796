// The order stage: every node once, sources before results, reads and writes of one memory in their order, same bits.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { Flag, Op } from "../assembly/abi.ts";
import { orderForMemory } from "../ts/graph/order.ts";
import type { Program, ProgramNode } from "../ts/graph/program.ts";
import { Tensor } from "../ts/graph/tensor.ts";
import { createEngine } from "../ts/runtime/engine.ts";
import { Type } from "../ts/types.ts";
import { dataDir, describeWith, readJson } from "./data.ts";
import { dags } from "./plan_dags.ts";
import { type Graph, planGraph, planWasm } from "./plan_data.ts";

/** A graph of the planner's tests as a program; a node with another source than its view's root writes through it. */
function programOf(g: Graph): { program: Program; ids: Map<Tensor, number> } {
  const ids = new Map<Tensor, number>();
  const all: Tensor[] = [];
  const nodes: ProgramNode[] = [];
  for (const t of g.tensors) {
    const src = t.src.map((s) => (s === null || s === t.id ? undefined : all[s]!));
    const pure = t.view_src !== null && t.src.length === 1;
    let flags = t.external ? Flag.EXTERNAL : 0;
    if (t.flags.includes("input")) flags |= Flag.INPUT;
    if (t.flags.includes("output")) flags |= Flag.OUTPUT;
    const [ne, nb] = [t.ne, t.nb] as unknown as [Tensor["ne"], Tensor["nb"]];
    const op = t.id < g.n_leafs ? Op.NONE : pure ? Op.VIEW : t.view_src === null ? Op.ADD : Op.CPY;
    const viewSrc = t.view_src === null ? undefined : all[t.view_src]!;
    const x = new Tensor({ op, type: Type.F32, ne, nb, src, viewSrc, viewOffs: t.view_offs, flags });
    ids.set(x, t.id);
    all.push(x);
    if (t.id >= g.n_leafs) nodes.push({ tensor: x, src: t.src.includes(t.id) ? [...src, x] : src });
  }
  return { program: { leafs: all.slice(0, g.n_leafs), nodes }, ids };
}

/** Version of its memory that each node sees per source, and the version it makes: the same in any sound order. */
function visions(p: Program): Map<Tensor, string> {
  const version = new Map<Tensor, string>();
  const name = new Map<Tensor, number>();
  [...p.leafs].forEach((t) => name.set(t, name.size));
  const seen = new Map<Tensor, string>();
  for (const { tensor, src } of p.nodes) {
    const reads = src.map((s) => (s === undefined || s === tensor ? "" : (version.get(s.root) ?? "first")));
    const writes = tensor.viewSrc !== undefined && tensor.op === Op.CPY;
    const made = `${reads.join(";")}|${tensor.op}|${writes ? (version.get(tensor.root) ?? "first") : ""}`;
    seen.set(tensor, made);
    if (writes || tensor.viewSrc === undefined) version.set(tensor.root, hash(made));
  }
  return seen;
}

function hash(s: string): string {
  let h = 2166136261;
  for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619);
  return String(h >>> 0);
}

it("random graphs keep every node, sources first, and every node sees the memory it saw", () => {
  fc.assert(
    fc.property(dags(60), (g) => {
      const { program } = programOf(g);
      const ordered = orderForMemory(program);
      expect(new Set(ordered.nodes).size).toBe(program.nodes.length);
      const known = new Set<Tensor>(program.leafs);
      for (const { tensor, src } of ordered.nodes) {
        for (const s of src) expect(s === undefined || s === tensor || known.has(s)).toBe(true);
        known.add(tensor);
      }
      const [before, after] = [visions(program), visions(ordered)];
      for (const { tensor } of program.nodes) expect(after.get(tensor)).toBe(before.get(tensor));
    }),
    { numRuns: 500, seed: 1 },
  );
});

it("two chains that meet are run one after the other, and the result has the same bits", async () => {
  const engine = await createEngine({ nThreads: 1 });
  const run = async (order: "graph" | "memory"): Promise<[number, unknown]> => {
    const g = engine.graph();
    const x = g.input("x", Type.F32, [1, 32]);
    const wide = [1, 2, 3, 4].map((k) => g.repeat(g.scale(x, k), [64, 32]));
    wide.forEach((t) => g.expand(t));
    const y = wide
      .map((t) => g.sumRows(g.sqr(t)))
      .reduce((a, b) => g.add(a, b))
      .asOutput();
    const plan = g.plan({ order });
    x.write(Float32Array.from({ length: 32 }, (_, i) => Math.sin(i)));
    await g.compute();
    const bits = await y.read();
    g.dispose();
    return [plan.nBytes, bits];
  };
  const [asBuilt, want] = await run("graph");
  const [ordered, bits] = await run("memory");
  expect(bits).toEqual(want);
  expect(ordered).toBeLessThan(asBuilt * 0.6);
  const g = engine.graph();
  g.sqr(g.input("x", Type.F32, [4])).asOutput();
  expect(() => g.plan({ order: "best" as "memory" })).toThrow(expect.objectContaining({ code: "bad-param" }));
  engine.dispose();
});

/** The graph with its nodes in another order. */
function reordered(g: Graph, ids: Map<Tensor, number>, ordered: Program): Graph {
  const from = [...ordered.leafs, ...ordered.nodes.map((n) => n.tensor)].map((t) => ids.get(t)!);
  const to = new Map(from.map((old, i) => [old, i]));
  const move = (s: number | null): number | null => (s === null ? null : to.get(s)!);
  const tensors = from.map((old, id) => {
    const t = g.tensors[old]!;
    return { ...t, id, src: t.src.map(move), view_src: move(t.view_src) };
  });
  return { ...g, tensors };
}

describeWith("golden", "golden plans in another order", () => {
  const w = planWasm();
  const names = readdirSync(join(dataDir("golden"), "plans")).filter((f) => f.endsWith(".json"));
  for (const name of names) {
    it(`${name} needs no more memory; irregular graphs need less`, () => {
      const g = readJson<Graph>("golden", `plans/${name}`);
      const { program, ids } = programOf(g);
      const [as, ordered] = [planGraph(w, g), planGraph(w, reordered(g, ids, orderForMemory(program)))];
      if (process.env["PLAN_TABLE"]) console.log(`${name}\t${as.peak}\t${ordered.peak}`);
      expect(ordered.peak).toBeLessThanOrEqual(as.peak);
    });
  }
});
