// f32 products against onnxruntime-web, tfjs and jax-js in Node, in turn: `npm run f32 -- [--n 512,1024] [--threads 1]`.
import { parseArgs } from "node:util";
import { inTurn, median, report, round, runChild, versionOf } from "./measure.ts";
import { roofs } from "./roof.ts";

const PEERS = ["slackwater", "onnxruntime-web", "tfjs-backend-wasm", "jax-js"];
const PACKAGES = ["onnxruntime-web", "@tensorflow/tfjs-backend-wasm", "@jax-js/jax"];
const { values } = parseArgs({
  options: {
    n: { type: "string", default: "512,1024" },
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "3" },
  },
});
const roof = await roofs(64);
const rows: object[] = [];
for (const n of values.n.split(",").map(Number)) {
  const got = new Map(
    PEERS.map((p) => [p, { wall: [] as number[], cpu: [] as number[], error: undefined as unknown }]),
  );
  await inTurn(PEERS, Number(values.rounds), async (peer) => {
    const r = await runChild("peers/f32.js", { peer, n, threads: Number(values.threads) }, 120_000);
    const lists = got.get(peer)!;
    lists.error = r.error ?? lists.error;
    if (r.error !== undefined) return;
    lists.wall.push(r.wall as number);
    lists.cpu.push(r.cpu as number);
  });
  for (const [peer, { wall, cpu, error }] of got) {
    const row = {
      n,
      peer,
      "GFLOP/s wall": round(median(wall)),
      "GFLOP/s cpu": round(median(cpu)),
      "of peak": round(median(cpu) / roof["f32 GFLOP/s"]!.cpu),
    };
    rows.push(wall.length === 0 ? { ...row, error: String(error).slice(0, 300) } : row);
  }
}
report("f32", rows, { roof, peers: Object.fromEntries(PACKAGES.map((p) => [p, versionOf(p)])) });
