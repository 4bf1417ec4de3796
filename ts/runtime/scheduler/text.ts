// Splits to read: which backend runs which nodes, and what is copied before.

import { Op } from "../../../assembly/abi.ts";
import type { Tensor } from "../../graph/tensor.ts";
import type { Backend } from "../backend.ts";
import { formatBytes } from "../report.ts";
import { isPureView } from "./costs.ts";
import type { Schedule } from "./splits.ts";

/** A copy made before a split. */
export interface SplitCopy {
  readonly name: string;
  /** backend it comes from */
  readonly from: string;
  readonly nBytes: number;
}

/** A stretch of a graph that one backend runs. */
export interface SplitView {
  readonly backend: string;
  /** nodes that compute */
  readonly nOps: number;
  readonly firstNode: string;
  readonly lastNode: string;
  readonly copies: readonly SplitCopy[];
}

function named(t: Tensor | undefined): string {
  if (t === undefined) return "";
  return t.name === "" ? Op[t.op]!.toLowerCase() : t.name;
}

/** Splits as plain data. */
export function viewSplits(
  { splits, bufferOf }: Schedule,
  backends: readonly Backend[],
): readonly SplitView[] {
  return splits.map(({ backend, copies, program }) => {
    const nodes = program.nodes.filter((n) => !isPureView(n));
    return {
      backend: backends[backend]!.name,
      nOps: nodes.length,
      firstNode: named(nodes[0]?.tensor),
      lastNode: named(nodes.at(-1)?.tensor),
      copies: copies.map(({ from }) => ({
        name: named(from),
        from: backends[bufferOf(from)]!.name,
        nBytes: from.nBytes,
      })),
    };
  });
}

/** One line per split, one per copy before it. */
export function splitsToText(splits: readonly SplitView[]): string {
  return splits
    .flatMap(({ backend, nOps, firstNode, lastNode, copies }, i) => {
      const range = nOps === 1 ? firstNode : `${firstNode} .. ${lastNode}`;
      const ops = `${nOps} ${nOps === 1 ? "op" : "ops"}`;
      const into = copies.map((c) => `             <- ${c.name} from ${c.from}, ${formatBytes(c.nBytes)}`);
      return [...into, `split ${`${i}`.padEnd(3)} ${backend.padEnd(8)} ${ops.padEnd(8)} ${range}`];
    })
    .join("\n");
}
