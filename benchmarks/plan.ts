// The planner on lists: `node benchmarks/plan.ts [--seeds N] [--large N] [--planning DIR]`, one line per list and figure.
// Every plan is checked. Needs build/simd.wasm and a Node that strips types (or bundle it with esbuild).
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { entriesOf, packing, pareto, sweepFault, toColumns, training } from "../tests/plan_lists.ts";
import { planWasm } from "../tests/plan_data.ts";
import { readCsv } from "../ts/cli/plan.ts";
import type { LifetimeColumns, PlanOptions } from "../ts/runtime/plan_check.ts";
import { planBuffers } from "../ts/runtime/plan_list.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "5" },
    large: { type: "string", default: "0" },
    planning: { type: "string", default: "../shared/planning" },
  },
});

function median(v: number[]): number {
  return v.sort((a, b) => a - b)[v.length >> 1] ?? NaN;
}

/** Processor time of this process, ms: other load on the machine does not count. */
function cpu(): number {
  const u = process.cpuUsage();
  return (u.user + u.system) / 1000;
}

function measure(name: string, c: LifetimeColumns, options: PlanOptions, seeds: number): void {
  const host = planWasm();
  const times: number[] = [];
  const ratios: number[] = [];
  for (let seed = 1; seed <= seeds; seed++) {
    const start = cpu();
    const plan = planBuffers(host, c, { ...options, seed });
    times.push(cpu() - start);
    ratios.push(plan.peak / plan.lowerBound);
    const fault = sweepFault(c, plan.offsets, plan.peak);
    if (fault !== "") throw new Error(`${name}: ${fault}`);
  }
  const worst = Math.max(...times).toFixed(0);
  const n = c.size.length;
  console.log(
    `${name}\t${n}\tpeak/bound ${median(ratios).toFixed(5)} (worst ${Math.max(...ratios).toFixed(5)})\tcpu ${median(times).toFixed(0)} ms (worst ${worst})`,
  );
}

const seeds = Number(values.seeds);
if (existsSync(values.planning)) {
  for (const name of readdirSync(values.planning).filter((f) => f.endsWith(".csv"))) {
    const list = readCsv(readFileSync(join(values.planning, name), "utf8"));
    const capacity = Number(/\.(\d+)\.csv$/.exec(name)?.[1] ?? 0);
    const options = capacity > 0 ? { capacity, budget: 4e9 } : { budget: 1e9 };
    measure(name, toColumns(list), options, seeds);
    if (capacity > 0)
      measure(`${name} mirrored`, toColumns(entriesOf(toColumns(list), true)), options, seeds);
  }
}
for (const n of [200, 300]) {
  for (const seed of [1, 2, 3])
    measure(`packing ${n} #${seed}`, packing(n, seed, 1000, 1e6), { budget: 1e9 }, seeds);
}
const large = Number(values.large);
if (large > 0) {
  measure("training", training(large, 1), { budget: 0 }, 1);
  measure("pareto x 64", pareto(large, 2, 64), { budget: 0 }, 1);
  measure("pareto odd", pareto(large, 3, 1), { budget: 0 }, 1);
  measure("packing", packing(large, 4, large, 2 ** 40), { budget: 0 }, 1);
}
