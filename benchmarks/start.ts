// How long until an engine of the built package is ready and until all its threads are there, and loading a file against a
// bare read of it: `npm run start -- [--threads 2] [--rounds 9] [--shapes 135m] [--types Q8_0] [--json]`. Engines are the
// first of their process; reads and loads alternate in one process, after a round that is not counted. The bars: 50 ms;
// load at 0.8 of the read.
import { parseArgs } from "node:util";
import { median, report, round, runChild } from "./measure.ts";
import type { StartJob } from "./peers/start.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    threads: { type: "string", default: "2" },
    rounds: { type: "string", default: "9" },
    shapes: { type: "string", default: "135m" },
    types: { type: "string", default: "Q4_0,Q8_0" },
    models: { type: "string", default: MODELS },
    json: { type: "boolean", default: false },
  },
});
const [threads, rounds] = [Number(values.threads), Number(values.rounds)];

async function child(job: Partial<StartJob>): Promise<Record<string, number[]>> {
  const answer = await runChild("peers/start.js", { threads, rounds, ...job });
  if (answer["error"] !== undefined) throw new Error(String(answer["error"]));
  return answer as Record<string, number[]>;
}

function summary(what: string, xs: readonly number[]): Record<string, unknown> {
  return { what, median: round(median(xs)), best: round(Math.min(...xs)) };
}

async function engines(): Promise<object[]> {
  type Times = Readonly<Record<"ready" | "all", number>>;
  const first: Times[] = [];
  const second: Times[] = [];
  for (let i = 0; i < rounds; i++) {
    const answer = (await child({ what: "engine" })) as unknown as { first: Times; second: Times };
    first.push(answer.first);
    second.push(answer.second);
  }
  const rows = (which: string, times: readonly Times[]): object[] => [
    summary(
      `engine, ${which} of a process: ready, ms`,
      times.map((t) => t.ready),
    ),
    summary(
      `engine, ${which} of a process: all ${threads} thread(s) there, ms`,
      times.map((t) => t.all),
    ),
  ];
  return [...rows("first", first), ...rows("second", second)];
}

async function loads(shape: string, type: string): Promise<object[]> {
  const name = `${shape}-${type}`;
  const answer = await child({ what: "load", model: model(values.models, shape, type), rounds: rounds + 1 });
  const [read, load, weights] = [answer["read"]!, answer["load"]!, answer["weights"]!].map((xs) =>
    xs.slice(1),
  );
  const ratio = (xs: readonly number[]): object => ({
    "read / this, medians": round(median(read!) / median(xs)),
    "read / this, best": round(Math.min(...read!) / Math.min(...xs)),
  });
  return [
    summary(`${name}: bare read, ms`, read!),
    { ...summary(`${name}: load, ms`, load!), ...ratio(load!) },
    { ...summary(`${name}: weights of the load, ms`, weights!), ...ratio(weights!) },
  ];
}

const rows = await engines();
for (const shape of values.shapes.split(",")) {
  for (const type of values.types.split(",")) rows.push(...(await loads(shape, type)));
}
report("start", rows, { threads, rounds });
