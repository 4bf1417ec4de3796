// A run that somebody watches: stops after each node that is wanted and hands its result out.

import type { ComputeOptions } from "../../graph/graph.ts";
import type { ProgramNode } from "../../graph/program.ts";
import type { Executable } from "../backend.ts";
import { isPureView } from "./costs.ts";
import type { Schedule } from "./splits.ts";

/** What is asked of a run besides its end. */
export type Watch = Pick<ComputeOptions, "wants" | "onTensor">;

/** Runs a graph; node by node as far as somebody watches. */
export function runWatched(
  executable: Executable,
  { splits }: Schedule,
  { wants, onTensor }: Watch,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (onTensor === undefined) return executable.run(signal);
  const nodes = splits.flatMap((split) => split.program.nodes);
  return inRanges(executable, nodes, wants ?? (() => true), onTensor, signal);
}

async function inRanges(
  executable: Executable,
  nodes: readonly ProgramNode[],
  wants: NonNullable<Watch["wants"]>,
  onTensor: NonNullable<Watch["onTensor"]>,
  signal: AbortSignal | undefined,
): Promise<void> {
  let first = 0;
  for (const [i, node] of nodes.entries()) {
    const wanted = !isPureView(node) && wants(node.tensor);
    if (!wanted && i + 1 < nodes.length) continue;
    await executable.run(signal, first, i + 1);
    first = i + 1;
    if (wanted && (await onTensor(node.tensor, await node.tensor.readNow())) === false) return;
  }
}
