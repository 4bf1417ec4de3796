// Two threads against one: `npm run threads -- [--shapes 0.5b] [--types Q4_0,Q8_0] [--reps N] [--pp N] [--tg N] [--vectors 128] [--json]`.
// Bars: 1.85 for the prompt; for generation 0.9 of what the read roofs of one thread and of two allow. The roof of a prompt
// is that of dots: two cores of a machine that others share are not always two.
//
// Memory is shared with other machines on this host, and what two threads may read of it changes within seconds. So both
// engines stand in one process and take turns (1 2, 2 1 ...), each measured right behind the roofs of as many threads, and
// a repetition's ratios are put against its own roofs.
import { parseArgs } from "node:util";
import { median, report, round } from "./measure.ts";
import { type Loaded, openSlackwater, timesOf } from "./peers/engine.ts";
import { dotRoof, readRoof } from "./roof.ts";
import { model, MODELS } from "./synthesize.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "0.5b" },
    types: { type: "string", default: "Q4_0,Q8_0" },
    threads: { type: "string", default: "2" },
    reps: { type: "string", default: "9" },
    pp: { type: "string", default: "256" },
    tg: { type: "string", default: "64" },
    vectors: { type: "string", default: "128" },
    models: { type: "string", default: MODELS },
    json: { type: "boolean", default: false },
  },
});
const [many, reps, pp, tg] = [values.threads, values.reps, values.pp, values.tg].map(Number) as [
  number,
  number,
  number,
  number,
];
const vectors = values.vectors === "256" ? 256 : 128;

/** Of one repetition: tokens per second, and the roofs of both in GOP/s and GB/s. */
interface Found {
  readonly pp: number;
  readonly tg: number;
  readonly ppRoof: number;
  readonly tgRoof: number;
}

async function once(loaded: Loaded, threads: number, path: string): Promise<Found> {
  const ppRoof = await dotRoof(threads, 100);
  const tgRoof = await readRoof(threads, 128, 100, 1);
  const job = { peer: "slackwater", model: path, threads, pp, tg, reps: 1 };
  const times = await timesOf(loaded, job);
  return { pp: (1000 * pp) / times.pp[0]!.ms, tg: (1000 * tg) / times.tg[0]!.ms, ppRoof, tgRoof };
}

async function measure(name: string, path: string): Promise<object[]> {
  const counts = [1, many];
  const open = (threads: number): Promise<Loaded> =>
    openSlackwater({ peer: "slackwater", model: path, threads, pp, tg, reps: 1, vectors });
  const engines = [await open(1), await open(many)];
  const found: Found[][] = [[], []];
  for (let i = 0; i < reps; i++) {
    for (const j of i % 2 === 0 ? [0, 1] : [1, 0]) {
      found[j]!.push(await once(engines[j]!, counts[j]!, path));
    }
  }
  for (const engine of engines) await engine.dispose();
  const ratios = (of: (f: Found) => number): number[] => found[0]!.map((f, i) => of(found[1]![i]!) / of(f));
  return (["pp", "tg"] as const).map((key) => {
    const own = ratios((f) => f[key]);
    const roof = ratios((f) => f[`${key}Roof`]);
    return {
      model: name,
      what: key === "pp" ? `pp${pp}` : `tg${tg}`,
      one: round(median(found[0]!.map((f) => f[key]))),
      [String(many)]: round(median(found[1]!.map((f) => f[key]))),
      ratio: round(median(own)),
      "ratio of the roofs": round(median(roof)),
      "share of what the roof allows": round(median(own.map((r, i) => r / roof[i]!))),
    };
  });
}

const rows: object[] = [];
for (const shape of values.shapes.split(",")) {
  for (const type of values.types.split(",")) {
    rows.push(...(await measure(`${shape}-${type}`, await model(values.models, shape, type))));
  }
}
report("threads", rows, { pp, tg, reps, vectors });
