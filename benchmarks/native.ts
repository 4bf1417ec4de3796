// Ours and native llama.cpp (node-llama-cpp) side by side, A B B A: `npm run native -- [--shapes ..] [--types ..]
// [--threads 1,2] [--vectors 256|128] [--rounds N] [--reps N] [--pp N] [--tg N] [--models DIR]`. Each round is a process of its own.
// Ratios are ours over theirs, of the medians of all repetitions: by wall clock, and by processor time, which other load
// on the machine hardly moves.
import { parseArgs } from "node:util";
import { inTurn, median, report, round, runChild, type Spent, versionOf } from "./measure.ts";
import { model, MODELS } from "./synthesize.ts";
import type { Job, Times } from "./peers/engine.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "135m,0.5b,1.1b" },
    types: { type: "string", default: "Q4_0,Q8_0,Q4_K_M" },
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "3" },
    reps: { type: "string", default: "3" },
    pp: { type: "string", default: "256" },
    tg: { type: "string", default: "64" },
    models: { type: "string", default: MODELS },
    wasm: { type: "string" },
    vectors: { type: "string", default: "256" },
  },
});
const [OURS, THEIRS] = ["slackwater", "node-llama-cpp"] as const;
const [rounds, reps, pp, tg] = [values.rounds, values.reps, values.pp, values.tg].map(Number) as [
  number,
  number,
  number,
  number,
];

/** Rates of all repetitions. */
class Rates {
  readonly wall: number[] = [];
  readonly cpu: number[] = [];

  add(n: number, spent: readonly Spent[]): void {
    for (const { ms, cpuMs } of spent) {
      this.wall.push((1000 * n) / ms);
      this.cpu.push((1000 * n) / cpuMs);
    }
  }
}

class Peer {
  readonly pp = new Rates();
  readonly tg = new Rates();
  readonly load: number[] = [];
  readonly peak: number[] = [];
  error: unknown;

  add(times: Partial<Times> & { error?: unknown }): void {
    this.error = times.error ?? this.error;
    if (times.error !== undefined) return;
    this.pp.add(pp, times.pp!);
    this.tg.add(tg, times.tg!);
    this.load.push(times.loadMs!);
    this.peak.push(times.peakMiB!);
  }
}

function rowOf(name: string, threads: number, ours: Peer, theirs: Peer): object {
  const row: Record<string, unknown> = { model: name, threads };
  for (const key of ["pp", "tg"] as const) {
    for (const clock of ["wall", "cpu"] as const) {
      const [a, b] = [median(ours[key][clock]), median(theirs[key][clock])];
      if (clock === "wall") Object.assign(row, { [key]: round(a), [`${key} native`]: round(b) });
      row[`${key} ratio ${clock}`] = round(a / b);
    }
  }
  return {
    ...row,
    "load ms": round(median(ours.load)),
    "load ms native": round(median(theirs.load)),
    "peak MiB": round(median(ours.peak)),
    "peak MiB native": round(median(theirs.peak)),
  };
}

async function compare(shape: string, type: string, threads: number): Promise<object> {
  const path = model(values.models, shape, type);
  const peers = { [OURS]: new Peer(), [THEIRS]: new Peer() };
  await inTurn([OURS, THEIRS], rounds, async (peer, i) => {
    const ways = { wasm: values.wasm as Job["wasm"], vectors: Number(values.vectors) as Job["vectors"] };
    const job: Job = { peer, model: path, threads, pp, tg, reps, ...ways };
    const times = await runChild("peers/run.js", job);
    peers[peer as typeof OURS].add(times);
    console.error(
      `${shape}-${type} ${threads} thread(s) round ${i} ${peer}: ${String(times.error ?? "done")}`,
    );
  });
  return rowOf(`${shape}-${type}`, threads, peers[OURS], peers[THEIRS]);
}

const rows: object[] = [];
for (const shape of values.shapes.split(",")) {
  for (const type of values.types.split(",")) {
    for (const threads of values.threads.split(",")) rows.push(await compare(shape, type, Number(threads)));
  }
}
report("native", rows, { peers: { [THEIRS]: versionOf(THEIRS) }, pp, tg, rounds, reps });
