// What `slackwater plan` gets from the engine: a core for lists of buffers, and the plan of a model's graph.

import { openGguf } from "../gguf/index.ts";
import { modelGraphs, readModelHeader } from "../llm/index.ts";
import { createEngine, type Engine } from "../runtime/engine.ts";
import type { ReportSource } from "../runtime/report.ts";
import type { ModelPlanOptions, PlanCommandHost } from "./plan.ts";

/** The command's surroundings, over an engine that starts when it is asked for, until they are disposed. */
export function planHost(): PlanCommandHost & Disposable {
  let engine: Engine | undefined;
  return {
    host: async () => {
      engine ??= await start();
      return { memory: engine.arena.memory, exports: engine.core };
    },
    model: planModelFile,
    write: (text) => void process.stdout.write(text),
    [Symbol.dispose]: () => engine?.dispose(),
  };
}

function start(): Promise<Engine> {
  return createEngine({ nThreads: 1, device: "cpu" });
}

// The graph of a prompt batch is the larger one: it sets the size of the compute buffer.
async function planModelFile(path: string, options: ModelPlanOptions): Promise<ReportSource> {
  const { file, source } = await openGguf(path);
  await source.close();
  using engine = await start();
  const graphs = modelGraphs(engine, readModelHeader(file), {});
  const plan = engine.planOnly(graphs.at(-1)!, options);
  return plan.source(path.split(/[\\/]/).at(-1));
}
