// The plan of a graph as the user sees it: figures, report, picture.

import { Op } from "../../assembly/abi.ts";
import type { BackendPlan, Plan, PlanReport } from "../graph/plan.ts";
import { type Program, tensorsOf } from "../graph/program.ts";
import type { Backend } from "./backend.ts";
import type { StoredPlan } from "./plan_cache.ts";
import type { PlanFigures } from "./plan_space.ts";
import { planToSVG } from "./plan_svg.ts";
import type { GraphPlan } from "./planner.ts";
import {
  endToEnd,
  placeIn,
  planReport,
  type ReportEntry,
  type ReportSource,
  reportToText,
} from "./report.ts";

/** Figures of all backends together. */
export function totals(results: readonly (GraphPlan | undefined)[]): PlanFigures & { readonly ms: number } {
  const sum = { peak: 0, lowerBound: 0, sum: 0, optimal: true, work: 0, ms: 0 };
  for (const r of results) {
    if (r === undefined) continue;
    sum.peak += r.peak;
    sum.lowerBound += r.lowerBound;
    sum.sum += r.sum;
    sum.optimal &&= r.optimal;
    sum.work += r.work;
    sum.ms += r.ms;
  }
  return sum;
}

/**
 * The plan of one graph. Of several backends each has buffers of its own; in reports and pictures they lie one above the
 * other, in the order of the backends and of their chunks.
 */
export class GraphPlanView implements Plan {
  readonly #program: Program;
  readonly #backends: readonly Backend[];
  readonly #stored: StoredPlan;

  constructor(program: Program, backends: readonly Backend[], stored: StoredPlan) {
    this.#program = program;
    this.#backends = backends;
    this.#stored = stored;
  }

  get nBytes(): number {
    return totals(this.#stored.results).peak;
  }

  get lowerBound(): number {
    return totals(this.#stored.results).lowerBound;
  }

  /** Figures per backend that runs part of the graph. */
  get backends(): readonly BackendPlan[] {
    return this.#stored.results.flatMap((r, b) => {
      if (r === undefined) return [];
      const { peak, chunks, lowerBound, sum, scratch } = r;
      return [{ name: this.#backends[b]!.name, nBytes: peak, chunks, lowerBound, sum, scratch }];
    });
  }

  /** Peak, largest consumers, who re-uses whom. */
  report(): PlanReport {
    return { ...planReport(this.source()), backends: this.backends };
  }

  toText(): string {
    const text = reportToText(this.report());
    if (this.#buffers().length < 2) return text;
    const line = (b: BackendPlan): string => {
      const chunks = b.chunks.length === 1 ? "" : ` in buffers of ${b.chunks.join(", ")}`;
      return `  ${b.name.padEnd(12)} ${b.nBytes} B${chunks}, lower bound ${b.lowerBound} B`;
    };
    return [text, "", "  per backend:", ...this.backends.map(line)].join("\n");
  }

  /** Report and lifetimes as plain data. */
  toJSON(): object {
    return { ...this.report(), entries: this.source().entries };
  }

  toSVG(): string {
    return planToSVG(this.source());
  }

  /** What reports are made from. */
  source(title = "plan"): ReportSource {
    const tensors = tensorsOf(this.#program);
    const names = tensors.map((t, i) => (t.name === "" ? `${Op[t.op]!.toLowerCase()} ${i}` : t.name));
    const takers = this.#takers(names);
    const nLeafs = this.#program.leafs.length;
    const entries: ReportEntry[] = [];
    const buffers = endToEnd(this.#buffers());
    const isOne = buffers.length < 2;
    let first = 0;
    for (const r of this.#stored.results) {
      if (r === undefined) continue;
      for (const e of r.entries) {
        entries.push({
          name: names[e.record]!,
          lower: e.lower,
          upper: e.upper,
          size: e.size,
          ...placeIn(buffers[first + e.chunk]!, e.offset, isOne),
          scratch: e.scratch,
          inPlace: e.scratch ? [] : (takers.get(e.record) ?? []),
        });
      }
      first += r.chunks.length;
    }
    const figures = totals(this.#stored.results);
    const stepName = (step: number): string => names[nLeafs + step] ?? `${step}`;
    return { title, ...figures, entries, ...(isOne ? {} : { buffers }), stepName };
  }

  #buffers(): { readonly name: string; readonly nBytes: number }[] {
    return this.backends.flatMap(({ name, chunks }) =>
      chunks.map((nBytes, k) => ({ name: chunks.length === 1 ? name : `${name} ${k}`, nBytes })),
    );
  }

  // Names of the results that took over the memory of a record, in order.
  #takers(names: readonly string[]): Map<number, string[]> {
    const first = new Map<number, number>();
    const takers = new Map<number, string[]>();
    this.#stored.parents.forEach((parent, i) => {
      if (parent < 0) return;
      const root = first.get(parent) ?? parent;
      first.set(i, root);
      takers.set(root, [...(takers.get(root) ?? []), names[i]!]);
    });
    return takers;
  }
}
