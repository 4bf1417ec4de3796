// slackwater quantize: a model file in another type, written piece by piece.

import { renameSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { quantizeGguf, type QuantizeReport } from "../llm/index.ts";
import { type Args, existingOrUrl, type Option, parse } from "./args.ts";
import { onInterrupt } from "./model_options.ts";
import { progressLine } from "./progress.ts";

const OPTIONS: Record<string, Option> = {
  imatrix: { type: "string", help: "importance of columns: a GGUF file of llama.cpp's imatrix tool" },
  pure: { type: "boolean", help: "every matrix in TYPE, not in a mixture" },
  requantize: { type: "boolean", help: "also tensors that are quantised already" },
  threads: { type: "string", short: "t", help: "threads; default: what the machine has, at most 8" },
};

const USAGE = `slackwater quantize IN.gguf OUT.gguf TYPE
  TYPE: F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ4_NL IQ4_XS
        MXFP4_MOE F32; Q4_K is Q4_K_M`;

/** Writes the new file beside its name first: what stands under the name is whole. */
export async function quantizeCommand(argv: readonly string[]): Promise<void> {
  const args = parse(USAGE, argv, OPTIONS, 3);
  if (args === undefined) return;
  const [from, to, type] = args.positionals;
  if (type === undefined) throw new TypeError("quantize: expected IN.gguf OUT.gguf TYPE");
  const importance = args.text("imatrix");
  for (const path of importance === undefined ? [from!] : [from!, importance]) {
    existingOrUrl(path);
    if (isSame(path, to!)) throw new TypeError(`quantize: ${to} would be written over what it is made of`);
  }
  const partial = `${to}.part`;
  try {
    const report = await write(partial, from!, type, args);
    renameSync(partial, to!);
    print(report, args.json);
  } finally {
    rmSync(partial, { force: true });
  }
}

// Are both one file, under whatever names?
function isSame(a: string, b: string): boolean {
  const [x, y] = [a, b].map((path) => statSync(path, { throwIfNoEntry: false }));
  return x !== undefined && y !== undefined && x.dev === y.dev && x.ino === y.ino;
}

async function write(path: string, from: string, type: string, args: Args): Promise<QuantizeReport> {
  using interrupt = onInterrupt();
  const steps = quantizeGguf(from, type, {
    pure: args.flag("pure"),
    requantize: args.flag("requantize"),
    importance: args.text("imatrix"),
    nThreads: args.number("threads"),
    signal: interrupt.signal,
    onProgress: progressLine(),
  });
  let out: FileHandle | undefined;
  try {
    let step = await steps.next(); // a wrong call leaves no file
    out = await open(path, "w");
    while (!step.done) [step] = await Promise.all([steps.next(), out.writeFile(step.value)]);
    return step.value;
  } finally {
    await steps.return(undefined as never);
    await out?.close();
  }
}

function print({ nBytes, tensors }: QuantizeReport, json: boolean): void {
  if (json) return console.log(JSON.stringify({ nBytes, tensors }));
  const types = Object.entries(tensors).map(([name, count]) => `${count} ${name}`);
  console.log(`${nBytes} bytes, tensors: ${types.join(", ")}`);
}
