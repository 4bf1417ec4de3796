// The list of exports, and the two ways into a run.

import { NODE_BYTES, CTRL_FIRST, CTRL_LAST, CTRL_NTH, CTRL_RECORDS } from "./abi";
import { computeNodes } from "./compute";
import {
  done,
  endTouch,
  fail,
  isTouch,
  jobNumber,
  join,
  leave,
  nextJob,
  post,
  ready,
  touch,
  touchPages,
} from "./control";
import { planLive, planWrite } from "./plan/liveness";
import { planPlace } from "./plan/place";
import { dequantizeRow, quantizeRow } from "./quants/index";
import { fromQuads, quadScratch, toQuads, toQuadsFrom } from "./quants/quads";
import { regionAlloc, regionBytes, regionFree, regionInit, regionShortfall } from "./region";
import { probeDot, selfTest } from "./selftest";

export { planLive, planWrite, planPlace };
export { dequantizeRow, probeDot, quantizeRow, selfTest };
export { fromQuads, quadScratch, toQuads, toQuadsFrom };
export {
  done,
  endTouch,
  fail,
  jobNumber,
  join,
  leave,
  ready,
  regionAlloc,
  regionBytes,
  regionFree,
  regionInit,
  regionShortfall,
  touch,
};

/** Bytes of a node record, for the check against the TypeScript side. */
export function nodeBytes(): i32 {
  return NODE_BYTES;
}

/** Thread 0: hands out nodes [first, last), computes its share, waits for the others. Returns a Status. */
export function run(records: usize, first: i32, last: i32, nth: i32): i32 {
  post(records, first, last, nth);
  computeNodes(records, first, last, 0, nth);
  return join(nth);
}

/** Worker `ith`: takes jobs after number `seen` until told to leave. Returns only then. */
export function serve(ith: i32, seen: i32): void {
  for (;;) {
    seen = nextJob(seen);
    if (seen < 0) return;
    const nth = load<i32>(CTRL_NTH);
    if (isTouch()) touchPages();
    else if (ith >= nth) continue;
    else computeNodes(load<usize>(CTRL_RECORDS), load<i32>(CTRL_FIRST), load<i32>(CTRL_LAST), ith, nth);
    done();
  }
}
