// slackwater inspect: what is in a file, and the exact memory a model of it takes. Reads the header only.

import { type GgufFile, type MetaValue, openGguf } from "../gguf/index.ts";
import { planModel, readModelHeader } from "../llm/index.ts";
import { createEngine } from "../runtime/engine.ts";
import { typeName } from "../types.ts";
import { type Args, parse } from "./args.ts";
import { kvType, MODEL_OPTIONS, modelPath } from "./model_options.ts";

/** Prints metadata, tensors and the memory plan. */
export async function inspectCommand(argv: readonly string[]): Promise<void> {
  const { threads, ctx, batch, kv } = MODEL_OPTIONS;
  const args = parse("slackwater inspect [MODEL]", argv, { threads, ctx, batch, kv });
  if (args === undefined) return;
  const { file, source } = await openGguf(modelPath(args));
  await source.close();
  const plan = await memoryPlan(file, args);
  if (args.json) console.log(JSON.stringify({ ...summary(file), ...plan }, jsonValue));
  else print(file, plan);
}

async function memoryPlan(
  file: GgufFile,
  args: Args,
): Promise<{ nCtx: number; memory: unknown } | { memory: unknown }> {
  using engine = await createEngine({ nThreads: args.number("threads") ?? 1, device: "cpu" });
  try {
    const { nCtx, memory } = planModel(engine, readModelHeader(file), {
      nCtx: args.number("ctx"),
      nBatch: args.number("batch"),
      kvType: kvType(args),
    });
    return { nCtx, memory };
  } catch (error) {
    // A file can be looked at even when its model cannot be run.
    const { code, message } = error as { code?: string; message: string };
    return { memory: { error: { code, message } } };
  }
}

function summary(file: GgufFile): Record<string, unknown> {
  return {
    version: file.version,
    alignment: file.alignment,
    fileSize: file.fileSize,
    metadata: Object.fromEntries([...file.metadata].map(([key, value]) => [key, plain(value)])),
    tensors: file.tensors.map((t) => ({
      name: t.name,
      type: typeName(t.type),
      ne: t.ne.slice(0, Math.max(1, t.nDims)),
      offset: t.offset,
      nBytes: t.nBytes,
    })),
  };
}

// Long arrays (vocabularies) are given by their length.
function plain(value: MetaValue): unknown {
  const v = value.value as unknown;
  if (typeof v !== "object" || v === null) return v;
  const { length } = v as { length: number };
  return { length };
}

function jsonValue(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value;
}

function print(file: GgufFile, plan: object): void {
  console.log(`GGUF v${file.version}, ${file.tensors.length} tensors, alignment ${file.alignment}`);
  for (const [key, value] of file.metadata) {
    const text = JSON.stringify(plain(value), jsonValue);
    console.log(`  ${key} = ${text.length > 100 ? `${text.slice(0, 97)}...` : text}`);
  }
  for (const t of file.tensors) {
    const shape = t.ne.slice(0, Math.max(1, t.nDims)).join(" x ");
    console.log(`  ${t.name.padEnd(32)} ${typeName(t.type).padEnd(8)} ${shape.padEnd(16)} ${t.nBytes} bytes`);
  }
  console.log(`memory (bytes): ${JSON.stringify(plan)}`);
}
