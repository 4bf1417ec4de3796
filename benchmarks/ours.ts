// Our own engine in two ways, A B B A: `npm run ours -- --vary build` (baseline against relaxed: the bars are 0.45 of the
// prompt rate and 0.5 of the generation rate) or `--vary vectors` (256 bits against 128) [--shapes 0.5b] [--types Q4_0]
// [--rounds N] [--reps N] [--pp N] [--tg N] [--models DIR] [--json]. Each round is a process of its own. Ratios are of
// medians and, which other load on the machine distorts less, of the best repetitions.
import { parseArgs } from "node:util";
import { inTurn, median, report, round, runChild, type Spent } from "./measure.ts";
import type { Job, Times } from "./peers/engine.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    vary: { type: "string", default: "build" },
    shapes: { type: "string", default: "135m" },
    types: { type: "string", default: "Q4_0,Q8_0" },
    rounds: { type: "string", default: "3" },
    reps: { type: "string", default: "3" },
    pp: { type: "string", default: "256" },
    tg: { type: "string", default: "64" },
    models: { type: "string", default: MODELS },
    json: { type: "boolean", default: false },
  },
});
const [rounds, reps, pp, tg] = [values.rounds, values.reps, values.pp, values.tg].map(Number) as [
  number,
  number,
  number,
  number,
];

/** What is varied, in two ways: the ratio is the first over the second. */
const VARIED: Readonly<Record<string, Readonly<Record<string, Partial<Job>>>>> = {
  build: { simd: { wasm: "simd", threads: 1 }, relaxed: { wasm: "relaxed", threads: 1 } },
  vectors: { "256 bits": { vectors: 256, threads: 1 }, "128 bits": { vectors: 128, threads: 1 } },
};
const WAYS = VARIED[values.vary] ?? {};
if (!(values.vary in VARIED)) throw new TypeError(`ours: --vary ${values.vary}`);
const names = Object.keys(WAYS);

type Rates = Record<"pp" | "tg", number[]>;

async function measure(path: string): Promise<Readonly<Record<string, Rates>>> {
  const found = Object.fromEntries(names.map((name) => [name, { pp: [], tg: [] } as Rates]));
  const perSecond = (n: number, spent: readonly Spent[]): number[] => spent.map(({ ms }) => (1000 * n) / ms);
  await inTurn(names, rounds, async (name, i) => {
    const answer = await runChild("peers/run.js", {
      peer: "slackwater",
      model: path,
      pp,
      tg,
      reps,
      ...WAYS[name],
    });
    if (answer["error"] !== undefined) throw new Error(String(answer["error"]));
    const times = answer as unknown as Times;
    found[name]!.pp.push(...perSecond(pp, times.pp));
    found[name]!.tg.push(...perSecond(tg, times.tg));
    console.error(`${path} round ${i} ${name}: done`);
  });
  return found;
}

function rowsOf(name: string, found: Readonly<Record<string, Rates>>): object[] {
  const [a, b] = names.map((n) => found[n]!) as [Rates, Rates];
  return (["pp", "tg"] as const).map((key) => ({
    model: name,
    what: key === "pp" ? `pp${pp}` : `tg${tg}`,
    [names[0]!]: round(median(a[key])),
    [names[1]!]: round(median(b[key])),
    "ratio, medians": round(median(a[key]) / median(b[key])),
    "ratio, best": round(Math.max(...a[key]) / Math.max(...b[key])),
  }));
}

const rows: object[] = [];
for (const shape of values.shapes.split(",")) {
  for (const type of values.types.split(",")) {
    rows.push(...rowsOf(`${shape}-${type}`, await measure(model(values.models, shape, type))));
  }
}
report("ours", rows, { vary: values.vary, pp, tg, rounds, reps });
