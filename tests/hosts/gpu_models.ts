// In Deno: a small model in all its types against the CPU, on a device with all that the adapter has and on one with the
// limits and features that every device has; then a loss of the device. Takes the folder of models; the last line is the differences as JSON.
import {
  forced,
  likelihoodApart,
  likelihoodOf,
  positionsApart,
  type Reference,
  TYPES,
} from "../agreement.ts";
import { loadModel, type Model } from "../../ts/llm/index.ts";
import { startEngine } from "../../ts/runtime/engine.ts";
import { GpuBackend } from "../../ts/webgpu/backend.ts";
import { type GpuOptions, openDevice } from "../../ts/webgpu/device.ts";

const folder = `${process.argv[2]!}/stories260K`;
const POSITIONS = 24;
/** Columns of a prompt: large tiles. */
const PROMPT = 128;
const VARIANTS: readonly GpuOptions[] = [{}, { limits: "default", without: ["f16", "subgroups"] }];

async function onDevice(options: GpuOptions, reference: Reference): Promise<object> {
  const backend = new GpuBackend(await openDevice(options));
  const opened = { backend, description: backend.gpu.adapter.name, software: true };
  const engine = await startEngine({ nThreads: 1, device: "webgpu" }, () => Promise.resolve(opened));
  const found: string[] = [];
  for (const type of TYPES) {
    const path = `${folder}/stories260K-${type}.gguf`;
    const cpu = await loadModel(path, { nThreads: 1, device: "cpu", nBatch: 1 });
    const model = await loadModel(path, { engine, nBatch: PROMPT });
    const { text, mean_nll } = likelihoodOf(type, reference);
    const apart = [
      ...positionsApart(type, await forced(cpu, text, POSITIONS), await forced(model, text, POSITIONS)),
      ...likelihoodApart(type, (await model.evaluate(text)).meanNll, mean_nll),
    ];
    found.push(...apart.map((d) => `${type}: ${d}`));
    model.dispose();
    cpu.dispose();
  }
  const { caps, device, counts } = backend.gpu;
  const stray = backend.lost?.message;
  engine.dispose();
  const { f16, subgroups } = caps;
  const binding = device.limits.maxStorageBufferBindingSize;
  return {
    f16,
    subgroups,
    binding,
    dispatches: counts.dispatches,
    liveBytes: counts.liveBytes,
    found,
    stray,
  };
}

// A device destroyed between two tokens; the model goes on with another.
async function afterLoss(): Promise<object> {
  const made: GpuBackend[] = [];
  const engine = await startEngine({ nThreads: 1, device: "webgpu" }, async () => {
    const backend = new GpuBackend(await openDevice());
    made.push(backend);
    return { backend, description: backend.gpu.adapter.name, software: true };
  });
  const path = `${folder}/stories260K-f32.gguf`;
  const cpu = await loadModel(path, { nThreads: 1, device: "cpu", nBatch: 1 });
  const model = await loadModel(path, { engine, nBatch: 1 });
  const say = async (one: Model, onLogits?: () => void): Promise<string> =>
    (await one.complete("Once upon a time", { temperature: 0, maxTokens: 8, onLogits })).tokens.join(" ");
  let n = 0;
  const lose = (): void => void (++n === 3 && made[0]!.gpu.device.destroy());
  const want = await say(cpu);
  const same = [await say(model, lose), await say(model)].map((tokens) => tokens === want);
  const { code } = made[0]!.lost!;
  const again = engine.backends()[0]!.used;
  model.dispose();
  engine.dispose();
  cpu.dispose();
  return { code, same, again, liveBytes: made.map((b) => b.gpu.counts.liveBytes) };
}

const unhandled: string[] = [];
process.on("unhandledRejection", (reason) => void unhandled.push(String(reason)));
const { readFileSync } = process.getBuiltinModule("node:fs");
const reference = JSON.parse(readFileSync(`${folder}/reference.json`, "utf8")) as Reference;
const variants: object[] = [];
for (const options of VARIANTS) variants.push(await onDevice(options, reference));
console.log(JSON.stringify({ variants, loss: await afterLoss(), unhandled }));
