// One tiny plan while the threads start. Engines compile a function of wasm when it is first called; without this the
// first real plan would spend most of its time there.

import { Flag, NODE_BYTES, NODE_FLAGS, NODE_SIZE, NODE_SRC, NODE_VIEW_SRC } from "../../assembly/abi.ts";
import { type PlanHost, withBlock } from "./plan_host.ts";
import { type GraphPlan, planGraph } from "./planner.ts";

// A chain of nodes, each with the one before as source. The third does not fit where the first was, so best fit leaves a
// gap and the placement runs; the fourth is computed in place, the fifth is a view of it.
//
//   128 |        CCCC  D..
//    64 |    B   BBBB          the bound is 64 + 128
//     0 | A  AB
const SIZES = [64, 64, 128, 128, 0, 64] as const;
const IN_PLACE = 3;
const VIEW = 4;
// Workspace of so few buffers, with room to spare.
const BYTES = 65536;

/** Plans a graph of six nodes, if the memory there is has room for it. */
export function rehearse(host: PlanHost): GraphPlan | undefined {
  if (host.exports.regionShortfall(BYTES) > 0) return undefined;
  return withBlock(host, { bytes: SIZES.length * NODE_BYTES }, (records) => {
    writeChain(new DataView(host.memory.buffer, records, SIZES.length * NODE_BYTES), records);
    return planGraph(host, { records, nLeafs: 0, nNodes: SIZES.length });
  });
}

function writeChain(v: DataView, records: number): void {
  new Uint8Array(v.buffer, v.byteOffset, v.byteLength).fill(0);
  SIZES.forEach((size, i) => {
    const at = i * NODE_BYTES;
    const before = records + at - NODE_BYTES;
    v.setFloat64(at + NODE_SIZE, size, true);
    if (i > 0) v.setUint32(at + NODE_SRC, before, true);
    if (i === IN_PLACE) v.setInt32(at + NODE_FLAGS, Flag.INPLACE, true);
    if (i === VIEW) v.setUint32(at + NODE_VIEW_SRC, before, true);
  });
}
