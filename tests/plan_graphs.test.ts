// The planner on whole graphs: against ggml's stored plans, and against an overlap check that shares nothing with it.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { dataDir, describeWith, readJson } from "./data.ts";
import { faults, type Graph, planGraph, planWasm } from "./plan_data.ts";
import { ggmlPlan } from "./plan_ggml.ts";

interface Golden extends Graph {
  ggml: {
    buffer_size: number;
    lower_bound: number;
    lower_bound_view_inplace: number;
    sum_all: number;
    offsets: Record<string, number>;
    inplace_parent: Record<string, number>;
  };
}

describeWith("golden", "golden plans", () => {
  const names = readdirSync(join(dataDir("golden"), "plans")).filter((f) => f.endsWith(".json"));
  const w = planWasm();
  for (const name of names) {
    const g = readJson<Golden>("golden", `plans/${name}`);

    it(`${g.name}: ggml's rules give ggml's offsets`, () => {
      const p = planGraph(w, g, { ggml: true });
      expect(p.peak).toBe(g.ggml.buffer_size);
      expect(p.lowerBound).toBe(g.ggml.lower_bound);
      expect(p.sum).toBe(g.ggml.sum_all);
      for (const t of g.tensors) {
        expect(p.offs[t.id], `offset of ${t.id}`).toBe(g.ggml.offsets[t.id] ?? -1);
        expect(p.parent[t.id], `parent of ${t.id}`).toBe(g.ggml.inplace_parent[t.id] ?? -1);
      }
      expect(faults(g, p)).toEqual([]);
      const witness = ggmlPlan(g);
      expect(witness.peak).toBe(p.peak);
      for (const t of g.tensors) expect(witness.offsets.get(t.id) ?? -1).toBe(p.offs[t.id]);
    });

    it(`${g.name}: our plan is valid, at its lower bound and not above ggml's`, () => {
      const p = planGraph(w, g);
      expect(faults(g, p)).toEqual([]);
      expect(p.peak).toBeLessThanOrEqual(g.ggml.buffer_size);
      expect(p.lowerBound).toBeLessThanOrEqual(g.ggml.lower_bound_view_inplace);
      expect(p.peak).toBe(p.lowerBound);
      expect(p.optimal).toBe(true);
    });
  }
});
