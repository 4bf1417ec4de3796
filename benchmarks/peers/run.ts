// The process that runs one engine: `node build/peers/run.js JOB`.
import { now, since } from "../measure.ts";
import { type Job, type Times, openNodeLlamaCpp, openSlackwater, timesOf } from "./engine.ts";

const job = JSON.parse(process.argv[2]!) as Job;
const start = now();
const loaded = await (job.peer === "slackwater" ? openSlackwater(job) : openNodeLlamaCpp(job));
const loadMs = since(start).ms;
const times: Times = {
  loadMs,
  ...(await timesOf(loaded, job)),
  peakMiB: process.resourceUsage().maxRSS / 1024,
};
await loaded.dispose();
console.log(`\n${JSON.stringify(times)}`);
process.exit(0);
