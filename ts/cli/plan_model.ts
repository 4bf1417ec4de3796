// What `slackwater plan` gets from the engine: a core for lists of buffers, and the plan of a model's graph.

import { openGguf } from "../gguf/index.ts";
import { modelGraphs, readModelHeader } from "../llm/index.ts";
import { createEngine } from "../runtime/engine.ts";
import type { ReportSource } from "../runtime/report.ts";
import type { ModelPlanOptions, PlanCommandHost } from "./plan.ts";

/** The command's surroundings, over an engine of its own. */
export async function planHost(): Promise<PlanCommandHost> {
  const engine = await createEngine({ nThreads: 1, device: "cpu" });
  return {
    host: () => ({ memory: engine.arena.memory, exports: engine.core }),
    model: (path, options) => planModelFile(path, options),
    write: (text) => void process.stdout.write(text),
  };
}

// The graph of a prompt batch is the larger one: it sets the size of the compute buffer.
async function planModelFile(path: string, options: ModelPlanOptions): Promise<ReportSource> {
  const { file, source } = await openGguf(path);
  await source.close();
  const engine = await createEngine({ nThreads: 1, device: "cpu" });
  const graphs = modelGraphs(engine, readModelHeader(file), {});
  const plan = engine.planOnly(graphs.at(-1)!, options);
  engine.dispose();
  return plan.source(path.split(/[\\/]/).at(-1));
}
